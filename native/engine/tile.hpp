// The one matrix kernel of the engine: a tile of R rows and V vectors kept in registers,
//     tile[r, :] += Σ_k  a[r·row + k·step] · b(k)[:]
// Projections, scores, their gradients and the value channel are all this sum with other operands. The caller decides
// about a finished tile: it is stored, joined into a maximum, or given to the optimiser. Every element is one
// chain of fused multiply-adds in the order of k, so its bits do not depend on how a matrix is cut into tiles.
#pragma once

#include <cstddef>

#include "simd.hpp"
#include "wins.hpp"

namespace manyheads {

constexpr int TILE_VECTORS = 2;

template <class T, int R, int V> struct Tile {
    Vec<T> at[R][V];

    template <class Body> MANYHEADS_INLINE static void each(Body &&body) {
        unroll<R>([&](auto r) MANYHEADS_INLINE { unroll<V>([&](auto v) MANYHEADS_INLINE { body(r, v); }); });
    }
    MANYHEADS_INLINE void clear() {
        each([&](auto r, auto v) MANYHEADS_INLINE { at[r][v] = Vec<T>{}; });
    }
    MANYHEADS_INLINE void load_from(const T *p, std::ptrdiff_t row) {
        each([&](auto r, auto v) MANYHEADS_INLINE { at[r][v] = load(p + r * row + v * WIDTH<T>); });
    }
    MANYHEADS_INLINE void store_to(T *p, std::ptrdiff_t row) const {
        each([&](auto r, auto v) MANYHEADS_INLINE { store<T>(p + r * row + v * WIDTH<T>, at[r][v]); });
    }
    // One k of the sum.
    template <class Operand> MANYHEADS_INLINE void add(const T *a, std::ptrdiff_t row, Operand &&b) {
        Vec<T> right[V];
        unroll<V>([&](auto v) MANYHEADS_INLINE {
            right[v] = b(v);
            in_register<T>(right[v]);
        });
        unroll<R>([&](auto r) MANYHEADS_INLINE {
            const Vec<T> left = all<T>(a[r * row]);
            unroll<V>([&](auto v) MANYHEADS_INLINE { at[r][v] += left * right[v]; });
        });
    }
    template <class Operand>
    MANYHEADS_INLINE void accumulate(const T *a, std::ptrdiff_t row, std::ptrdiff_t step, std::ptrdiff_t depth, Operand &&b) {
        for (std::ptrdiff_t k = 0; k < depth; ++k) add(a + k * step, row, [&](auto v) MANYHEADS_INLINE { return b(k, v); });
    }
    template <class Operand>
    MANYHEADS_INLINE void accumulate(const T *a, std::ptrdiff_t row, std::ptrdiff_t step, Places terms, Operand &&b) {
        terms.each([&](std::ptrdiff_t k) MANYHEADS_INLINE { add(a + k * step, row, [&](auto v) MANYHEADS_INLINE { return b(k, v); }); });
    }
};

// Calls body(R, first) for blocks of at most MOST rows, as equal as they can be. Four rows of two vectors are eight
// chains of additions, just enough to hide the latency of one.
template <int MOST, class Body> MANYHEADS_INLINE inline void row_blocks(int rows, Body &&body) {
    const int blocks = (rows + MOST - 1) / MOST, least = rows / blocks, larger = rows % blocks;
    int first = 0;
    for (const auto &[size, count] : {std::pair(least + 1, larger), std::pair(least, blocks - larger)})
        unroll<MOST>([&, size = size, count = count](auto i) MANYHEADS_INLINE {
            if (size != i + 1) return;
            for (const int end = first + count * size; first != end; first += i + 1) body(std::integral_constant<int, i + 1>{}, first);
        });
}

// The same, where the last block has the rest: no division, for blocks of a few products only.
template <int MOST, class Body> MANYHEADS_INLINE inline void whole_row_blocks(int rows, Body &&body) {
    int first = 0;
    for (; first + MOST <= rows; first += MOST) body(std::integral_constant<int, MOST>{}, first);
    unroll<MOST - 1>([&](auto i) MANYHEADS_INLINE {
        if (rows - first == i + 1) body(std::integral_constant<int, i + 1>{}, first);
    });
}

// Calls body(V, first element) for blocks of at most MOST vectors, which are one or two.
template <class T, int MOST = TILE_VECTORS, class Body> MANYHEADS_INLINE inline void vector_blocks(int elements, Body &&body) {
    constexpr int whole = MOST * WIDTH<T>;
    int first = 0;
    for (; first + whole <= elements; first += whole) body(std::integral_constant<int, MOST>{}, first);
    if (first < elements) body(std::integral_constant<int, 1>{}, first);
}

}  // namespace manyheads
