// SplitMix64: the one source of randomness inside the engine, small enough to be written again in any language.
//
// A generator is a 64-bit state. Each draw adds GOLDEN to it and returns mix(state).
// The n-th context of a stream starts from the state  mix(mix(key + GOLDEN·(stream + 1)) + GOLDEN·(n + 1)),
// so every context can be drawn on its own, in any order, on any thread.
#pragma once

#include <cstdint>

namespace manyheads {

class Random {
public:
    static constexpr std::uint64_t GOLDEN = 0x9E3779B97F4A7C15u;

    Random(std::uint64_t key, std::uint64_t stream, std::uint64_t index)
        : state_(mix(mix(key + GOLDEN * (stream + 1)) + GOLDEN * (index + 1))) {}

    std::uint64_t draw() { return mix(state_ += GOLDEN); }

    // A whole number in 0 … count − 1: the high word of draw·count, off uniform by less than count/2^64.
    std::uint32_t below(std::uint32_t count) {
        __extension__ using Wide = unsigned __int128;
        return static_cast<std::uint32_t>((static_cast<Wide>(draw()) * count) >> 64);
    }

    // The 53 high bits of a draw as a fraction of one.
    double fraction() { return static_cast<double>(draw() >> 11) * 0x1p-53; }

private:
    static std::uint64_t mix(std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

    std::uint64_t state_;
};

}  // namespace manyheads
