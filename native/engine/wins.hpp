// Where the heads of a context have a gradient under a rule that gives it to the winner of a pair only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "simd.hpp"

namespace manyheads {

// A set of positions, a bit for each.
struct Places {
    std::uint32_t bits;

    bool empty() const { return bits == 0; }

    // Calls body(position) in order.
    template <class Body> MANYHEADS_INLINE void each(Body &&body) const {
        for (std::uint32_t left = bits; left; left &= left - 1) body(static_cast<std::ptrdiff_t>(std::countr_zero(left)));
    }
};

// Head k wins pairs (p, q) for the p of `queries(k)` and the q of `keys(k)`. At other positions its gradients are zero,
// and adding zeros changes no bit of a sum. Of 64 heads 82 % of all (position, head) are such, of 8 heads 16 %.
class Wins {
public:
    static constexpr int MOST_POSITIONS = 32;

    // Whether fewer products save more time than loops of unknown length cost (docs/lab-notes/engine.md).
    static bool pay(int heads, int length) { return heads >= 12 && length <= MOST_POSITIONS; }
    // The same for the gradients of weights: there the other way also hides the time of the optimiser.
    static bool pay_for_weights(int heads, int panels) { return heads >= (panels == 1 ? 12 : 24); }

    Wins(int heads, int key_heads) : key_heads_(key_heads), of_head_(heads), of_rows_(heads + key_heads) {}

    template <class Int> void find(const Int *winner, int length, std::ptrdiff_t stride) {
        std::fill(of_head_.begin(), of_head_.end(), 0);
        for (int p = 0; p < length; ++p)
            for (int q = 0; q < length; ++q)
                of_head_[winner[p * stride + q]] |= std::uint64_t(1) << p | std::uint64_t(1) << (MOST_POSITIONS + q);
        const int heads = static_cast<int>(of_head_.size()), group = heads / key_heads_;
        std::fill(of_rows_.begin() + heads, of_rows_.end(), Places{});
        for (int k = 0; k < heads; ++k) of_rows_[k] = queries(k);
        for (int k = 0, n = 0; n < key_heads_; ++n)
            for (const int end = k + group; k < end; ++k) of_rows_[heads + n].bits |= keys(k).bits;
    }

    Places queries(int k) const { return {static_cast<std::uint32_t>(of_head_[k])}; }
    Places keys(int k) const { return {static_cast<std::uint32_t>(of_head_[k] >> MOST_POSITIONS)}; }

    // Of the query heads and, after them, the key heads: the positions where their projections have a gradient.
    const std::vector<Places> &of_rows() const { return of_rows_; }

private:
    int key_heads_;
    std::vector<std::uint64_t> of_head_;
    std::vector<Places> of_rows_;
};

}  // namespace manyheads
