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

// Queries or keys of all items, and bounds on their distances from the exact ones.
struct Side {
    std::vector<double> vectors, norms, errors;  // (heads, items, key_width), (heads, items), (heads, items)

    Side(const double *weights, const float *rows, int items, int d_model, int heads, int key_width)
        : vectors(std::size_t(heads) * items * key_width), norms(std::size_t(heads) * items), errors(std::size_t(heads) * items) {
        float largest = 0;
        for (std::size_t i = 0; i < std::size_t(items) * d_model; ++i) largest = std::max(largest, std::fabs(rows[i]));
        const double lost = 2 * (d_model + key_width) * std::numeric_limits<double>::min() * (2 + double(largest));
        for (int k = 0; k < heads; ++k)
            for (int i = 0; i < items; ++i) {
                double *const vector = vectors.data() + (std::size_t(k) * items + i) * key_width;
                std::vector<double> size(key_width, 0.0);
                for (int d = 0; d < d_model; ++d) {
                    const double x = rows[std::size_t(i) * d_model + d];
                    const double *const w = weights + (std::size_t(k) * d_model + d) * key_width;
                    for (int j = 0; j < key_width; ++j) vector[j] += x * w[j], size[j] += std::fabs(x * w[j]);
                }
                double norm = 0, error = 0;
                for (int j = 0; j < key_width; ++j) {
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
    Certifier(const double *query, const double *key, const float *rows, int items, int d_model, int heads, int key_width)
        : items_(items), d_model_(d_model), heads_(heads), key_width_(key_width), query_(query, rows, items, d_model, heads, key_width),
          key_(key, rows, items, d_model, heads, key_width) {}

    double head_score(int head, int source, int target) const {
        const double *const q = query_.vectors.data() + (std::size_t(head) * items_ + source) * key_width_;
        const double *const k = key_.vectors.data() + (std::size_t(head) * items_ + target) * key_width_;
        double sum = 0;
        for (int j = 0; j < key_width_; ++j) sum += q[j] * k[j];
        return sum;
    }

    // Examines all pairs; `scores` receives the largest score and `winners` the head that has it, both (items, items).
    Evidence examine(const Relations &relations, double threshold, double *scores, std::int32_t *winners) const {
        constexpr double FAR = std::numeric_limits<double>::infinity();
        Evidence e{.low = -FAR, .high = FAR, .rounding = 0};
        double remaining = FAR, excess = -FAR, tightest_bound = 0, tightest_distance = 0, worst_bound = 0;
        std::vector<char> related(items_);
        for (int i = 0; i < items_; ++i) {
            std::fill(related.begin(), related.end(), 0);
            for (auto t = relations.begin(i); t != relations.end(i); ++t) related[*t] = 1;
            for (int j = 0; j < items_; ++j) {
                double score = head_score(0, i, j), bound = error(0, i, j);
                int winner = 0;
                for (int k = 1; k < heads_; ++k) {
                    const double other = head_score(k, i, j);
                    if (other > score) score = other, winner = k;
                    bound = std::max(bound, error(k, i, j));
                }
                scores[std::size_t(i) * items_ + j] = score;
                winners[std::size_t(i) * items_ + j] = winner;
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
    double error(int head, int source, int target) const {
        const std::size_t s = std::size_t(head) * items_ + source, t = std::size_t(head) * items_ + target;
        const double a = query_.norms[s], alpha = query_.errors[s], b = key_.norms[t], beta = key_.errors[t];
        const double slack = 1 + gamma(4.0 * (d_model_ + key_width_) + 64);
        return (gamma(key_width_ + heads_) * a * b + a * beta + alpha * (b + beta)) * slack +
               (key_width_ + 8) * std::numeric_limits<double>::denorm_min();
    }

    int items_, d_model_, heads_, key_width_;
    Side query_, key_;
};

}  // namespace manyheads
