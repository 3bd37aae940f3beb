// refuse: throws an exception. The build for browsers has no exceptions; there it stops the program.
#pragma once

namespace manyheads {

template <class Exception> [[noreturn]] inline void refuse([[maybe_unused]] const Exception &exception) {
#if defined(__cpp_exceptions)
    throw exception;
#else
    __builtin_trap();
#endif
}

}  // namespace manyheads
