// How the heads score the pairs of a context under each rule, and how a gradient by score reaches queries and keys.
#pragma once

#include <cmath>
#include <optional>

#include "positions.hpp"
#include "rows.hpp"
#include "tile.hpp"
#include "wins.hpp"

namespace manyheads {

// The scores Q_k(p)·K_k(q) of one head for a tile of pairs.
template <int R, int V, class T, int FIXED>
MANYHEADS_INLINE inline Tile<T, R, V> head_scores(const Shape<T, FIXED> s, const T *query, const T *key, int p, int q) {
    Tile<T, R, V> tile;
    tile.clear();
    tile.accumulate(query + p, 1, s.stride(), s.key_width,
                    [=](std::ptrdiff_t c, auto v) MANYHEADS_INLINE { return load(key + c * s.stride() + q + v * WIDTH<T>); });
    return tile;
}

// result[c, :] = Σ_t a[c, t]·weight(t, :) for the rows c of one head: the gradient of its queries or of its keys. ADD: to
// the sum over the heads before, which share the keys.
template <bool ADD, class T, int FIXED, class Weight>
MANYHEADS_INLINE inline void head_gradient(const Shape<T, FIXED> s, const T *a, T *result, const Weight weight) {
    constexpr int ROWS = BROWSER ? 7 : 6, VECTORS = BROWSER ? 1 : TILE_VECTORS;
    row_blocks<ROWS>(s.key_width, [=](auto R, int c) MANYHEADS_INLINE {
        vector_blocks<T, VECTORS>(s.stride(), [=](auto V, int first) MANYHEADS_INLINE {
            Tile<T, R, V> tile;
            T *const to = result + std::ptrdiff_t(c) * s.stride() + first;
            if (ADD) tile.load_from(to, s.stride());
            else tile.clear();
            tile.accumulate(a + std::ptrdiff_t(c) * s.stride(), s.stride(), 1, s.length(),
                            [=](std::ptrdiff_t t, auto v) MANYHEADS_INLINE { return weight(t * s.stride() + first + v * WIDTH<T>); });
            tile.store_to(to, s.stride());
        });
    });
}

// The gradients of the queries of two heads that share the keys `a`: each element of the keys is loaded once for both.
template <class T, int FIXED, class First, class Second>
MANYHEADS_INLINE inline void pair_gradient(const Shape<T, FIXED> s, const T *a, T *result, const First one, const Second other) {
    row_blocks<6>(s.key_width, [=](auto R, int c) MANYHEADS_INLINE {
        for (int first = 0; first < s.stride(); first += WIDTH<T>) {
            Tile<T, R, 2> tile;
            tile.clear();
            tile.accumulate(a + std::ptrdiff_t(c) * s.stride(), s.stride(), 1, s.length(), [=](std::ptrdiff_t t, auto v) MANYHEADS_INLINE {
                if constexpr (v == 0) return one(t * s.stride() + first);
                else return other(t * s.stride() + first);
            });
            T *const to = result + std::ptrdiff_t(c) * s.stride() + first;
            tile.each([&](auto r, auto v)
                          MANYHEADS_INLINE { store<T>(to + r * std::ptrdiff_t(s.stride()) + v * s.head(1), tile.at[r][v]); });
        }
    });
}

// Rule max: S(p, q) = max_k Q_k(p)·K_k(q), ties to the lowest k; only the winning head of a pair has a gradient.
template <class T, int FIXED> class MaxScores {
public:
    explicit MaxScores(const Shape<T, FIXED> &s)
        : s_(s), score_(s.pairs()), winner_(s.pairs()), across_(s.pairs()), winner_across_(s.pairs()) {
        if (Wins::pay(s.heads, s.length())) wins_.emplace(s.heads, s.key_heads);
    }

    const T *forward(const T *query, const T *key) {
        const Shape<T, FIXED> s = s_;  // copies, so that no store can change them under the loop
        T *const score = score_.data();
        Int<T> *const winner = winner_.data();
        constexpr int ROWS = FIXED == WIDTH<T> ? 4 : 2;  // best scores, winners and a tile together fill the registers
        row_blocks<ROWS>(s.length(), [=](auto R, int p) MANYHEADS_INLINE {
            vector_blocks<T>(s.stride(), [=](auto V, int q) MANYHEADS_INLINE {
                auto best = head_scores<R, V>(s, query, key, p, q);
                Bits<T> won_by[R][V] = {};
                const T *key_head = key;
                for (int k = 1, next = s.group; k < s.heads; ++k) {
                    if (k == next) key_head += s.head(1), next += s.group;
                    const auto tile = head_scores<R, V>(s, query + s.head(k), key_head, p, q);
                    tile.each([&](auto r, auto v) MANYHEADS_INLINE {
                        const Bits<T> better = tile.at[r][v] > best.at[r][v];
                        best.at[r][v] = better ? tile.at[r][v] : best.at[r][v];
                        won_by[r][v] = better ? all_bits<T>(k) : won_by[r][v];
                    });
                }
                best.store_to(score + std::ptrdiff_t(p) * s.stride() + q, s.stride());
                best.each([&](auto r, auto v) MANYHEADS_INLINE {
                    store_bits<T>(winner + std::ptrdiff_t(p + r) * s.stride() + q + v * WIDTH<T>, won_by[r][v]);
                });
            });
        });
        return score;
    }

    void backward(const T *projected, const T *by_score, T *by_projection) {
        const Shape<T, FIXED> s = s_;
        const std::ptrdiff_t stride = s.stride();
        transpose_into(by_score, stride, stride, stride, across_.data(), stride);
        transpose_into(reinterpret_cast<const T *>(winner_.data()), stride, stride, stride, reinterpret_cast<T *>(winner_across_.data()),
                       stride);
        const auto won = [](int k, const T *gradient, const Int<T> *winner) MANYHEADS_INLINE {
            return [=](std::ptrdiff_t at)
                       MANYHEADS_INLINE { return (Vec<T>)((Bits<T>)load(gradient + at) & (load_bits<T>(winner + at) == all_bits<T>(k))); };
        };
        const auto won_across = [&](int k) MANYHEADS_INLINE { return won(k, across_.data(), winner_across_.data()); };
        if (wins_) return backward_of_wins(projected, by_projection, won_across, [&](int k) { return won(k, by_score, winner_.data()); });
        s.each_key_head([&](std::ptrdiff_t key, int first, int end) MANYHEADS_INLINE {
            int k = first;
            for (; k + 1 < end; k += 2) pair_gradient(s, projected + key, by_projection + s.head(k), won_across(k), won_across(k + 1));
            if (k < end) head_gradient<false>(s, projected + key, by_projection + s.head(k), won_across(k));
            if (first + 1 == end)
                head_gradient<false>(s, projected + s.head(first), by_projection + key, won(first, by_score, winner_.data()));
            else
                add_up_heads(projected, by_projection + key, first, end,
                             [&](int k) MANYHEADS_INLINE { return won(k, by_score, winner_.data()); });
        });
    }

    // After backward: where heads have a gradient, if there are so many heads that this pays.
    const Wins *wins() const { return wins_ ? &*wins_ : nullptr; }

private:
    // The gradient of the keys that the heads first … end − 1 share, head by head, in a tile that is stored once for all.
    template <class Won> MANYHEADS_INLINE void add_up_heads(const T *projected, T *result, int first, int end, const Won won) const {
        const Shape<T, FIXED> s = s_;
        const std::ptrdiff_t stride = s.stride();
        row_blocks<BROWSER ? 7 : 6>(s.key_width, [&](auto R, int c) MANYHEADS_INLINE {
            for (int at = 0; at < stride; at += WIDTH<T>) {
                Tile<T, R, 1> tile;
                tile.clear();
                for (int k = first; k < end; ++k) {
                    const auto weight = won(k);
                    tile.accumulate(projected + s.head(k) + c * stride, stride, 1, s.length(),
                                    [=](std::ptrdiff_t t, auto) MANYHEADS_INLINE { return weight(t * stride + at); });
                }
                tile.store_to(result + c * stride + at, stride);
            }
        });
    }

    // The same sums without the terms of positions where a head wins no pair, which are zero. Blocks of rows come outside,
    // so that a head with few terms does not begin with a division. Not inline, so that the other way keeps its registers.
    template <class WonAcross, class Won>
    __attribute__((noinline)) void backward_of_wins(const T *projected, T *by_projection, const WonAcross won_across, const Won won) {
        const Shape<T, FIXED> s = s_;
        const std::ptrdiff_t stride = s.stride();
        wins_->find(winner_.data(), s.length(), stride);
        row_blocks<BROWSER ? 7 : 8>(s.key_width, [&](auto R, int c) MANYHEADS_INLINE {
            const auto sum = [=](Tile<T, R, 1> &tile, const T *a, Places places, int first, const auto weight) MANYHEADS_INLINE {
                tile.accumulate(a + c * stride, stride, 1, places,
                                [=](std::ptrdiff_t t, auto) MANYHEADS_INLINE { return weight(t * stride + first); });
            };
            for (int at = 0; at < stride; at += WIDTH<T>)
                s.each_key_head([&](std::ptrdiff_t key, int first, int end) MANYHEADS_INLINE {
                    Tile<T, R, 1> by_key;
                    by_key.clear();
                    for (int k = first; k < end; ++k) {
                        Tile<T, R, 1> by_query;
                        by_query.clear();
                        sum(by_query, projected + key, wins_->keys(k), at, won_across(k));
                        by_query.store_to(by_projection + s.head(k) + c * stride + at, stride);
                        sum(by_key, projected + s.head(k), wins_->queries(k), at, won(k));
                    }
                    by_key.store_to(by_projection + key + c * stride + at, stride);
                });
        });
    }

    Shape<T, FIXED> s_;
    Buffer<T> score_;
    Buffer<Int<T>> winner_;
    Buffer<T> across_;
    Buffer<Int<T>> winner_across_;
    std::optional<Wins> wins_;
};

// Rule softmax: S(p, q) = Σ_k softmax over q of Q_k(p)·K_k(q)/√d_k.
template <class T, int FIXED> class SoftmaxScores {
public:
    explicit SoftmaxScores(const Shape<T, FIXED> &s)
        : s_(s), scale_(static_cast<T>(1 / std::sqrt(double(s.key_width)))), score_(s.pairs()), share_(s.heads * s.pairs()),
          by_logit_(2 * s.pairs()), across_(2 * s.pairs()), inside_(s.stride()) {
        std::fill_n(inside_.data(), s.length(), T(1));
    }

    const T *forward(const T *query, const T *key) {
        const Shape<T, FIXED> s = s_;
        std::fill_n(score_.data(), s.pairs(), T(0));
        const T *key_head = key;
        for (int k = 0, next = s.group; k < s.heads; ++k) {
            if (k == next) key_head += s.head(1), next += s.group;
            T *const share = share_.data() + k * s.pairs();
            row_blocks<4>(s.length(), [=](auto R, int p) MANYHEADS_INLINE {
                vector_blocks<T>(s.stride(), [=](auto V, int q) MANYHEADS_INLINE {
                    const auto tile = head_scores<R, V>(s, query + s.head(k), key_head, p, q);
                    tile.store_to(share + std::ptrdiff_t(p) * s.stride() + q, s.stride());
                });
            });
            for (int p = 0; p < s.length(); ++p)
                share_out(share + std::ptrdiff_t(p) * s.stride(), score_.data() + std::ptrdiff_t(p) * s.stride());
        }
        return score_.data();
    }

    // With shares P: ∂/∂logit = P·(g − Σ_q P·g)/√d_k, row by row.
    void backward(const T *projected, const T *by_score, T *by_projection) {
        const Shape<T, FIXED> s = s_;
        const std::ptrdiff_t stride = s.stride();
        T *const by_logit = by_logit_.data(), *const across = across_.data();
        const auto differentiate = [&](int k, T *by_logit, T *across) MANYHEADS_INLINE {
            const T *const share = share_.data() + k * s.pairs();
            for (int p = 0; p < s.length(); ++p) {
                const std::ptrdiff_t row = p * stride;
                Vec<T> dot{};
                for (int q = 0; q < stride; q += WIDTH<T>) dot += load(share + row + q) * load(by_score + row + q);
                const T mean = sum_of<T>(dot);
                for (int q = 0; q < stride; q += WIDTH<T>)
                    store<T>(by_logit + row + q, scale_ * load(share + row + q) * (load(by_score + row + q) - mean));
            }
            transpose_into(by_logit, stride, stride, stride, across, stride);
        };
        const auto from = [](const T *weight)
                              MANYHEADS_INLINE { return [=](std::ptrdiff_t at) MANYHEADS_INLINE { return load(weight + at); }; };
        s.each_key_head([&](std::ptrdiff_t key, int first, int end) MANYHEADS_INLINE {
            for (int k = first; k < end;) {
                const int count = k + 1 < end ? 2 : 1;
                for (int n = 0; n < count; ++n) differentiate(k + n, by_logit + n * s.pairs(), across + n * s.pairs());
                if (count == 2) pair_gradient(s, projected + key, by_projection + s.head(k), from(across), from(across + s.pairs()));
                else head_gradient<false>(s, projected + key, by_projection + s.head(k), from(across));
                if (k == first) head_gradient<false>(s, projected + s.head(k), by_projection + key, from(by_logit));
                else head_gradient<true>(s, projected + s.head(k), by_projection + key, from(by_logit));
                if (count == 2) head_gradient<true>(s, projected + s.head(k + 1), by_projection + key, from(by_logit + s.pairs()));
                k += count;
            }
        });
    }

private:
    // Turns a row of raw scores into shares of one, the padding into zeros, and adds them to the row of the sum.
    void share_out(T *row, T *sum) const {
        const int stride = s_.stride();
        T highest = row[0];
        for (int q = 1; q < s_.length(); ++q) highest = row[q] > highest ? row[q] : highest;
        Vec<T> total{};
        for (int q = 0; q < stride; q += WIDTH<T>) {
            const Vec<T> inside = load(inside_.data() + q);
            const Vec<T> logit = inside > T(0) ? scale_ * (load(row + q) - highest) : Vec<T>{};
            const Vec<T> e = inside * exp_of_negative<T>(logit);
            store<T>(row + q, e);
            total += e;
        }
        const T one_over = 1 / sum_of<T>(total);
        for (int q = 0; q < stride; q += WIDTH<T>) {
            const Vec<T> share = load(row + q) * one_over;
            store<T>(row + q, share);
            store<T>(sum + q, load(sum + q) + share);
        }
    }

    Shape<T, FIXED> s_;
    T scale_;
    Buffer<T> score_, share_, by_logit_, across_, inside_;
};

}  // namespace manyheads
