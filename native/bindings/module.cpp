// The extension module manyheads._kernels_LEVEL: all compiled parts, for one instruction set. src/manyheads/_native.py
// loads one of these modules.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void register_certificate(nb::module_ &m);
void register_colouring(nb::module_ &m);
void register_fitting(nb::module_ &m);
void register_product(nb::module_ &m);
void register_training(nb::module_ &m);

NB_MODULE(MANYHEADS_MODULE, m) {
    m.doc() = "The compiled parts of manyheads.";
    m.attr("isa") = MANYHEADS_LEVEL;
#if defined(__clang__)
    m.attr("compiler") = "Clang " __clang_version__;
#else
    m.attr("compiler") = "GCC " __VERSION__;
#endif
    register_certificate(m);
    register_colouring(m);
    register_fitting(m);
    register_training(m);
    register_product(m);
}
