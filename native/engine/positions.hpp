// The positions of a context: how many there are, and how many with padding to whole vectors. FIXED is their number
// where the compiler may know it (the paper's ℓ = 16, and the blocks of items an evaluation walks), else 0.
#pragma once

#include "settings.hpp"
#include "simd.hpp"

namespace manyheads {

template <class T, int FIXED> class Positions {
public:
    static_assert(FIXED % WIDTH<T> == 0);

    explicit Positions(int length) : length_(length), stride_(round_up(length, WIDTH<T>)) {}

    constexpr int length() const { return FIXED ? FIXED : length_; }
    constexpr int stride() const { return FIXED ? FIXED : stride_; }
    std::size_t pairs() const { return std::size_t(stride()) * stride(); }

private:
    int length_, stride_;
};

// The rows of queries and, after them, of keys, each row over the positions of a context. `group` heads in a row read one key head.
template <class T, int FIXED> struct Shape : Positions<T, FIXED> {
    int heads, key_heads, key_width, group;

    Shape(const Settings &s, int length)
        : Positions<T, FIXED>(length), heads(s.heads), key_heads(s.key_heads), key_width(s.key_width), group(s.heads / s.key_heads) {}

    std::ptrdiff_t head(int k) const { return std::ptrdiff_t(k) * key_width * this->stride(); }
    std::ptrdiff_t keys() const { return head(heads); }
    std::size_t size() const { return head(heads + key_heads); }

    // Calls body(key, first, end) for every key head: where its keys are, and the heads first … end − 1 that read them.
    template <class Body> MANYHEADS_INLINE void each_key_head(Body &&body) const {
        for (int k = 0; k < key_heads; ++k) body(head(heads + k), k * group, (k + 1) * group);
    }
};

}  // namespace manyheads
