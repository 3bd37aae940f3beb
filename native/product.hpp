// A matrix product cut so that what it reads again stays in the cache.
#pragma once

#include "tile.hpp"

namespace manyheads {

// to[r, :] += Σ_k a[r·row + k·step] · b[k·stride + :], for `columns` that are whole vectors. A few hundred k at a time:
// so many rows of b are read again for every four rows of the result.
template <class T>
void add_product(const T *a, std::ptrdiff_t row, std::ptrdiff_t step, int rows, int depth, const T *b, std::ptrdiff_t stride,
                 int columns, T *to, std::ptrdiff_t to_stride) {
    constexpr int DEPTH = 128;
    for (int first = 0; first < depth; first += DEPTH) {
        const int count = std::min(DEPTH, depth - first);
        const T *const left = a + first * step, *const right = b + first * stride;
        row_blocks<4>(rows, [=](auto R, int r) MANYHEADS_INLINE {
            vector_blocks<T>(columns, [=](auto V, int c) MANYHEADS_INLINE {
                Tile<T, R, V> tile;
                tile.load_from(to + r * to_stride + c, to_stride);
                tile.accumulate(left + r * row, row, step, count, [=](std::ptrdiff_t k, auto v) MANYHEADS_INLINE {
                    return load(right + k * stride + c + v * WIDTH<T>);
                });
                tile.store_to(to + r * to_stride + c, to_stride);
            });
        });
    }
}

}  // namespace manyheads
