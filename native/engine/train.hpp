// The protocol: steps, validation checks, the stopping rule and the test.
#pragma once

#include <chrono>
#include <cmath>

#include "engine.hpp"
#include "evaluate.hpp"

namespace manyheads {

template <class T, int FIXED> class Trainer final : public Engine {
public:
    Trainer(const Settings &settings, Relations relations, const float *embedding, const double *messages)
        : data_(settings, std::move(relations), embedding, messages), sampler_(data_.sampler()), weights_(data_.layout()), step_(data_),
          schedule_(settings) {}

    Report train(const Monitor &monitor) override {
        using Clock = std::chrono::steady_clock;
        const Settings &s = data_.settings;
        const auto start = Clock::now();
        auto last_pulse = start;
        // Often enough for a time limit to work at once, seldom enough to cost nothing.
        const std::int64_t poll_every = std::clamp<std::int64_t>((1 << 22) / (data_.layout().size() * s.context), 1, 32);
        if (!validation_) validation_.emplace(data_, VALIDATION, s.validation_contexts);
        Report &report = report_;
        while (steps_ < s.steps && patience_ < s.patience) {
            if (const auto cost = step()) {
                if (!std::isfinite(*cost)) return report.stop = Stop::diverged, report;
                loss_ += *cost, ++losses_;
            }
            if (steps_ % poll_every == 0) {
                const auto now = Clock::now();
                if (std::chrono::duration<double>(now - start).count() > monitor.seconds) return report.stop = Stop::timeout, report;
                if (now - last_pulse > std::chrono::milliseconds(100)) monitor.pulse(), last_pulse = now;
            }
            if (steps_ % s.validate_every) continue;
            if (!finite()) return report.stop = Stop::diverged, report;
            const Tally tally = (*validation_)(weights_);
            const Check check{steps_, s.values ? tally.mse() : tally.micro_f1(), losses_ ? loss_ / losses_ : NAN};
            loss_ = 0, losses_ = 0;
            const bool first = report.curve.empty(), better = first || check.score < best_;
            report.curve.push_back(check);
            if (s.values) {  // checks in a row without a new best
                patience_ = better ? 0 : patience_ + 1;
                best_ = better ? check.score : best_;
            } else {  // checks in a row above the mark
                patience_ = check.score > s.stop_above ? patience_ + 1 : 0;
            }
            if (!monitor.check(check)) return report.stop = Stop::cancelled, report;
        }
        if (!finite()) return report.stop = Stop::diverged, report;
        report.stop = patience_ < s.patience ? Stop::limit : Stop::converged;
        report.test = evaluate(TEST, s.test_contexts);
        return report;
    }

    void advance(std::int64_t count, double *losses) override {
        for (std::int64_t n = 0; n < count; ++n) losses[n] = step().value_or(NAN);
    }

    double gradient(const Item *context, double *query, double *key, double *threshold) override {
        sampler_.set(context);
        Buffer<T> by_weight(data_.layout().size());
        step_.prepare(weights_, sampler_);
        prepared_ = false;
        const auto cost = step_.differentiate(weights_.threshold);
        if (cost) step_.gradient(by_weight.data());
        data_.layout().unpack(by_weight.data(), 0, query);
        data_.layout().unpack(by_weight.data(), 1, key);
        *threshold = cost ? cost->by_threshold : 0;
        return cost ? cost->loss : NAN;
    }

    Tally evaluate(std::uint64_t stream, std::int64_t count) override { return Evaluation<T, FIXED>(data_, stream, count)(weights_); }

    void set_weights(const double *query, const double *key, double threshold) override {
        data_.layout().pack(query, 0, weights_.value());
        data_.layout().pack(key, 1, weights_.value());
        weights_.threshold = static_cast<T>(threshold);
        prepared_ = false;
    }

    double weights(double *query, double *key) const override {
        data_.layout().unpack(weights_.value(), 0, query);
        data_.layout().unpack(weights_.value(), 1, key);
        return weights_.threshold;
    }

    // Adam's first or second moments as torch keeps them, not the sums the kernel does.
    double moments(int order, double *query, double *key) const override {
        const double scale = 1 - (order == 1 ? data_.settings.beta1 : data_.settings.beta2);
        const T *from = (order == 1 ? weights_.first : weights_.second).data();
        data_.layout().unpack(from, 0, query);
        data_.layout().unpack(from, 1, key);
        const std::size_t head = std::size_t(data_.settings.d_model) * data_.settings.key_width;
        for (std::size_t i = 0; i < head * data_.settings.heads; ++i) query[i] *= scale;
        for (std::size_t i = 0; i < head * data_.settings.key_heads; ++i) key[i] *= scale;
        return scale * (order == 1 ? weights_.threshold_first : weights_.threshold_second);
    }

    std::int64_t steps() const override { return steps_; }

private:
    // One training step; its loss, or nothing where the context had no valid position. It leaves the next one's context prepared.
    std::optional<double> step() {
        if (!prepared_) step_.prepare(weights_, draw());
        prepared_ = true;
        ++steps_;
        const auto cost = step_.differentiate(weights_.threshold);
        if (!cost) return step_.prepare(weights_, draw()), std::nullopt;
        step_.update(weights_, *cost, schedule_.template next<T>(), draw());
        return cost->loss;
    }

    const Sampler &draw() { return sampler_.draw(TRAIN, steps_), sampler_; }

    bool finite() const {
        T sum = weights_.threshold * 0;
        for (std::size_t i = 0; i < weights_.layout.size(); ++i) sum += weights_.value()[i] * 0;
        return sum == 0;
    }

    Data<T> data_;
    Sampler sampler_;
    Weights<T> weights_;
    Step<T, FIXED> step_;
    Schedule schedule_;
    std::int64_t steps_ = 0;
    bool prepared_ = false;
    // The state of `train` between two calls.
    std::optional<Evaluation<T, FIXED>> validation_;
    Report report_;
    double loss_ = 0, best_ = 0;  // sum of the losses since the last check; least validation error
    std::int64_t losses_ = 0;
    int patience_ = 0;
};

template <class T>
std::unique_ptr<Engine> make_engine(const Settings &s, Relations relations, const float *embedding, const double *messages) {
    if (s.context == 16) return std::make_unique<Trainer<T, 16>>(s, std::move(relations), embedding, messages);
    return std::make_unique<Trainer<T, 0>>(s, std::move(relations), embedding, messages);
}

}  // namespace manyheads
