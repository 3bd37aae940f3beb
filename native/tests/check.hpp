// The few macros that the unit tests need: TEST registers a function, CHECK counts a failure and prints where it is.
#pragma once

#include <cstdio>
#include <vector>

namespace check {

struct Test {
    const char *name;
    void (*run)();
};

inline std::vector<Test> tests;
inline int failures = 0;

struct Register {
    Register(const char *name, void (*run)()) { tests.push_back({name, run}); }
};

}  // namespace check

#define TEST(name)                                                                                                                         \
    static void name();                                                                                                                    \
    static const check::Register register_##name(#name, name);                                                                             \
    static void name()

#define CHECK(condition)                                                                                                                   \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            if (++check::failures <= 20) std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
        }                                                                                                                                  \
    } while (false)
