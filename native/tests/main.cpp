// Runs all unit tests. Exit code 1 if a check failed.
#include "check.hpp"

int main() {
    for (const check::Test &test : check::tests) {
        const int before = check::failures;
        test.run();
        std::printf("%-60s %s\n", test.name, check::failures == before ? "passed" : "FAILED");
    }
    return check::failures ? 1 : 0;
}
