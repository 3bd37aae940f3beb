// The certificate of the rule max, as src/manyheads/certificate/pairwise.py has it: all pairs in float64, with a bound on
// the rounding error of every score.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/contexts.hpp"

namespace manyheads {

struct Evidence {
    double low, high;  // the largest score of a pair without a relation, the smallest score of a relation
    double rounding;   // a bound on the error of the score that decides
    std::int64_t missed = 0, false_pairs = 0, open_pairs = 0;
    int source = -1, target = -1;  // of the pair that is wrong by most, where one is wrong
};

// γ_n = nu/(1 − nu): the relative error of a sum of n products.
inline double gamma(double terms) { return terms * 0x1p-53 / (1 - terms * 0x1p-53); }

// The sizes of a layer and its items. Head k of h reads key head k·g/h of g.
struct LayerSizes {
    int items, d_model, heads, key_heads, key_width;
    int key_head(int head) const { return static_cast<int>(std::int64_t(head) * key_heads / heads); }
};

// Queries or keys of all items, and bounds on their distances from the exact ones. Vectors are stored as (heads, key_width,
// items), so that the scores of one source with all targets are computed side by side.
struct Side {
    std::vector<double> vectors, norms, errors;  // norms and errors: (heads, items)

    Side(const double *weights, const float *rows, int heads, const LayerSizes &sizes)
        : vectors(std::size_t(heads) * sizes.items * sizes.key_width), norms(std::size_t(heads) * sizes.items),
          errors(std::size_t(heads) * sizes.items) {
        const int items = sizes.items, d_model = sizes.d_model, key_width = sizes.key_width;
        float largest = 0;
        for (std::size_t i = 0; i < std::size_t(items) * d_model; ++i) largest = std::max(largest, std::fabs(rows[i]));
        const double lost = 2 * (d_model + key_width) * std::numeric_limits<double>::min() * (2 + double(largest));
        std::vector<double> vector(key_width), size(key_width);
        for (int k = 0; k < heads; ++k)
            for (int i = 0; i < items; ++i) {
                std::fill(vector.begin(), vector.end(), 0.0), std::fill(size.begin(), size.end(), 0.0);
                for (int d = 0; d < d_model; ++d) {
                    const double x = rows[std::size_t(i) * d_model + d];
                    const double *const w = weights + (std::size_t(k) * d_model + d) * key_width;
                    for (int j = 0; j < key_width; ++j) vector[j] += x * w[j], size[j] += std::fabs(x * w[j]);
                }
                double norm = 0, error = 0;
                for (int j = 0; j < key_width; ++j) {
                    vectors[(std::size_t(k) * key_width + j) * items + i] = vector[j];
                    norm = std::hypot(norm, vector[j]);
                    error = std::hypot(error, gamma(d_model) * size[j] + lost);
                }
                norms[std::size_t(k) * items + i] = norm;
                errors[std::size_t(k) * items + i] = error;
            }
    }
};

class Certifier {
public:
    Certifier(const double *query, const double *key, const float *rows, const LayerSizes &sizes)
        : sizes_(sizes), query_(query, rows, sizes.heads, sizes), key_(key, rows, sizes.key_heads, sizes) {}

    const LayerSizes &sizes() const { return sizes_; }

    // Writes the scores that a head gives to a source with every item.
    void score_row(int head, int source, double *scores) const {
        const int items = sizes_.items, key_width = sizes_.key_width;
        std::fill_n(scores, items, 0.0);
        for (int j = 0; j < key_width; ++j) {
            const double q = query_.vectors[(std::size_t(head) * key_width + j) * items + source];
            const double *const k = key_.vectors.data() + (std::size_t(sizes_.key_head(head)) * key_width + j) * items;
            for (int i = 0; i < items; ++i) scores[i] += q * k[i];
        }
    }

    // Examines all pairs; `scores` receives the largest score and `winners` the head that has it, both (items, items).
    Evidence examine(const Relations &relations, double threshold, double *scores, std::int32_t *winners) const {
        constexpr double FAR = std::numeric_limits<double>::infinity();
        const int items = sizes_.items;
        Evidence e{.low = -FAR, .high = FAR, .rounding = 0};
        double remaining = FAR, excess = -FAR, tightest_bound = 0, tightest_distance = 0, worst_bound = 0;
        std::vector<char> related(items);
        std::vector<double> other(items), bounds(items);
        for (int i = 0; i < items; ++i) {
            double *const row = scores + std::size_t(i) * items;
            std::int32_t *const winner = winners + std::size_t(i) * items;
            std::fill(related.begin(), related.end(), 0);
            for (auto t = relations.begin(i); t != relations.end(i); ++t) related[*t] = 1;
            std::fill(bounds.begin(), bounds.end(), 0.0);
            score_row(0, i, row), raise_bounds(0, i, bounds.data());
            std::fill_n(winner, items, 0);
            for (int k = 1; k < sizes_.heads; ++k) {
                score_row(k, i, other.data()), raise_bounds(k, i, bounds.data());
                for (int j = 0; j < items; ++j)
                    if (other[j] > row[j]) row[j] = other[j], winner[j] = k;
            }
            for (int j = 0; j < items; ++j) {
                const double score = row[j], bound = bounds[j];
                if (related[j]) e.high = std::min(e.high, score);
                else e.low = std::max(e.low, score);
                const double distance = related[j] ? score - threshold : threshold - score;
                const bool wrong = -distance - 2 * bound > 0;
                if (wrong) ++(related[j] ? e.missed : e.false_pairs);
                else if (!(distance - bound > 0)) ++e.open_pairs;
                if (distance - bound < remaining) remaining = distance - bound, tightest_bound = bound, tightest_distance = distance;
                if (-distance - 2 * bound > excess) {
                    excess = -distance - 2 * bound, worst_bound = bound;
                    e.source = i, e.target = j;
                }
            }
        }
        const double margin = std::min(e.high - threshold, threshold - e.low);
        const bool refuted = e.missed + e.false_pairs > 0;
        e.rounding = refuted ? worst_bound : tightest_bound - (tightest_distance - margin);
        if (!refuted) e.source = e.target = -1;
        return e;
    }

private:
    // |fl(q̂·k̂) − q̂·k̂| ≤ γ·a·b, |q̂·k̂ − q·k| ≤ |q̂·(k̂ − k)| + |(q̂ − q)·k|; γ_(d_k + h) leaves room for the joining of h heads
    void raise_bounds(int head, int source, double *bounds) const {
        const std::size_t s = std::size_t(head) * sizes_.items + source, t = std::size_t(sizes_.key_head(head)) * sizes_.items;
        const double a = query_.norms[s], alpha = query_.errors[s];
        const double slack = 1 + gamma(4.0 * (sizes_.d_model + sizes_.key_width) + 64), part = gamma(sizes_.key_width + sizes_.heads);
        const double least = (sizes_.key_width + 8) * std::numeric_limits<double>::denorm_min();
        for (int i = 0; i < sizes_.items; ++i) {
            const double b = key_.norms[t + i], beta = key_.errors[t + i];
            bounds[i] = std::max(bounds[i], (part * a * b + a * beta + alpha * (b + beta)) * slack + least);
        }
    }

    LayerSizes sizes_;
    Side query_, key_;
};

}  // namespace manyheads
