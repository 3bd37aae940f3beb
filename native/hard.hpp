// Training on contexts, a share of them drawn around hard pairs: those that are wrong, or nearly, at the last look at all.
#pragma once

#include "engine.hpp"
#include "fitting.hpp"
#include "step.hpp"

namespace manyheads {

// How a burst of context steps goes.
struct HardCourse {
    std::vector<double> rates;
    double share;                 // of the contexts that are hard
    double tight;                 // pairs within so much of the threshold count as hard
    std::int64_t look_every;      // steps from one exact look at all pairs to the next
    double seconds;
};

// The fused step of train.hpp with another schedule and other contexts; the queue of hard pairs stays inside.
template <class T, int FIXED> class HardTraining {
public:
    HardTraining(const Settings &s, const Relations &relations, const float *embedding, std::size_t queue)
        : data_(s, relations, embedding, nullptr), sampler_(data_.sampler()), ordinary_(data_.sampler()), weights_(data_.layout()), step_(data_),
          fitting_(relations, embedding, s.d_model, s.heads, s.key_width, 1, queue), context_(s.context),
          plain_(2 * std::size_t(s.d_model) * s.key_budget()) {}

    // Ends early where some threshold separates all pairs at a look, or when the time is up.
    template <class Pulse> Burst burst(const HardCourse &course, Pulse &&pulse) {
        using Clock = std::chrono::steady_clock;
        const auto start = Clock::now();
        Burst burst;
        for (const double rate : course.rates) {
            if (burst.steps % course.look_every == 0) {
                pulse();
                burst.finding = look(course.tight);
                const double taken = std::chrono::duration<double>(Clock::now() - start).count();
                if (burst.finding.low < burst.finding.high || taken > course.seconds) return burst;
            }
            step_.prepare(weights_, draw(course.share));
            const auto cost = step_.differentiate(weights_.threshold);
            step_.update(weights_, *cost, next(rate), sampler_);
            ++burst.steps;
        }
        burst.finding = look(course.tight);
        return burst;
    }

    void set_weights(const double *query, const double *key, double threshold) {
        data_.layout().pack(query, 0, weights_.value());
        data_.layout().pack(key, 1, weights_.value());
        weights_.threshold = static_cast<T>(threshold);
    }

    double weights(double *query, double *key) const {
        data_.layout().unpack(weights_.value(), 0, query);
        data_.layout().unpack(weights_.value(), 1, key);
        return weights_.threshold;
    }

    // The contexts that the next steps would meet, for the test of what is in them.
    const Item *context(double share) { return draw(share).items(); }

private:
    static constexpr std::uint64_t HARD = 7;  // the stream that hard contexts are drawn from

    Finding look(double tight) {
        double *const query = plain_.data(), *const key = query + plain_.size() / 2;
        weights(query, key);
        fitting_.set(query, 0), fitting_.set(key, 1);
        const double threshold = weights_.threshold;
        const Finding finding = fitting_.look({-std::numeric_limits<double>::infinity(), threshold - tight, threshold + tight, threshold, 1}, 1);
        queue_.clear();
        fitting_.hardest([&](const Hardest::Pair &pair) { queue_.push_back(pair); });
        return finding;
    }

    // An ordinary context; where it is to be a hard one, half of its items give way to hard pairs.
    const Sampler &draw(double share) {
        const Settings &s = data_.settings;
        const Item *const items = ordinary_.draw(TRAIN, drawn_);
        Random random(s.context_key, HARD, drawn_++);
        int filled = 0;
        const auto add = [&](Item item) {
            if (filled < s.context && std::find(context_.begin(), context_.begin() + filled, item) == context_.begin() + filled)
                context_[filled++] = item;
        };
        if (!queue_.empty() && random.fraction() < share)
            for (int n = 0; n < std::max(1, s.context / 4); ++n) {
                const Hardest::Pair &pair = queue_[random.below(static_cast<std::uint32_t>(queue_.size()))];
                add(pair.source), add(pair.target);
            }
        for (int p = 0; p < s.context; ++p) add(items[p]);
        sampler_.set(context_.data());
        return sampler_;
    }

    Adam<T> next(double rate) {
        const Settings &s = data_.settings;
        power1_ *= s.beta1, power2_ *= s.beta2;
        const double mean = (1 - s.beta1) / (1 - power1_), root = std::sqrt((1 - s.beta2) / (1 - power2_));
        return {static_cast<T>(rate * mean / root), static_cast<T>(s.epsilon / root), static_cast<T>(s.beta1), static_cast<T>(s.beta2), 1};
    }

    Data<T> data_;
    Sampler sampler_, ordinary_;
    Weights<T> weights_;
    Step<T, FIXED> step_;
    Fitting<T> fitting_;
    std::vector<Hardest::Pair> queue_;
    std::vector<Item> context_;
    std::vector<double> plain_;
    std::uint64_t drawn_ = 0;
    double power1_ = 1, power2_ = 1;
};

}  // namespace manyheads
