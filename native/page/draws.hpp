// The random draws of the package, as numpy makes them: SeedSequence, PCG64, permutation and standard_normal.
//
// The generators of graphs and embeddings and the first weights are drawn by numpy (src/manyheads/problem,
// src/manyheads/training/data.py). The page has no numpy. These functions give the same whole numbers, and the same real
// numbers up to the last digit of float64, so that rows and weights are equal in float32.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace manyheads {

__extension__ using Wide = unsigned __int128;

// numpy.random.SeedSequence without a spawn key.
class SeedSequence {
public:
    explicit SeedSequence(const std::vector<std::uint64_t> &numbers) {
        std::vector<std::uint32_t> words;
        for (std::uint64_t number : numbers) {  // each number in 32-bit words, the low word first
            words.push_back(static_cast<std::uint32_t>(number));
            if (number >> 32) words.push_back(static_cast<std::uint32_t>(number >> 32));
        }
        std::uint32_t factor = 0x43B0D7E5;
        const auto hash = [&factor](std::uint32_t value) {
            value ^= factor;
            factor *= 0x931E8875;
            return shifted(value * factor);
        };
        const auto mix = [](std::uint32_t x, std::uint32_t y) { return shifted(0xCA01F9DD * x - 0x4973F715 * y); };
        for (std::size_t i = 0; i < POOL; ++i) pool_[i] = hash(i < words.size() ? words[i] : 0);
        for (std::size_t from = 0; from < POOL; ++from)
            for (std::size_t to = 0; to < POOL; ++to)
                if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
        for (std::size_t from = POOL; from < words.size(); ++from)
            for (std::size_t to = 0; to < POOL; ++to) pool_[to] = mix(pool_[to], hash(words[from]));
    }

    std::vector<std::uint64_t> state(std::size_t count) const {
        std::vector<std::uint64_t> numbers(count, 0);
        std::uint32_t factor = 0x8B51F9DD;
        for (std::size_t i = 0; i < 2 * count; ++i) {
            std::uint32_t value = pool_[i % POOL] ^ factor;
            factor *= 0x58F38DED;
            numbers[i / 2] |= std::uint64_t(shifted(value * factor)) << (i % 2 * 32);
        }
        return numbers;
    }

private:
    static constexpr std::size_t POOL = 4;
    static std::uint32_t shifted(std::uint32_t value) { return value ^ (value >> 16); }
    std::array<std::uint32_t, POOL> pool_{};
};

// numpy.random.default_rng(key): PCG64 with the output function XSL-RR.
class Generator {
public:
    explicit Generator(std::uint64_t key) {
        const auto words = SeedSequence({key}).state(4);
        increment_ = (joined(words[2], words[3]) << 1) | 1;
        step();
        state_ += joined(words[0], words[1]);
        step();
    }

    std::uint64_t draw() {
        step();
        const std::uint64_t high = static_cast<std::uint64_t>(state_ >> 64), folded = high ^ static_cast<std::uint64_t>(state_);
        const unsigned turn = static_cast<unsigned>(high >> 58);
        return folded >> turn | folded << (-turn & 63);
    }

    double fraction() { return static_cast<double>(draw() >> 11) * 0x1p-53; }

    // A whole number from 0 to `most`: as few bits as `most` has, of 32-bit halves of a draw (the low half first), drawn again
    // where they are larger.
    std::uint32_t up_to(std::uint32_t most) {
        if (most == 0) return 0;
        const std::uint32_t mask = 0xFFFFFFFFu >> std::countl_zero(most);
        std::uint32_t number;
        do number = half() & mask;
        while (number > most);
        return number;
    }

    template <class Number> void shuffle(std::vector<Number> &numbers) {
        for (std::size_t i = numbers.size(); i-- > 1;) std::swap(numbers[i], numbers[up_to(static_cast<std::uint32_t>(i))]);
    }

    std::vector<std::int32_t> permutation(std::int32_t count) {
        std::vector<std::int32_t> numbers(count);
        for (std::int32_t i = 0; i < count; ++i) numbers[i] = i;
        shuffle(numbers);
        return numbers;
    }

    // A standard normal number by the ziggurat of 256 layers (Marsaglia & Tsang 2000, Doornik 2005).
    double normal() {
        static const Ziggurat layers;
        for (;;) {
            std::uint64_t bits = draw();
            const unsigned layer = bits & 0xFF;
            const bool negative = bits >> 8 & 1;
            const std::uint64_t place = bits >> 9 & 0xFFFFFFFFFFFFF;
            const double x = (negative ? -1.0 : 1.0) * static_cast<double>(place) * layers.width[layer];
            if (place < layers.inside[layer]) return x;
            if (layer == 0) return tail(place >> 8 & 1);
            const double height = (layers.height[layer - 1] - layers.height[layer]) * fraction() + layers.height[layer];
            if (height < std::exp(-0.5 * x * x)) return x;
        }
    }

private:
    static constexpr double END = 3.6541528853610088, AREA = 0.004928673233974652;  // of the base layer

    struct Ziggurat {
        std::array<double, 256> width, height;  // of layer i: its right end over 2^52, the density there
        std::array<std::uint64_t, 256> inside;  // places below it are under the curve

        Ziggurat() {
            double end = END;
            width[255] = end * 0x1p-52;
            height[255] = std::exp(-0.5 * end * end);
            inside[0] = static_cast<std::uint64_t>(end * height[255] / AREA * 0x1p52);
            width[0] = AREA / height[255] * 0x1p-52;
            height[0] = 1;
            for (int i = 254; i > 0; --i) {
                const double next = std::sqrt(-2 * std::log(AREA / end + height[i + 1]));
                inside[i + 1] = static_cast<std::uint64_t>(next / end * 0x1p52);
                width[i] = next * 0x1p-52;
                height[i] = std::exp(-0.5 * next * next);
                end = next;
            }
            inside[1] = 0;
        }
    };

    double tail(bool negative) {
        for (;;) {
            const double beyond = -(1 / END) * std::log1p(-fraction()), other = -std::log1p(-fraction());
            if (other + other > beyond * beyond) return negative ? -(END + beyond) : END + beyond;
        }
    }

    static Wide joined(std::uint64_t high, std::uint64_t low) { return Wide(high) << 64 | low; }
    void step() { state_ = state_ * joined(0x2360ED051FC65DA4, 0x4385DF649FCCF645) + increment_; }

    std::uint32_t half() {
        if (std::exchange(has_half_, !has_half_)) return half_;
        const std::uint64_t bits = draw();
        half_ = static_cast<std::uint32_t>(bits >> 32);
        return static_cast<std::uint32_t>(bits);
    }

    Wide state_ = 0, increment_ = 0;
    bool has_half_ = false;
    std::uint32_t half_ = 0;
};

// The sum of squares as numpy.add.reduce sums a row: blocks of at most 128 numbers, eight running sums in each.
inline double sum_of_squares(const double *x, std::size_t count) {
    if (count < 8) {
        double sum = 0;
        for (std::size_t i = 0; i < count; ++i) sum += x[i] * x[i];
        return sum;
    }
    if (count > 128) {
        const std::size_t half = count / 2 - count / 2 % 8;
        return sum_of_squares(x, half) + sum_of_squares(x + half, count - half);
    }
    std::array<double, 8> sums;
    for (std::size_t i = 0; i < 8; ++i) sums[i] = x[i] * x[i];
    std::size_t i = 8;
    for (; i + 8 <= count; i += 8)
        for (std::size_t j = 0; j < 8; ++j) sums[j] += x[i + j] * x[i + j];
    double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; i < count; ++i) sum += x[i] * x[i];
    return sum;
}

// `gaussian` of src/manyheads/problem/embedding_kinds.py.
inline void gaussian_rows(std::uint64_t key, std::size_t items, std::size_t d_model, float *rows) {
    Generator generator(key);
    std::vector<double> row(d_model);
    for (std::size_t i = 0; i < items; ++i) {
        for (double &number : row) number = generator.normal();
        const double length = std::sqrt(sum_of_squares(row.data(), d_model));
        for (double number : row) *rows++ = static_cast<float>(number / length);
    }
}

}  // namespace manyheads
