// Equitable edge colouring of a bipartite multigraph, without randomness: for any number k ≥ Δ of colours, no two edges
// of a colour share an end, and the sizes of the colour classes differ by at most one (de Werra, McDiarmid).
//
// 1. Merge the vertices of each side into groups of at most k edges: a colouring proper for the groups is proper for
//    their members, tables of groups · k are linear in the edges, and nearly full groups make nearly equal classes.
// 2. Insert the edges one by one: each takes a colour free at both ends or, where there is none, frees one by flipping
//    an alternating path, as in the proof of König's theorem.
// 3. Balance: over-full classes hand edges to under-full ones, again by flipping paths.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace manyheads {

using Index = std::int32_t;  // groups, edges and colours; equitable_colouring refuses larger numbers

struct Groups {
    std::vector<Index> of;  // the group of each vertex
    Index count = 1;
};

// Next fit: two neighbouring groups hold more than k edges together, so there are at most 2·edges/k + 1 of them.
inline Groups merge(std::span<const std::int64_t> ends, std::int64_t vertices, Index colours) {
    std::vector<Index> degrees(vertices);
    for (std::int64_t vertex : ends) {
        if (vertex < 0 || vertex >= vertices) throw std::invalid_argument("an edge ends outside the graph");
        ++degrees[vertex];
    }
    Groups groups{std::vector<Index>(vertices)};
    Index filled = 0;
    for (std::int64_t vertex = 0; vertex < vertices; ++vertex) {
        const Index degree = degrees[vertex];
        if (degree > colours) throw std::invalid_argument("a vertex has more edges than there are colours");
        if (degree > colours - filled) {
            ++groups.count;
            filled = 0;
        }
        filled += degree;
        groups.of[vertex] = groups.count - 1;
    }
    return groups;
}

class Colouring {
public:
    // Vertices 0 … left − 1 are on one side, left … left + right − 1 on the other.
    Colouring(Index left, Index right, Index edges, Index colours)
        : left_{left}, colours_{colours}, words_{(std::size_t(colours) + 63) / 64}, edge_at_((std::size_t(left) + right) * colours, none),
          free_((std::size_t(left) + right) * words_, ~0ULL) {
        edges_.reserve(edges);
        if (const int used = colours % 64)  // the last word of a vertex has bits that are no colour
            for (std::size_t last = words_ - 1; last < free_.size(); last += words_) free_[last] >>= 64 - used;
    }

    // Adds an edge; both ends must have a free colour.
    void insert(Index u, Index v) {
        Index colour = common_free(u, v);
        if (colour == none) colour = free_by_flip(u, v);
        for (Index x : {u, v}) {
            edge_at(x, colour) = Index(edges_.size());
            toggle_free(x, colour);
        }
        edges_.push_back({u, v});
        cursor_ = colour / 64;
    }

    // Makes the sizes of the classes differ by at most one, in O(left · colours): every shift settles a class.
    void balance() {
        std::vector<Index> surplus(colours_), order(colours_);
        for (Index u = 0; u < left_; ++u)
            for (Index c = 0; c < colours_; ++c) surplus[c] += edge_at(u, c) != none;
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return surplus[a] > surplus[b]; });
        const Index edges = Index(edges_.size()), floor = edges / colours_, larger = edges % colours_;
        for (Index i = 0; i < colours_; ++i) surplus[order[i]] -= floor + (i < larger);
        // the largest classes keep the extra edge, so in this order every over-full class precedes every under-full one
        for (Index i = 0, j = colours_ - 1; i < j;) {
            const Index over = order[i], under = order[j];
            if (surplus[over] <= 0) {
                ++i;
            } else if (surplus[under] >= 0) {
                --j;
            } else {
                const Index count = std::min(surplus[over], -surplus[under]);
                shift(over, under, count);
                surplus[over] -= count;
                surplus[under] += count;
            }
        }
    }

    // The colour of each edge, in the order of insertion.
    std::vector<std::int64_t> colours() const {
        std::vector<std::int64_t> colour_of(edges_.size());
        for (std::size_t slot = 0; slot < std::size_t(left_) * colours_; ++slot)
            if (edge_at_[slot] != none) colour_of[edge_at_[slot]] = std::int64_t(slot % colours_);
        return colour_of;
    }

private:
    using Path = std::vector<Index>;  // vertices

    static constexpr Index none = -1;

    Index &edge_at(Index x, Index colour) { return edge_at_[std::size_t(x) * colours_ + colour]; }

    void toggle_free(Index x, Index colour) { free_[x * words_ + colour / 64] ^= 1ULL << colour % 64; }

    // Starts where the last colour was found: the words before it are mostly used up if the edges of u come in a row.
    Index common_free(Index u, Index v) const {
        const std::uint64_t *at_u = &free_[u * words_], *at_v = &free_[v * words_];
        const auto search = [&](std::size_t start, std::size_t stop) {
            for (std::size_t word = start; word < stop; ++word)
                if (const std::uint64_t both = at_u[word] & at_v[word]) return Index(word * 64 + std::countr_zero(both));
            return none;
        };
        const Index colour = search(cursor_, words_);
        return colour != none ? colour : search(0, cursor_);
    }

    // α is free at u, β at v. The α/β paths from u and from v are different ones: from v, a step to u's side follows α,
    // which u has not. So flipping either frees one colour at both ends; walking both in turn finds the shorter.
    Index free_by_flip(Index u, Index v) {
        const Index alpha = common_free(u, u), beta = common_free(v, v);
        from_u_.assign(1, u);
        from_v_.assign(1, v);
        for (;;) {
            if (!extend(from_u_, beta, alpha)) {
                flip(from_u_, alpha, beta);
                return beta;
            }
            if (!extend(from_v_, alpha, beta)) {
                flip(from_v_, alpha, beta);
                return alpha;
            }
        }
    }

    // Moves `count` edges from one class to another that is smaller by at least as many. Their union falls into cycles
    // and paths; a path that starts left with `from`, where `to` is free, and ends right has one edge of `from` more
    // than of `to`. There are at least as many such paths as the sizes differ by.
    void shift(Index from, Index to, Index count) {
        for (Index u = 0; count > 0; ++u) {
            if (edge_at(u, from) == none || edge_at(u, to) != none) continue;
            from_u_.assign(1, u);
            while (extend(from_u_, from, to)) {}
            if (from_u_.back() >= left_) {
                flip(from_u_, from, to);
                --count;
            }
        }
    }

    // One step along the path whose edges have the colours first, second, first, …; false at its end.
    bool extend(Path &path, Index first, Index second) {
        const Index x = path.back(), edge = edge_at(x, path.size() % 2 ? first : second);
        if (edge == none) return false;
        const auto [u, v] = edges_[edge];
        path.push_back(x == u ? v : u);
        return true;
    }

    // Exchanges two colours along a whole path. Only at its two ends does this change which of them is free.
    void flip(const Path &path, Index alpha, Index beta) {
        for (Index x : path) std::swap(edge_at(x, alpha), edge_at(x, beta));
        for (Index x : {path.front(), path.back()}) {
            toggle_free(x, alpha);
            toggle_free(x, beta);
        }
    }

    Index left_, colours_;
    std::size_t words_;       // of 64 colours, for each vertex
    std::size_t cursor_ = 0;  // the word of the last colour given
    std::vector<std::array<Index, 2>> edges_;
    std::vector<Index> edge_at_;       // (vertex, colour) → edge
    std::vector<std::uint64_t> free_;  // (vertex, colour) → bit
    Path from_u_, from_v_;             // kept for their memory
};

// The colour of each edge left[e] – right[e]. Vertices of the two sides are numbered apart.
inline std::vector<std::int64_t> equitable_colouring(std::span<const std::int64_t> left, std::span<const std::int64_t> right,
                                                     std::int64_t vertices, std::int64_t colours) {
    constexpr std::int64_t limit = 1 << 29;  // the groups of both sides together then fit an Index
    if (left.size() != right.size()) throw std::invalid_argument("every edge has two ends");
    if (left.empty()) return {};
    if (std::int64_t(left.size()) > limit || colours > limit)
        throw std::invalid_argument("a colouring takes at most 2^29 edges and colours");
    if (colours < 1) throw std::invalid_argument("edges need at least one colour");
    const Groups lefts = merge(left, vertices, Index(colours)), rights = merge(right, vertices, Index(colours));
    Colouring colouring(lefts.count, rights.count, Index(left.size()), Index(colours));
    for (std::size_t edge = 0; edge < left.size(); ++edge) colouring.insert(lefts.of[left[edge]], lefts.count + rights.of[right[edge]]);
    colouring.balance();
    return colouring.colours();
}

}  // namespace manyheads
