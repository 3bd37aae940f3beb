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

// The rows of queries and, after them, of keys, each row over the positions of a context.
template <class T, int FIXED> struct Shape : Positions<T, FIXED> {
    int heads, key_heads, key_width;

    Shape(const Settings &s, int length) : Positions<T, FIXED>(length), heads(s.heads), key_heads(s.key_heads), key_width(s.key_width) {}

    int group() const { return heads / key_heads; }  // the heads that read one key head
    std::ptrdiff_t head(int k) const { return std::ptrdiff_t(k) * key_width * this->stride(); }
    std::ptrdiff_t keys() const { return head(heads); }
    std::ptrdiff_t key_of(int k) const { return head(heads + k / group()); }  // the keys that head k reads
    bool adds(int k) const { return k % group() != 0; }                       // whether a head before k reads the same keys
    std::size_t size() const { return head(heads + key_heads); }
};

}  // namespace manyheads
