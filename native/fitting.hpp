// Fitting weights by full gradients: every step sees all pairs, and only the cost of the wrong and the tight ones counts.
#pragma once

#include <chrono>
#include <numeric>

#include "product.hpp"
#include "survey.hpp"
#include "weights.hpp"

namespace manyheads {

// How a burst of steps goes. Under the rule max the threshold is learned, and ceiling and summit lie one below and one
// above it. With a ratio, for softmax, they are fixed: all other pairs between −1 and 1, relations above the ratio.
struct Course {
    std::vector<double> rates;
    double beta1, beta2, weight;
    double ratio;       // 0 for the rule max
    double share;       // of the sources that a step looks at
    double seconds;     // at most
    bool until_open;    // end as soon as all pairs are separated (where a step looks at all)
};

// What came of it: the last look at all pairs, before which so many steps were taken.
struct Burst {
    std::int64_t steps = 0;
    Finding finding;
};

// Both matrices side by side, [d_model][queries of all heads, keys of all heads], each half padded to whole vectors, and
// Adam's moments.
template <class T> class Fitting {
public:
    Fitting(Relations relations, const float *embedding, int d_model, int heads, int key_width, int threads, std::size_t keep = 0)
        : relations_(std::move(relations)), d_model_(d_model), half_(round_up(heads * key_width, WIDTH<T>)), stride_(2 * half_),
          embedding_(embedding, embedding + std::size_t(relations_.items()) * d_model), joined_(std::size_t(items()) * stride_),
          value_(std::size_t(d_model) * stride_), gradient_(value_.size()), first_(value_.size()), second_(value_.size()),
          projections_(items(), heads, key_width), by_query_(projections_.rows() * projections_.width()) {
        for (int n = 0; n < threads; ++n) surveyors_.emplace_back(projections_, relations_, keep);
        groups_.resize((items() + Surveyor<T>::GROUP - 1) / Surveyor<T>::GROUP);
        std::iota(groups_.begin(), groups_.end(), 0);
        next_group_ = groups_.size();
    }
    Fitting(const Fitting &) = delete;

    static constexpr double SLACK = 0.95;     // of the ratio that softmax is trained for is enough
    static constexpr double EPSILON = 1e-12;  // gradients are sums over all pairs: none that matters is as small

    int items() const { return relations_.items(); }
    int d_model() const { return d_model_; }
    int heads() const { return projections_.heads(); }
    int key_width() const { return projections_.key_width(); }

    // Looks at all pairs of a share of the sources; leaves the gradient by the weights.
    Finding look(const Levels &levels, double share) {
        const Groups groups = choose(share);
        project(groups);
        Finding finding = survey(levels, groups);
        pull_back(groups);
        return finding;
    }

    // Calls body(pair) for the pairs that cost most at the last look, `keep` of each thread at most.
    template <class Body> void hardest(Body &&body) const {
        for (const auto &surveyor : surveyors_)
            for (const Hardest::Pair &pair : surveyor.hardest.pairs()) body(pair);
    }

    // Steps at the given rates, up to where they end by themselves (see Course), or where pulse throws.
    template <class Pulse> Burst burst(const Course &course, double &threshold, Pulse &&pulse) {
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
            if (course.ratio == 0) adam.update(threshold, threshold_first_, threshold_second_, burst.finding.by_ceiling + burst.finding.by_summit);
            ++burst.steps;
        }
        return burst;
    }

    void forget() {
        std::fill_n(first_.data(), first_.size(), T(0)), std::fill_n(second_.data(), second_.size(), T(0));
        threshold_first_ = threshold_second_ = 0, power1_ = power2_ = 1;
    }

    // matrix 0 is the query, 1 the key, as (heads, d_model, key_width).
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

    // Softmax cares for how far apart all other pairs lie, measured by the relations' distance.
    static bool separated(const Course &course, const Finding &f) {
        if (course.ratio == 0) return f.low < f.high;
        return f.high > SLACK * course.ratio * std::max({1.0, f.low, -f.lowest});
    }

    // Adam's constants for the next step, its bias corrections among them (weights.hpp).
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

    template <class Body> void each(int matrix, Body &&body) const {
        std::size_t plain = 0;
        for (int head = 0; head < heads(); ++head)
            for (int d = 0; d < d_model_; ++d)
                for (int c = 0; c < key_width(); ++c) body(plain++, std::size_t(d) * stride_ + matrix * half_ + head * key_width() + c);
    }

    // Calls body(n, first, last) for every thread's share of 0 … count − 1.
    template <class Body> void share(int count, Body &&body) {
        const int threads = static_cast<int>(surveyors_.size());
        const auto part = [&](int n) { return static_cast<int>(std::int64_t(count) * n / threads); };
        std::vector<std::thread> others;
        for (int n = 1; n < threads; ++n) others.emplace_back([&, n] { body(n, part(n), part(n + 1)); });
        body(0, 0, part(1));
        for (std::thread &other : others) other.join();
    }

    // Sources that one look sees, in groups of neighbours; all of them, or the next ones of a random order.
    struct Groups {
        const int *first;
        std::size_t count;
        bool all;
    };

    Groups choose(double share_of_sources) {
        const std::size_t all = groups_.size(), count = std::clamp<std::size_t>(std::llround(share_of_sources * all), 1, all);
        if (count == all) {
            next_group_ = 0;
        } else if (next_group_ + count > all) {  // the order is used up: draw it anew
            for (std::size_t n = all; n > 1; --n) std::swap(groups_[n - 1], groups_[random_.below(static_cast<std::uint32_t>(n))]);
            next_group_ = 0;
        }
        next_group_ += count;
        return {groups_.data() + next_group_ - count, count, count == all};
    }

    // Calls body(thread, first item, last item) for ranges that make up the chosen sources, shared among the threads.
    template <class Body> void share_sources(const Groups &groups, Body &&body) {
        if (groups.all) return share(items(), body);
        share(static_cast<int>(groups.count), [&](int n, int first, int last) {
            for (int g = first; g < last; ++g) {
                const int from = groups.first[g] * Surveyor<T>::GROUP;
                body(n, from, std::min(from + Surveyor<T>::GROUP, items()));
            }
        });
    }

    // Queries of the chosen sources, keys of all items.
    void project(const Groups &groups) {
        const auto half = [&](int matrix, int first, int last) {
            T *const to = joined_.data() + std::size_t(first) * stride_ + matrix * half_;
            for (int i = 0; i < last - first; ++i) std::fill_n(to + std::size_t(i) * stride_, half_, T(0));
            add_product(embedding_.data() + std::size_t(first) * d_model_, d_model_, 1, last - first, d_model_,
                        value_.data() + matrix * half_, stride_, half_, to, stride_);
        };
        share_sources(groups, [&](int, int first, int last) {
            half(0, first, last);
            projections_.fill_queries(joined_.data(), stride_, first, last);
        });
        share(items(), [&](int, int first, int last) {
            half(1, first, last);
            projections_.fill_keys(joined_.data() + half_, stride_, first, last);
        });
    }

    Finding survey(const Levels &levels, const Groups &groups) {
        std::vector<Finding> found(surveyors_.size());
        share(static_cast<int>(groups.count), [&](int n, int first, int last) {
            found[n] = surveyors_[n].look(levels, groups.first + first, last - first, by_query_.data());
        });
        Finding finding;
        finding.low = levels.ceiling, finding.lowest = levels.floor;
        for (const Finding &part : found) finding.add(part);
        return finding;
    }

    void pull_back(const Groups &groups) {
        const auto gather = [&](T *to, const T *from) {
            for (int head = 0; head < heads(); ++head) std::copy_n(from + projections_.at(head, 0), key_width(), to + head * key_width());
        };
        share_sources(groups, [&](int, int first, int last) {
            for (int i = first; i < last; ++i)
                gather(joined_.data() + std::size_t(i) * stride_, by_query_.data() + std::size_t(i) * projections_.width());
        });
        share(items(), [&](int, int first, int last) {
            for (int i = first; i < last; ++i) {
                T *const key = joined_.data() + std::size_t(i) * stride_ + half_;
                gather(key, surveyors_[0].by_key.data() + std::size_t(i) * projections_.width());
                for (std::size_t n = 1; n < surveyors_.size(); ++n)
                    for (int head = 0; head < heads(); ++head)
                        for (int c = 0; c < key_width(); ++c) key[head * key_width() + c] += surveyors_[n].by_key[projections_.at(head, i) + c];
            }
        });
        share(d_model_, [&](int, int first, int last) {
            T *const to = gradient_.data() + std::size_t(first) * stride_;
            std::fill_n(to, std::size_t(last - first) * stride_, T(0));
            const auto half = [&](int matrix, int begin, int end) {
                add_product(embedding_.data() + std::size_t(begin) * d_model_ + first, 1, d_model_, last - first, end - begin,
                            joined_.data() + std::size_t(begin) * stride_ + matrix * half_, stride_, half_, to + matrix * half_, stride_);
            };
            if (groups.all) half(0, 0, items());
            else for (std::size_t g = 0; g < groups.count; ++g) {
                const int from = groups.first[g] * Surveyor<T>::GROUP;
                half(0, from, std::min(from + Surveyor<T>::GROUP, items()));
            }
            half(1, 0, items());
        });
    }

    Relations relations_;
    int d_model_, half_, stride_;
    std::vector<T> embedding_;
    Buffer<T> joined_, value_, gradient_, first_, second_;
    Projections<T> projections_;
    Buffer<T> by_query_;
    std::vector<Surveyor<T>> surveyors_;
    std::vector<int> groups_;  // of sources, in the order in which shares of them are looked at
    std::size_t next_group_ = 0;
    Random random_{0, 0, 0};
    double power1_ = 1, power2_ = 1, threshold_first_ = 0, threshold_second_ = 0;
};

}  // namespace manyheads
