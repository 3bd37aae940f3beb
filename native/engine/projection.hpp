// From a context's items to their queries and keys, and from the gradients of those back to the weights.
#pragma once

#include "positions.hpp"
#include "rows.hpp"
#include "tile.hpp"
#include "weights.hpp"

namespace manyheads {

constexpr int BLOCK_ROWS = MANYHEADS_VECTOR_BYTES == 64 ? 8 : 4;  // rows of two vectors; with 512 bits there are 32 registers

// projected[row, :] += Σ_d weight[row, d] · x[:, d] over the d of one panel, for the rows of queries and keys together;
// the first panel starts the sums.
template <class T, int FIXED> void project_panel(const Layout<T> layout, const Positions<T, FIXED> positions, int panel, const T *weights,
                                                 const Gathered<T> &x, T *projected) {
    const std::ptrdiff_t stride = positions.stride();
    const T *from = weights + layout.start(panel);
    const T *right = x.across(panel * PANEL<T>);
    const std::ptrdiff_t depth = layout.depth(panel), width = layout.width(panel);
    row_blocks<4>(layout.rows(), [=](auto R, int c) MANYHEADS_INLINE {
        vector_blocks<T>(stride, [=](auto V, int p) MANYHEADS_INLINE {
            Tile<T, R, V> tile;
            T *to = projected + c * stride + p;
            if (panel == 0) tile.clear();
            else tile.load_from(to, stride);
            const auto operand = [=](std::ptrdiff_t d, auto v) MANYHEADS_INLINE { return load(right + d * stride + p + v * WIDTH<T>); };
            if (depth == PANEL<T>) tile.accumulate(from + c * PANEL<T>, PANEL<T>, 1, PANEL<T>, operand);
            else tile.accumulate(from + c * width, width, 1, depth, operand);
            tile.store_to(to, stride);
        });
    });
}

template <class T, int FIXED>
void project(const Layout<T> layout, const Positions<T, FIXED> positions, const T *weights, const Gathered<T> &x, T *projected) {
    for (int panel = 0; panel < layout.panels(); ++panel) project_panel(layout, positions, panel, weights, x, projected);
}

// The gradients of some rows for one panel: gradient[row, :] = Σ_p by_projection[row, p] · panel_rows[p, :] over the positions
// `terms`. A block of rows is handed on when it is finished.
template <class T, class Terms, class Sink> MANYHEADS_INLINE inline void
block_gradients(int rows, std::ptrdiff_t stride, int width, const T *by_projection, const T *panel_rows, const Terms terms, Sink &sink) {
    alignas(64) T finished[BLOCK_ROWS * PANEL<T>];
    whole_row_blocks<BLOCK_ROWS>(rows, [&](auto R, int c) MANYHEADS_INLINE {
        vector_blocks<T>(width, [&](auto V, int d) MANYHEADS_INLINE {
            Tile<T, R, V> tile;
            tile.clear();
            const T *const right = panel_rows + d;
            tile.accumulate(by_projection + c * stride, stride, 1, terms,
                            [=](std::ptrdiff_t p, auto v) MANYHEADS_INLINE { return load(right + p * PANEL<T> + v * WIDTH<T>); });
            tile.store_to(finished + d, width);
        });
        for (int n = 0; n < R * width; n += WIDTH<T>) sink(load(finished + n));
    });
}

// The rows of a context for one panel, side by side.
template <class T, int FIXED> MANYHEADS_INLINE inline void gather_panel(const Layout<T> &layout, const Positions<T, FIXED> positions,
                                                                        int panel, const Gathered<T> &x, T *panel_rows) {
    for (int p = 0; p < positions.length(); ++p)
        for (int d = 0; d < layout.width(panel); d += WIDTH<T>)
            store<T>(panel_rows + p * PANEL<T> + d, load(x.row(p) + panel * PANEL<T> + d));
}

// weight_gradients where a block of rows is handed on when it is finished: in a browser, and where `wins` says that most
// positions of a head have no gradient, so that few products are left. Not inline, so that the other way keeps its registers.
template <class T, int FIXED, class Sink, class Then>
__attribute__((noinline)) Sink weight_gradients_by_blocks(const Layout<T> layout, const Positions<T, FIXED> positions,
                                                          const T *by_projection, const Gathered<T> &x, T *panel_rows, const Wins *wins,
                                                          Sink sink, Then then) {
    const std::ptrdiff_t stride = positions.stride(), length = positions.length();
    for (int panel = 0; panel < layout.panels(); ++panel) {
        gather_panel(layout, positions, panel, x, panel_rows);
        const T *rows = by_projection;
        if (!wins) block_gradients<T>(layout.rows(), stride, layout.width(panel), rows, panel_rows, length, sink);
        else
            for (const Places places : wins->of_rows()) {
                block_gradients<T>(layout.key_width, stride, layout.width(panel), rows, panel_rows, places, sink);
                rows += layout.key_width * stride;
            }
        then(sink);
    }
    return sink;
}

// Hands sink(gradient) the gradient of every vector of weights in the order of memory:
// gradient[row, d] = Σ_p by_projection[row, p] · x[p, d]. A finished tile waits, and is handed on vector by vector
// between the products of the next: the optimiser keeps other parts of the CPU busy than they do. In a browser both
// together have too few registers. After every panel then(sink) is called.
template <class T, int FIXED, class Sink, class Then> Sink weight_gradients(const Layout<T> layout, const Positions<T, FIXED> positions,
                                                                            const T *by_projection, const Gathered<T> &x, T *panel_rows,
                                                                            const Wins *wins, Sink sink, Then then) {
    if (BROWSER || wins) return weight_gradients_by_blocks(layout, positions, by_projection, x, panel_rows, wins, sink, then);
    constexpr int W = WIDTH<T>, ROWS = 4;
    const std::ptrdiff_t stride = positions.stride(), length = positions.length();
    alignas(64) T waiting[ROWS * PANEL<T>];
    int count = 0;  // of vectors that wait
    for (int panel = 0; panel < layout.panels(); ++panel) {
        const int width = layout.width(panel);
        gather_panel(layout, positions, panel, x, panel_rows);
        vector_blocks<T>(width, [&](auto V, int) MANYHEADS_INLINE {
            row_blocks<ROWS>(layout.rows(), [&](auto R, int c) MANYHEADS_INLINE {
                Tile<T, R, V> tile;
                tile.clear();
                const T *left = by_projection + c * stride, *right = panel_rows, *next = waiting;
                const auto product = [&]() MANYHEADS_INLINE {
                    tile.add(left, stride, [=](auto v) MANYHEADS_INLINE { return load(right + v * W); });
                    left += 1, right += PANEL<T>;
                };
                const auto hand_on = [&](int vectors) MANYHEADS_INLINE {
                    for (int n = 0; n < vectors; ++n, next += W) {
                        product();
                        product();
                        sink(load(next));
                    }
                };
                if (2 * count == length) {
                    hand_on(length / 2);
                } else {
                    const int together = std::min<int>(count, length / 2);
                    hand_on(together);
                    for (int p = 2 * together; p < length; ++p) product();
                    for (int n = together; n < count; ++n, next += W) sink(load(next));
                }
                tile.store_to(waiting, V * W);
                count = R * V;
            });
        });
        then(sink);
    }
    for (int n = 0; n < count; ++n) sink(load(waiting + n * W));
    return sink;
}

// Writes all gradients to by_weight. Only tests call it, so one version serves every context length.
template <class T> void store_weight_gradients(const Layout<T> layout, const Positions<T, 0> positions, const T *by_projection,
                                               const Gathered<T> &x, T *panel_rows, const Wins *wins, T *by_weight) {
    const auto keep = [by_weight](Vec<T> g) mutable { store<T>(by_weight, g), by_weight += WIDTH<T>; };
    weight_gradients(layout, positions, by_projection, x, panel_rows, wins, keep, [](const auto &) {});
}

}  // namespace manyheads
