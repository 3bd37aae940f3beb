// The binding of the matrix product. It runs on the caller's thread only, at any size.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "arrays.hpp"
#include "engine/product.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace manyheads;

namespace {

template <class T> using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

template <class T> void multiply(const Matrix<const T> &left, const Matrix<const T> &right, const Matrix<T> &out) {
    constexpr int W = WIDTH<T>;
    const int rows = static_cast<int>(left.shape(0)), inner = static_cast<int>(left.shape(1)), columns = static_cast<int>(right.shape(1));
    require(right.shape(0) == left.shape(1), "left has another width than right has rows");
    require(out.shape(0) == left.shape(0) && out.shape(1) == right.shape(1), "out has another shape than the product");
    require((right.size() == 0 || right.stride(1) == 1) && (out.size() == 0 || out.stride(1) == 1), "the rows of right and out have gaps");
    nb::gil_scoped_release released;
    const int whole = columns / W * W, rest = columns - whole;
    const T *const a = left.data(), *const b = right.data();
    T *const to = out.data();
    for (int r = 0; r < rows; ++r) std::fill_n(to + r * out.stride(0), columns, T(0));
    add_product(a, left.stride(0), left.stride(1), rows, inner, b, right.stride(0), whole, to, out.stride(0));
    if (rest == 0) return;
    Buffer<T> last(std::size_t(inner) * W), product(std::size_t(rows) * W);  // the last columns, filled up with zeros
    for (int k = 0; k < inner; ++k) std::copy_n(b + k * right.stride(0) + whole, rest, last.data() + std::size_t(k) * W);
    add_product(a, left.stride(0), left.stride(1), rows, inner, last.data(), W, W, product.data(), W);
    for (int r = 0; r < rows; ++r) std::copy_n(product.data() + std::size_t(r) * W, rest, to + r * out.stride(0) + whole);
}

}  // namespace

void register_product(nb::module_ &m) {
    constexpr auto doc = "Write left @ right to out, in the precision of all three. Each element is one chain of multiply-adds in "
                         "order, fused where the CPU can.";
    m.def("multiply", &multiply<double>, "left"_a, "right"_a, "out"_a.noconvert(), doc);
    m.def("multiply", &multiply<float>, "left"_a, "right"_a, "out"_a.noconvert(), doc);
}
