// The extension module manyheads._cpu: the levels of the kernels in this build, and those that this CPU can run. It is
// compiled for any CPU, and it is loaded before the kernels.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>
#include <initializer_list>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

constexpr const char *LEVELS[] = {MANYHEADS_LEVELS};  // oldest first; native/CMakeLists.txt

#if defined(__x86_64__)
// The levels of the x86-64 psABI. The compiler's function also asks whether the system saves the vector registers. Not
// every compiler's function knows MOVBE, F16C and LZCNT, so these three are read from the CPU.
bool has_v2() {
    return __builtin_cpu_supports("sse3") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
           __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}

bool has_v3() {
    unsigned a, b, c, d, e, f, g, h;
    const bool others = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_MOVBE) && (c & bit_F16C) &&  //
                        __get_cpuid(0x80000001, &e, &f, &g, &h) && (g & (1u << 5));             // LZCNT
    return has_v2() && others && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
}

bool has_v4() {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

bool runs([[maybe_unused]] const char *level) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!std::strcmp(level, "v2")) return has_v2();
    if (!std::strcmp(level, "v3")) return has_v3();
    if (!std::strcmp(level, "v4")) return has_v4();
#endif
    return true;  // native: built on this machine. baseline: every CPU of the kind can run it
}

// A tuple of the levels in this build: all, or those that this CPU can run.
PyObject *names(bool all) {
    PyObject *list = PyList_New(0);
    for (const char *level : LEVELS) {
        if (!list || !(all || runs(level))) continue;
        PyObject *name = PyUnicode_FromString(level);
        if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : nullptr;
    Py_XDECREF(list);
    return tuple;
}

int fill(PyObject *module) {
    for (const bool all : {true, false}) {
        PyObject *tuple = names(all);
        if (!tuple || PyModule_AddObject(module, all ? "built" : "supported", tuple) < 0) return Py_XDECREF(tuple), -1;
    }
    return 0;
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void *>(fill)}, {0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_cpu",
                          "Levels of the kernels: built, and supported by this CPU.",
                          0,
                          nullptr,
                          slots,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__cpu() { return PyModuleDef_Init(&definition); }
