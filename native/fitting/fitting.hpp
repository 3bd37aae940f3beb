// Fitting weights by full gradients. Every step computes the scores of all pairs (of a share of the sources). Only pairs
// that are wrong, or closer to the threshold than the margin, have a cost (survey.hpp).
#pragma once

#include <chrono>
#include <functional>
#include <numeric>

#include "engine/product.hpp"
#include "engine/threads.hpp"
#include "engine/weights.hpp"
#include "survey.hpp"

namespace manyheads {

// The options of a burst of steps. Under the rule max the threshold is learned: the ceiling is threshold − 1 and the summit
// is threshold + 1. Under softmax (ratio > 0) the levels are fixed: floor −1, ceiling 1, summit ratio.
struct Course {
    std::vector<double> rates;
    double beta1, beta2, weight;
    double ratio;     // 0 for the rule max
    double share;     // the share of the sources that one step surveys, in (0, 1]
    double seconds;   // time limit
    bool until_open;  // end as soon as all pairs are separated (only where share is 1)
};

// The result of a burst: the number of steps, and the survey before the last of them (or after it, if the burst ended early).
struct Burst {
    std::int64_t steps = 0;
    Finding finding;
};

// The weights and Adam's moments. Both matrices are stored side by side, [d_model][queries of all heads, keys of all key
// heads]. Each part is padded to whole vectors.
template <class T> class Fitting {
public:
    Fitting(Relations relations, const float *embedding, int d_model, int heads, int key_heads, int key_width, int threads,
            int near_pairs = 0)
        : relations_(std::move(relations)), d_model_(d_model),
          parts_{round_up(heads * key_width, WIDTH<T>), round_up(key_heads * key_width, WIDTH<T>)}, stride_(parts_[0] + parts_[1]),
          embedding_(embedding, embedding + std::size_t(relations_.items()) * d_model), joined_(std::size_t(items()) * stride_),
          value_(std::size_t(d_model) * stride_), gradient_(value_.size()), first_(value_.size()), second_(value_.size()),
          projections_(items(), heads, key_heads, key_width), by_query_(projections_.at(heads, 0)), near_pairs_(near_pairs) {
        for (int n = 0; n < threads; ++n) surveyors_.emplace_back(projections_, relations_);
        groups_.resize((items() + Surveyor<T>::GROUP - 1) / Surveyor<T>::GROUP);
        std::iota(groups_.begin(), groups_.end(), 0);
        next_group_ = groups_.size();
        near_.resize(near_pairs > 0 ? groups_.size() : 0);
    }
    Fitting(const Fitting &) = delete;

    static constexpr int MOST_KEPT = 16;      // near pairs of a group, in multiples of near_pairs
    static constexpr double SLACK = 0.95;     // softmax: this share of the ratio counts as separated
    static constexpr double EPSILON = 1e-12;  // Adam's ε. Gradients are sums over all pairs, so useful ones are far larger

    int items() const { return relations_.items(); }
    int d_model() const { return d_model_; }
    int heads() const { return projections_.heads(); }
    int key_heads() const { return projections_.key_heads(); }
    int key_width() const { return projections_.key_width(); }
    int heads_of(int matrix) const { return matrix == 0 ? heads() : key_heads(); }

    // Surveys all pairs of a share of the sources, and computes the gradient by the weights (see get_gradient). With near
    // pairs, the relations and the near pairs of all other sources count too.
    Finding look(const Levels &levels, double share);

    // Takes steps at the given rates. Ends early at zero or infinite loss, at the time limit, when all pairs are separated
    // (with until_open), or when pulse throws. `threshold` is read and, under the rule max, updated.
    Burst burst(const Course &course, double &threshold, const std::function<void()> &pulse);

    void forget() {
        std::fill_n(first_.data(), first_.size(), T(0)), std::fill_n(second_.data(), second_.size(), T(0));
        threshold_first_ = threshold_second_ = 0, power1_ = power2_ = 1;
    }

    // matrix 0 is the query, as (heads, d_model, key_width), 1 the key, as (key_heads, d_model, key_width).
    void set(const double *plain, int matrix) {
        each(matrix, [&](std::size_t from, std::size_t to) { value_[to] = static_cast<T>(plain[from]); });
    }
    void get(double *plain, int matrix) const {
        each(matrix, [&](std::size_t to, std::size_t from) { plain[to] = value_[from]; });
    }
    void get_gradient(double *plain, int matrix) const {
        each(matrix, [&](std::size_t to, std::size_t from) { plain[to] = gradient_[from]; });
    }

private:
    static Levels levels(const Course &course, double threshold) {
        constexpr double NO_FLOOR = -std::numeric_limits<double>::infinity();
        if (course.ratio == 0) return {NO_FLOOR, threshold - 1, threshold + 1, threshold, course.weight};
        return {-1, 1, course.ratio, (1 + course.ratio) / 2, course.weight};
    }

    // Whether all pairs are separated. Under the rule max: some threshold lies between all relations and all other pairs.
    // Under softmax only the ratio matters: the lowest relation against the largest |score| of all other pairs.
    static bool separated(const Course &course, const Finding &f) {
        if (course.ratio == 0) return f.low < f.high;
        return f.high > SLACK * course.ratio * std::max({1.0, f.low, -f.lowest});
    }

    // Adam's constants for the next step, with the bias corrections (weights.hpp).
    Adam<double> next(double rate, double beta1, double beta2) {
        power1_ *= beta1, power2_ *= beta2;
        const double mean = (1 - beta1) / (1 - power1_), root = std::sqrt((1 - beta2) / (1 - power2_));
        return {rate * mean / root, EPSILON / root, beta1, beta2, 1};
    }

    void step(const Adam<double> &adam) {
        const T rate = static_cast<T>(adam.rate), epsilon = static_cast<T>(adam.epsilon);
        const T beta1 = static_cast<T>(adam.beta1), beta2 = static_cast<T>(adam.beta2);
        for (std::size_t at = 0; at < value_.size(); at += WIDTH<T>) {
            const Vec<T> g = load(gradient_.data() + at), m = load(first_.data() + at) * beta1 + g;
            const Vec<T> v = load(second_.data() + at) * beta2 + g * g;
            store<T>(first_.data() + at, m), store<T>(second_.data() + at, v);
            store<T>(value_.data() + at, load(value_.data() + at) - rate * (m / (square_root<T>(v) + epsilon)));
        }
    }

    // The place of a matrix in a row.
    int offset(int matrix) const { return matrix * parts_[0]; }

    template <class Body> void each(int matrix, Body &&body) const {
        std::size_t plain = 0;
        for (int head = 0; head < heads_of(matrix); ++head)
            for (int d = 0; d < d_model_; ++d)
                for (int c = 0; c < key_width(); ++c) body(plain++, std::size_t(d) * stride_ + offset(matrix) + head * key_width() + c);
    }

    // Divides 0 … count − 1 among the threads and calls body(thread, first, last) on each.
    template <class Body> void share(int count, Body &&body) {
        const int threads = static_cast<int>(surveyors_.size());
        const auto part = [&](int n) { return static_cast<int>(std::int64_t(count) * n / threads); };
        on_threads(threads, [&](int n) { body(n, part(n), part(n + 1)); });
    }

    // The sources of one survey, in groups of consecutive items: all groups, or the next ones of a random order.
    struct Groups {
        const int *first;
        std::size_t count;
        bool all;
    };

    Groups choose(double share_of_sources) {
        const std::size_t all = groups_.size(), count = std::clamp<std::size_t>(std::llround(share_of_sources * all), 1, all);
        if (count == all) {
            next_group_ = 0;
        } else if (next_group_ + count > all) {  // the order is used up: shuffle again
            for (std::size_t n = all; n > 1; --n) std::swap(groups_[n - 1], groups_[random_.below(static_cast<std::uint32_t>(n))]);
            next_group_ = 0;
        }
        next_group_ += count;
        return {groups_.data() + next_group_ - count, count, count == all};
    }

    // Divides the chosen sources among the threads and calls body(thread, first item, last item) for each range of items.
    template <class Body> void share_sources(const Groups &groups, Body &&body) {
        if (groups.all) return share(items(), body);
        share(static_cast<int>(groups.count), [&](int n, int first, int last) {
            for (int g = first; g < last; ++g) {
                const int from = groups.first[g] * Surveyor<T>::GROUP;
                body(n, from, std::min(from + Surveyor<T>::GROUP, items()));
            }
        });
    }

    // Computes the queries of the chosen sources and the keys of all items.
    void project(const Groups &groups) {
        const auto half = [&](int matrix, int first, int last) {
            T *const to = joined_.data() + std::size_t(first) * stride_ + offset(matrix);
            for (int i = 0; i < last - first; ++i) std::fill_n(to + std::size_t(i) * stride_, parts_[matrix], T(0));
            add_product(embedding_.data() + std::size_t(first) * d_model_, d_model_, 1, last - first, d_model_,
                        value_.data() + offset(matrix), stride_, parts_[matrix], to, stride_);
        };
        share_sources(groups, [&](int, int first, int last) {
            half(0, first, last);
            projections_.fill_queries(joined_.data(), stride_, first, last);
        });
        share(items(), [&](int, int first, int last) {
            half(1, first, last);
            projections_.fill_keys(joined_.data() + offset(1), stride_, first, last);
        });
    }

    Finding survey(const Levels &levels, const Groups &groups) {
        for (Surveyor<T> &surveyor : surveyors_) surveyor.begin(levels, reach_, most_kept(), by_query_.data(), near_.data());
        share(static_cast<int>(groups.count), [&](int n, int first, int last) {
            for (int g = first; g < last; ++g) surveyors_[n].look(groups.first[g], !near_.empty());
        });
        if (!near_.empty()) {
            if (!groups.all) look_again(groups);
            adapt_reach(groups);
        }
        Finding finding;
        finding.low = levels.ceiling, finding.lowest = levels.floor;
        for (const Surveyor<T> &surveyor : surveyors_) finding.add(surveyor.finding());
        return finding;
    }

    // The most near pairs of a group. Where more pairs have a cost, the steps are too long, and memory has to stay bounded.
    std::size_t most_kept() const { return std::size_t(MOST_KEPT) * near_pairs_ * Surveyor<T>::GROUP; }

    // The relations and the near pairs of all groups but those just looked at.
    void look_again(const Groups &looked) {
        std::vector<char> skipped(groups_.size());
        for (std::size_t g = 0; g < looked.count; ++g) skipped[looked.first[g]] = true;
        share(static_cast<int>(groups_.size()),
              [&](int n, int first, int last) { surveyors_[n].look_again(first, last, [&](int group) { return skipped[group]; }); });
    }

    // The reach changes until the groups just looked at keep about near_pairs_ pairs for each source.
    void adapt_reach(const Groups &looked) {
        double kept = 1;
        for (std::size_t g = 0; g < looked.count; ++g) kept += near_[looked.first[g]].pairs.size();
        const double wanted = double(near_pairs_) * looked.count * Surveyor<T>::GROUP;
        reach_ = std::min(reach_ * std::clamp(std::sqrt(wanted / kept), 0.8, 1.1), 1e6);
    }

    void pull_back(const Groups &groups) {
        const auto gather = [&](int matrix, T *to, const T *from) {
            for (int head = 0; head < heads_of(matrix); ++head)
                std::copy_n(from + projections_.at(head, 0), key_width(), to + head * key_width());
        };
        share_sources(groups, [&](int, int first, int last) {
            for (int i = first; i < last; ++i)
                gather(0, joined_.data() + std::size_t(i) * stride_, by_query_.data() + std::size_t(i) * projections_.width());
        });
        share(items(), [&](int, int first, int last) {
            for (int i = first; i < last; ++i) {
                T *const key = joined_.data() + std::size_t(i) * stride_ + offset(1);
                gather(1, key, surveyors_[0].by_key.data() + std::size_t(i) * projections_.width());
                for (std::size_t n = 1; n < surveyors_.size(); ++n)
                    for (int head = 0; head < key_heads(); ++head)
                        for (int c = 0; c < key_width(); ++c)
                            key[head * key_width() + c] += surveyors_[n].by_key[projections_.at(head, i) + c];
            }
        });
        share(d_model_, [&](int, int first, int last) {
            T *const to = gradient_.data() + std::size_t(first) * stride_;
            std::fill_n(to, std::size_t(last - first) * stride_, T(0));
            const auto half = [&](int matrix, int begin, int end) {
                add_product(embedding_.data() + std::size_t(begin) * d_model_ + first, 1, d_model_, last - first, end - begin,
                            joined_.data() + std::size_t(begin) * stride_ + offset(matrix), stride_, parts_[matrix], to + offset(matrix),
                            stride_);
            };
            if (groups.all) half(0, 0, items());
            else
                for (std::size_t g = 0; g < groups.count; ++g) {
                    const int from = groups.first[g] * Surveyor<T>::GROUP;
                    half(0, from, std::min(from + Surveyor<T>::GROUP, items()));
                }
            half(1, 0, items());
        });
    }

    Relations relations_;
    int d_model_, parts_[2], stride_;  // the widths of both matrices' parts in a row, and of the whole row
    std::vector<T> embedding_;
    Buffer<T> joined_, value_, gradient_, first_, second_;
    Projections<T> projections_;
    Buffer<T> by_query_;
    std::vector<Surveyor<T>> surveyors_;
    std::vector<int> groups_;  // groups of sources, in the order in which surveys of a share take them
    std::size_t next_group_ = 0;
    std::vector<NearPairs> near_;  // of each group, at its last survey; empty where no near pairs are kept
    int near_pairs_;               // about the number of near pairs that are kept for each source
    double reach_ = 0.1;
    Random random_{0, 0, 0};
    double power1_ = 1, power2_ = 1, threshold_first_ = 0, threshold_second_ = 0;
};

// Outside of the class, so that they are not inline and only the two files below compile the kernels.
template <class T> Finding Fitting<T>::look(const Levels &levels, double share) {
    const Groups groups = choose(share), active = near_.empty() ? groups : Groups{groups_.data(), groups_.size(), true};
    project(active);
    Finding finding = survey(levels, groups);
    pull_back(active);
    return finding;
}

template <class T> Burst Fitting<T>::burst(const Course &course, double &threshold, const std::function<void()> &pulse) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    auto last_pulse = start;
    Burst burst;
    for (const double rate : course.rates) {
        burst.finding = look(levels(course, threshold), course.share);
        if (!std::isfinite(burst.finding.loss) || burst.finding.loss == 0) break;
        if (course.until_open && course.share == 1 && separated(course, burst.finding)) break;
        const auto now = Clock::now();
        if (std::chrono::duration<double>(now - start).count() > course.seconds) break;
        if (now - last_pulse > std::chrono::milliseconds(100)) pulse(), last_pulse = now;
        const Adam<double> adam = next(rate, course.beta1, course.beta2);
        step(adam);
        if (course.ratio == 0)
            adam.update(threshold, threshold_first_, threshold_second_, burst.finding.by_ceiling + burst.finding.by_summit);
        ++burst.steps;
    }
    return burst;
}

// Compiled in fitting_float.cpp and fitting_double.cpp.
extern template class Fitting<float>;
extern template class Fitting<double>;

}  // namespace manyheads
