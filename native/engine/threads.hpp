// Work that is divided among threads. An exception on any thread reaches the caller. The build for browsers has neither
// threads nor exceptions: there the parts follow one another.
#pragma once

#if defined(__wasm__)

namespace manyheads {

template <class Body> void on_threads(int count, Body &&body) {
    for (int n = 0; n < count; ++n) body(n);
}

}  // namespace manyheads

#else

#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace manyheads {

// Joins its threads when it goes out of scope, also where starting a further thread throws: the destructor of a thread
// that was not joined would end the process. (std::jthread does the same, but not every C++20 library has it.)
struct Threads : std::vector<std::thread> {
    ~Threads() {
        for (std::thread &thread : *this) thread.join();
    }
};

// How a thread starts. A test passes another function, which fails.
inline constexpr auto start_thread = [](Threads &threads, auto &&work) { threads.emplace_back(work); };

// Calls body(n) for n = 0 … count − 1, each on a thread of its own, the first on the caller's. Ends when all have ended.
// Throws the exception of the first body that threw, or a std::runtime_error where the system starts no further thread.
template <class Body, class Start> void on_threads(int count, Body &&body, Start &&start) {
    std::vector<std::exception_ptr> errors(count);
    const auto guarded = [&](int n) {
        try {
            body(n);
        } catch (...) {
            errors[n] = std::current_exception();
        }
    };
    {
        Threads others;
        others.reserve(count - 1);
        for (int n = 1; n < count; ++n) try {
                start(others, [&guarded, n] { guarded(n); });
            } catch (const std::system_error &) {
                throw std::runtime_error("this machine starts " + std::to_string(n) + " of " + std::to_string(count) +
                                         " threads: use fewer workers");
            }
        guarded(0);
    }
    for (const std::exception_ptr &error : errors)
        if (error) std::rethrow_exception(error);
}

template <class Body> void on_threads(int count, Body &&body) { on_threads(count, body, start_thread); }

}  // namespace manyheads

#endif
