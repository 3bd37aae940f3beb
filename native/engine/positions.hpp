// The positions of a context: how many there are, and how many with padding to whole vectors. FIXED is their number
// where the compiler may know it (the paper's ℓ = 16, and the blocks of items an evaluation walks), else 0.
#pragma once

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

// The rows of queries and, after them, of keys, each row over the positions of a context.
template <class T, int FIXED> struct Shape : Positions<T, FIXED> {
    int heads, key_width;

    Shape(int heads_, int key_width_, int length) : Positions<T, FIXED>(length), heads(heads_), key_width(key_width_) {}

    std::ptrdiff_t head(int k) const { return std::ptrdiff_t(k) * key_width * this->stride(); }
    std::ptrdiff_t keys() const { return head(heads); }
    std::size_t size() const { return 2 * keys(); }
};

}  // namespace manyheads
