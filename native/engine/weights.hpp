// Query and key weights, their optimiser's two moments, and AdamW.
//
// Both matrices are one: rows 0 … D_Q − 1 are the query's columns (head by head), the next D_K rows the key's. It is
// stored in panels of two vectors of d_model (four in a browser), [panel][row][PANEL], the last panel as narrow as whole
// vectors allow: both passes over the weights run through memory in order, however large d_model is.
#pragma once

#include <algorithm>
#include <cmath>

#include "memory.hpp"
#include "settings.hpp"
#include "simd.hpp"

namespace manyheads {

template <class T> constexpr int PANEL = (BROWSER ? 4 : 2) * WIDTH<T>;

// AdamW in torch's form, with the moments kept as sums, M = Σ β1^i·g and V = Σ β2^i·g², and every constant factor
// folded into two scalars, so that a vector of weights costs four products, a square root and a division:
//     lr·m̂/(√v̂ + ε)  =  rate·M/(√V + epsilon),   m = (1−β1)·M,  v = (1−β2)·V.
template <class T> struct Adam {
    T rate, epsilon, beta1, beta2, keep;

    void update(T &weight, T &first, T &second, T gradient) const {
        first = first * beta1 + gradient;
        second = second * beta2 + gradient * gradient;
        weight = weight * keep - rate * (first / (std::sqrt(second) + epsilon));
    }
};

// Adam over all weights in the order of memory, a vector of gradients at a time. The division and the final product
// of a vector come one and two calls after its square root: no chain of slow operations holds up the products that
// the caller goes on with in between. So the weights need a lead of two vectors that may be written, with zeros.
template <class T> class AdamStream {
public:
    static constexpr int LEAD = 2 * WIDTH<T>;

    AdamStream(const Adam<T> &adam, T *weight, T *first, T *second)
        : rate_(all<T>(adam.rate)), epsilon_(all<T>(adam.epsilon)), beta1_(all<T>(adam.beta1)), beta2_(all<T>(adam.beta2)), weight_(weight),
          first_(first), second_(second) {}

    MANYHEADS_INLINE void operator()(Vec<T> gradient) {
        go_on();
        const Vec<T> m = load(first_ + at_) * beta1_ + gradient, v = load(second_ + at_) * beta2_ + gradient * gradient;
        store<T>(first_ + at_, m);
        store<T>(second_ + at_, v);
        root_ = square_root<T>(v), moment_ = m;
        at_ += WIDTH<T>;
    }

    // How many weights have their new values.
    std::ptrdiff_t finished() const { return at_ - LEAD; }

    // Ends the two vectors still under way.
    void finish() {
        go_on();
        at_ += WIDTH<T>;
        go_on();
    }

private:
    MANYHEADS_INLINE void go_on() {
        const Vec<T> quotient = moment_ / (root_ + epsilon_);
        T *const oldest = weight_ + at_ - LEAD;
        store<T>(oldest, load(oldest) - rate_ * quotient_);
        quotient_ = quotient;
    }

    Vec<T> rate_, epsilon_, beta1_, beta2_;
    T *weight_, *first_, *second_;
    std::ptrdiff_t at_ = 0;
    Vec<T> root_{}, moment_{}, quotient_{};
};

// The bias corrections, step by step.
class Schedule {
public:
    explicit Schedule(const Settings &s) : s_(s) {}

    template <class T> Adam<T> next() {
        power1_ *= s_.beta1;
        power2_ *= s_.beta2;
        const double mean = (1 - s_.beta1) / (1 - power1_), root = std::sqrt((1 - s_.beta2) / (1 - power2_));
        return {static_cast<T>(s_.learning_rate * mean / root), static_cast<T>(s_.epsilon / root), static_cast<T>(s_.beta1),
                static_cast<T>(s_.beta2), static_cast<T>(1 - s_.learning_rate * s_.weight_decay)};
    }

private:
    Settings s_;
    double power1_ = 1, power2_ = 1;
};

template <class T> struct Layout {
    int d_model, heads, key_heads, key_width;

    int rows() const { return (heads + key_heads) * key_width; }
    int panels() const { return (d_model + PANEL<T> - 1) / PANEL<T>; }
    int depth(int panel) const { return std::min(PANEL<T>, d_model - panel * PANEL<T>); }
    int width(int panel) const { return round_up(depth(panel), WIDTH<T>); }
    std::size_t start(int panel) const { return std::size_t(panel) * rows() * PANEL<T>; }
    std::size_t end(int panel) const { return start(panel) + std::size_t(rows()) * width(panel); }
    std::size_t size() const { return std::size_t(rows()) * round_up(d_model, WIDTH<T>); }

    // plain is the layout of Layer: (heads, d_model, key_width) for matrix 0, the query; (key_heads, d_model, key_width) for 1, the key.
    template <class U> void pack(const U *plain, int matrix, T *packed) const {
        each(matrix, [&](std::size_t from, std::size_t to) { packed[to] = static_cast<T>(plain[from]); });
    }
    template <class U> void unpack(const T *packed, int matrix, U *plain) const {
        each(matrix, [&](std::size_t to, std::size_t from) { plain[to] = static_cast<U>(packed[from]); });
    }

private:
    template <class Body> void each(int matrix, Body &&body) const {
        std::size_t plain = 0;
        for (int k = 0; k < (matrix ? key_heads : heads); ++k)
            for (int d = 0; d < d_model; ++d)
                for (int j = 0; j < key_width; ++j) {
                    const int panel = d / PANEL<T>, row = (matrix * heads + k) * key_width + j;
                    body(plain++, start(panel) + std::size_t(row) * width(panel) + d % PANEL<T>);
                }
    }
};

template <class T> class Weights {
public:
    explicit Weights(const Layout<T> &l) : layout(l), first(l.size()), second(l.size()), value_(AdamStream<T>::LEAD + l.size()) {}

    T *value() { return value_.data() + AdamStream<T>::LEAD; }
    const T *value() const { return value_.data() + AdamStream<T>::LEAD; }

    Layout<T> layout;
    Buffer<T> first, second;
    T threshold{}, threshold_first{}, threshold_second{};

private:
    Buffer<T> value_;
};

}  // namespace manyheads
