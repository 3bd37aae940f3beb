// The array types of the bindings, and the checks of arrays from Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <stdexcept>

#include "engine/contexts.hpp"
#include "engine/settings.hpp"

namespace manyheads {

template <class T, int N> using Array = nanobind::ndarray<const T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;
using Indices = Array<std::int64_t, 1>;
using Numbers = nanobind::ndarray<nanobind::numpy, double>;

inline void require(bool condition, const char *sentence) {
    if (!condition) throw std::invalid_argument(sentence);
}

// The engine uses these indices without a check, so they are checked here.
inline Relations relations_from(const Indices &row_starts, const Indices &targets) {
    require(row_starts.shape(0) >= 1 && row_starts.shape(0) <= std::size_t(MOST_ITEMS) + 1, "row_starts are of 0 to 2^30 items");
    const std::size_t items = row_starts.shape(0) - 1;
    require(row_starts.data()[0] == 0 && row_starts.data()[items] == static_cast<std::int64_t>(targets.shape(0)) &&
                std::is_sorted(row_starts.data(), row_starts.data() + items + 1),
            "row_starts do not cut the targets into rows");
    require(std::all_of(targets.data(), targets.data() + targets.shape(0),
                        [&](std::int64_t t) { return 0 <= t && t < static_cast<std::int64_t>(items); }),
            "a target is not among the items");
    return {row_starts.data(), targets.data(), items};
}

template <class T> nanobind::ndarray<nanobind::numpy, T> owned(std::unique_ptr<T[]> data, std::initializer_list<std::size_t> shape) {
    nanobind::capsule owner(data.get(), [](void *p) noexcept { delete[] static_cast<T *>(p); });
    return nanobind::ndarray<nanobind::numpy, T>(data.release(), shape, owner);
}

}  // namespace manyheads
