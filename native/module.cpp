// manyheads._native: each part of native/ registers its own functions here.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void register_colouring(nb::module_ &m);
void register_fitting(nb::module_ &m);
void register_hard(nb::module_ &m);
void register_product(nb::module_ &m);
void register_training(nb::module_ &m);

NB_MODULE(_native, m) {
    m.doc() = "Compiled parts of manyheads.";
#if defined(__clang__)
    m.attr("compiler") = "Clang " __clang_version__;
#else
    m.attr("compiler") = "GCC " __VERSION__;
#endif
    register_colouring(m);
    register_fitting(m);
    register_training(m);
    register_hard(m);
    register_product(m);
}
