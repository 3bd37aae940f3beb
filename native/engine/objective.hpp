// The cost of a context's scores, and the gradient of the cost by every score.
#pragma once

#include <cmath>
#include <vector>

#include "positions.hpp"
#include "rows.hpp"
#include "settings.hpp"
#include "tile.hpp"

namespace manyheads {

struct Cost {
    double loss, by_threshold;
};

// The weighted logistic loss over all ordered pairs. With a = +1 for a pair that is no relation, −w for a relation
// and u = sign(a)·α(S − τ), a pair costs |a|·softplus(u)/ℓ² and its gradient is a·σ(u)·α/ℓ². Padding has a = 0.
template <class T, int FIXED> class Edges {
public:
    Edges(const Settings &s, const Positions<T, FIXED> &positions)
        : positions_(positions), balanced_(s.balanced), weight_(s.positive_weight), sharpness_(static_cast<T>(s.sharpness)),
          sign_(positions.pairs()), relations_(std::size_t(s.context) * s.context + 1) {
        for (int p = 0; p < positions.length(); ++p) std::fill_n(&sign_[std::size_t(p) * positions.stride()], positions.length(), T(1));
    }

    void label(const Sampler &context) {
        for (int n = 0; n < count_; ++n) sign_[relations_[n]] = 1;
        count_ = context.relations(positions_.stride(), relations_.data());
        const int pairs = positions_.length() * positions_.length();
        if (balanced_ && count_) weight_ = double(pairs - count_) / count_;
        for (int n = 0; n < count_; ++n) sign_[relations_[n]] = static_cast<T>(-weight_);
    }

    // softplus(u) = max(u, 0) + log(1 + e) and σ(u) = (1 or e)/(1 + e) with e = exp(−|u|), in two passes so that many
    // vectors are under way at once. The logarithms are taken of products of many factors 1 + e ≤ 2.
    // Not inline: inside Step::differentiate GCC 12 makes code of it that takes 2 to 4 % longer for a whole step.
    __attribute__((noinline)) Cost operator()(const T *score, T threshold, T *by_score) const {
        const std::ptrdiff_t pairs = std::ptrdiff_t(positions_.length()) * positions_.stride();
        const double share = 1.0 / (double(positions_.length()) * positions_.length());
        const T *const sign = sign_.data();
        const T sharpness = sharpness_, scale = static_cast<T>(sharpness_ * share);
        for (std::ptrdiff_t at = 0; at < pairs; at += WIDTH<T>)
            store<T>(by_score + at, exp_of_negative<T>(-magnitude<T>(sharpness * (load(score + at) - threshold))));

        double loss = weight_ * log_of_relations(by_score);
        Vec<T> linear{}, total{}, factors = all<T>(1);
        int count = 0;
        for (std::ptrdiff_t at = 0; at < pairs; at += WIDTH<T>) {
            const Vec<T> a = load(sign + at), e = load(by_score + at), factor = e + T(1);
            const Vec<T> u = signed_by<T>(sharpness * (load(score + at) - threshold), a);
            const Bits<T> positive = u > T(0);
            const Vec<T> gradient = scale * a * ((positive ? all<T>(1) : e) / factor);
            store<T>(by_score + at, gradient);
            total += gradient;
            linear += magnitude<T>(a) * (positive ? u : Vec<T>{});
            factors *= a > T(0) ? factor : all<T>(1);
            if (++count == 32) {  // 2^32 in a lane and 2^512 in 16 lanes are far from overflow
                loss += log_of_product<T>(factors);
                factors = all<T>(1), count = 0;
            }
        }
        loss += double(sum_of<T>(linear)) + (count ? log_of_product<T>(factors) : 0);
        return {loss * share, -double(sum_of<T>(total))};
    }

private:
    double log_of_relations(const T *e) const {
        double sum = 0, product = 1;
        for (int n = 0; n < count_; ++n) {
            product *= T(1) + e[relations_[n]];
            if (product > 0x1p512) sum += std::log(product), product = 1;
        }
        return sum + std::log(product);
    }

    Positions<T, FIXED> positions_;
    bool balanced_;
    double weight_;  // of the current context's relations
    T sharpness_;
    Buffer<T> sign_;
    std::vector<int> relations_;
    int count_ = 0;
};

// The value channel (Sec. 7.2): position p, whose out-neighbour is at position t, predicts the message V(t) by
// Σ_q S(p, q)·V(q). The cost is the mean squared distance over these valid positions. A context may have none.
template <class T, int FIXED> class Values {
public:
    Values(const Positions<T, FIXED> &positions, const Rows<T> &messages)
        : positions_(positions), messages_(&messages), message_(messages, positions.length()),
          residual_(std::size_t(positions.length()) * messages.stride()),
          relations_(std::size_t(positions.length()) * positions.length() + 1), target_(positions.length()) {}

    // How many positions of the context are valid.
    int label(const Sampler &context) {
        std::fill(target_.begin(), target_.end(), NONE);
        valid_ = context.relations(positions_.stride(), relations_.data());
        for (int n = 0; n < valid_; ++n) target_[relations_[n] / positions_.stride()] = relations_[n] % positions_.stride();
        message_.gather(context.items());
        return valid_;
    }

    // The summed squared distance over the valid positions.
    double distance(const T *score) {
        const std::ptrdiff_t stride = positions_.stride(), width = messages_->stride();
        T *const residual = residual_.data();
        const Gathered<T> *const message = &message_;
        row_blocks<4>(positions_.length(), [=, this](auto R, int p) MANYHEADS_INLINE {
            vector_blocks<T>(width, [=, this](auto V, int d) MANYHEADS_INLINE {
                Tile<T, R, V> tile;
                tile.clear();
                tile.accumulate(score + p * stride, stride, 1, positions_.length(),
                                [=](std::ptrdiff_t q, auto v) MANYHEADS_INLINE { return load(message->row(q) + d + v * WIDTH<T>); });
                tile.store_to(residual + p * width + d, width);
            });
        });
        double sum = 0;
        for (int p = 0; p < positions_.length(); ++p) {
            T *const row = residual + p * width;
            if (target_[p] == NONE) {
                std::fill_n(row, width, T(0));
                continue;
            }
            Vec<T> square{};
            for (int d = 0; d < width; d += WIDTH<T>) {
                const Vec<T> difference = load(row + d) - load(message_.row(target_[p]) + d);
                store<T>(row + d, difference);
                square += difference * difference;
            }
            sum += sum_of<T>(square);
        }
        return sum;
    }

    // The same for a prediction of zero.
    double distance_of_zero() const {
        double sum = 0;
        for (int p = 0; p < positions_.length(); ++p)
            if (target_[p] != NONE)
                for (int d = 0; d < messages_->width(); ++d) sum += double(message_.row(target_[p])[d]) * message_.row(target_[p])[d];
        return sum;
    }

    Cost operator()(const T *score, T *by_score) {
        const double loss = distance(score) / valid_;
        const std::ptrdiff_t stride = positions_.stride(), width = messages_->stride();
        const T *const residual = residual_.data();
        const T *const across = message_.across(0);
        const Vec<T> scale = all<T>(static_cast<T>(2.0 / valid_));
        row_blocks<4>(positions_.length(), [=, this](auto R, int p) MANYHEADS_INLINE {
            vector_blocks<T>(stride, [=, this](auto V, int q) MANYHEADS_INLINE {
                Tile<T, R, V> tile;
                tile.clear();
                tile.accumulate(residual + p * width, width, 1, messages_->width(),
                                [=](std::ptrdiff_t d, auto v) MANYHEADS_INLINE { return load(across + d * stride + q + v * WIDTH<T>); });
                tile.each([&](auto r, auto v) MANYHEADS_INLINE { tile.at[r][v] *= scale; });
                tile.store_to(by_score + p * stride + q, stride);
            });
        });
        return {loss, 0};
    }

private:
    static constexpr int NONE = -1;

    Positions<T, FIXED> positions_;
    const Rows<T> *messages_;
    Gathered<T> message_;
    Buffer<T> residual_;
    std::vector<int> relations_, target_;
    int valid_ = 0;
};

}  // namespace manyheads
