// A matrix product in blocks that stay in the cache while they are read again.
#pragma once

#include <algorithm>

#include "memory.hpp"
#include "tile.hpp"

namespace manyheads {

// to[r, :] += Σ_k a[r·row + k·step] · b[k·stride + :], for `columns` that are whole vectors. It takes DEPTH
// values of k at a time, and copies these rows of b, a few columns of each, side by side. Read in place, the rows of a
// wide b would share few sets of the cache.
template <class T> void add_product(const T *a, std::ptrdiff_t row, std::ptrdiff_t step, int rows, int depth, const T *b,
                                    std::ptrdiff_t stride, int columns, T *to, std::ptrdiff_t to_stride) {
    constexpr int DEPTH = 128, ROWS = 192;
    Buffer<T> side_by_side(std::size_t(columns) * std::min(DEPTH, depth));
    for (int first = 0; first < depth; first += DEPTH) {
        const int count = std::min(DEPTH, depth - first);
        vector_blocks<T>(columns, [&](auto V, int c) MANYHEADS_INLINE {
            constexpr int SPAN = V * WIDTH<T>;
            T *const panel = side_by_side.data() + std::size_t(c) * count;
            for (int k = 0; k < count; ++k) std::copy_n(b + (first + k) * stride + c, SPAN, panel + k * SPAN);
        });
        for (int from = 0; from < rows; from += ROWS) {
            const T *const left = a + from * row + first * step;
            T *const out = to + from * to_stride;
            vector_blocks<T>(columns, [&](auto V, int c) MANYHEADS_INLINE {
                constexpr int SPAN = V * WIDTH<T>;
                const T *const panel = side_by_side.data() + std::size_t(c) * count;
                row_blocks<4>(std::min(ROWS, rows - from), [=](auto R, int r) MANYHEADS_INLINE {
                    Tile<T, R, V> tile;
                    tile.load_from(out + r * to_stride + c, to_stride);
                    tile.accumulate(left + r * row, row, step, count,
                                    [=](std::ptrdiff_t k, auto v) MANYHEADS_INLINE { return load(panel + k * SPAN + v * WIDTH<T>); });
                    tile.store_to(out + r * to_stride + c, to_stride);
                });
            });
        }
    }
}

// Compiled in product.cpp.
extern template void add_product(const float *, std::ptrdiff_t, std::ptrdiff_t, int, int, const float *, std::ptrdiff_t, int, float *,
                                 std::ptrdiff_t);
extern template void add_product(const double *, std::ptrdiff_t, std::ptrdiff_t, int, int, const double *, std::ptrdiff_t, int, double *,
                                 std::ptrdiff_t);

}  // namespace manyheads
