// The binding of the edge colouring.
#include "colouring/colouring.hpp"

#include <memory>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Ends = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Colours = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

Colours equitable_colouring(Ends left, Ends right, std::int64_t vertices, std::int64_t colours) {
    using Result = std::vector<std::int64_t>;
    std::unique_ptr<Result> result;
    {
        nb::gil_scoped_release release;
        result = std::make_unique<Result>(
            manyheads::equitable_colouring({left.data(), left.size()}, {right.data(), right.size()}, vertices, colours));
    }
    Result *data = result.get();
    nb::capsule owner(result.release(), [](void *p) noexcept { delete static_cast<Result *>(p); });
    return Colours(data->data(), {data->size()}, owner);
}

}  // namespace

void register_colouring(nb::module_ &m) {
    m.def("equitable_colouring", &equitable_colouring, "left"_a, "right"_a, "vertices"_a, "colours"_a,
          "Return the colour of each edge left[e] – right[e] of a bipartite multigraph. No two edges of a colour share an "
          "end, and the sizes of the colour classes differ by at most one.");
}
