// Vectors of the machine's width from the compiler's vector extensions (GCC and Clang, any CPU), and the few
// functions of them the engine needs. Everything is written once for float and double.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef MANYHEADS_VECTOR_BYTES
#if defined(__AVX512F__)
#define MANYHEADS_VECTOR_BYTES 64
#elif defined(__AVX__)
#define MANYHEADS_VECTOR_BYTES 32
#else
#define MANYHEADS_VECTOR_BYTES 16
#endif
#endif

#define MANYHEADS_INLINE __attribute__((always_inline))

namespace manyheads {

// Whether this is the engine for browsers. There, on x86-64, code has 15 registers, and each product needs one before it is
// added: a tile has fewer rows, and AdamW a loop of its own (docs/lab-notes/engine.md). No result depends on it.
#if defined(__wasm__)
constexpr bool BROWSER = true;
#else
constexpr bool BROWSER = false;
#endif

template <class T> struct Simd;

template <> struct Simd<float> {
    using Int = std::int32_t;
    typedef float Vec __attribute__((vector_size(MANYHEADS_VECTOR_BYTES)));
    typedef Int Bits __attribute__((vector_size(MANYHEADS_VECTOR_BYTES)));
    typedef float Loose __attribute__((vector_size(MANYHEADS_VECTOR_BYTES), aligned(4), may_alias));
    typedef Int LooseBits __attribute__((vector_size(MANYHEADS_VECTOR_BYTES), aligned(4), may_alias));
    static constexpr int mantissa = 23;
    static constexpr float round_magic = 0x1.8p23f;  // adding it leaves a whole number in the low bits
    static constexpr float ln2_high = 0x1.62e4p-1f;  // few enough bits that n·ln2_high is exact
    static constexpr float ln2_low = 0x1.7f7d1cp-20f;
    static constexpr float lowest_exponent = -87.0f;  // exp of it is still a normal number
    static constexpr int exp_terms = 8;               // |r|^8/8! < 2^−27 for |r| ≤ ln 2/2
};

template <> struct Simd<double> {
    using Int = std::int64_t;
    typedef double Vec __attribute__((vector_size(MANYHEADS_VECTOR_BYTES)));
    typedef Int Bits __attribute__((vector_size(MANYHEADS_VECTOR_BYTES)));
    typedef double Loose __attribute__((vector_size(MANYHEADS_VECTOR_BYTES), aligned(8), may_alias));
    typedef Int LooseBits __attribute__((vector_size(MANYHEADS_VECTOR_BYTES), aligned(8), may_alias));
    static constexpr int mantissa = 52;
    static constexpr double round_magic = 0x1.8p52;
    static constexpr double ln2_high = 0x1.62e42fee00000p-1;
    static constexpr double ln2_low = 0x1.a39ef35793c76p-33;
    static constexpr double lowest_exponent = -708.0;
    static constexpr int exp_terms = 14;
};

template <class T> using Vec = typename Simd<T>::Vec;
template <class T> using Bits = typename Simd<T>::Bits;
template <class T> using Int = typename Simd<T>::Int;

template <class T> constexpr int WIDTH = MANYHEADS_VECTOR_BYTES / static_cast<int>(sizeof(T));

constexpr int round_up(int count, int multiple) { return (count + multiple - 1) / multiple * multiple; }

template <class T> MANYHEADS_INLINE inline Vec<T> load(const T *p) { return *reinterpret_cast<const typename Simd<T>::Loose *>(p); }
template <class T> MANYHEADS_INLINE inline void store(T *p, Vec<T> v) { *reinterpret_cast<typename Simd<T>::Loose *>(p) = v; }
template <class T> MANYHEADS_INLINE inline Bits<T> load_bits(const Int<T> *p) {
    return *reinterpret_cast<const typename Simd<T>::LooseBits *>(p);
}
template <class T> MANYHEADS_INLINE inline void store_bits(Int<T> *p, Bits<T> v) {
    *reinterpret_cast<typename Simd<T>::LooseBits *>(p) = v;
}
template <class T> MANYHEADS_INLINE inline Vec<T> all(T x) { return x - Vec<T>{}; }
template <class T> MANYHEADS_INLINE inline Bits<T> all_bits(Int<T> x) { return x - Bits<T>{}; }

// Keeps the compiler from loading x again for each of its uses.
template <class T> MANYHEADS_INLINE inline void in_register([[maybe_unused]] Vec<T> &x) {
#if (defined(__AVX512F__) && MANYHEADS_VECTOR_BYTES == 64) || (defined(__AVX__) && MANYHEADS_VECTOR_BYTES == 32)
    asm("" : "+v"(x));
#elif defined(__aarch64__) && MANYHEADS_VECTOR_BYTES == 16
    asm("" : "+w"(x));
#endif
}

// Loops whose count the compiler knows, written out: only then does GCC keep small arrays in registers.
template <int N, class Body> MANYHEADS_INLINE inline void unroll(Body &&body) {
    [&]<int... I>(std::integer_sequence<int, I...>)
        MANYHEADS_INLINE { (body(std::integral_constant<int, I>{}), ...); }(std::make_integer_sequence<int, N>{});
}

template <class T> MANYHEADS_INLINE inline Vec<T> square_root(Vec<T> x) {
#if defined(__AVX512F__) && MANYHEADS_VECTOR_BYTES == 64
    // with a mask of all lanes, because GCC 12 warns of the unmasked function (its bug 105593); the instruction is the same
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_maskz_sqrt_ps(-1, (__m512)x);
    else return (Vec<T>)_mm512_maskz_sqrt_pd(-1, (__m512d)x);
#elif defined(__AVX__) && MANYHEADS_VECTOR_BYTES == 32
    if constexpr (sizeof(T) == 4) return (Vec<T>)_mm256_sqrt_ps((__m256)x);
    else return (Vec<T>)_mm256_sqrt_pd((__m256d)x);
#elif defined(__ARM_NEON) && defined(__aarch64__) && MANYHEADS_VECTOR_BYTES == 16
    if constexpr (sizeof(T) == 4) return (Vec<T>)vsqrtq_f32((float32x4_t)x);
    else return (Vec<T>)vsqrtq_f64((float64x2_t)x);
#elif defined(__wasm_simd128__)
    return __builtin_elementwise_sqrt(x);
#else
    Vec<T> root;
    for (int i = 0; i < WIDTH<T>; ++i) root[i] = std::sqrt(x[i]);
    return root;
#endif
}

template <class T> constexpr Int<T> SIGN = Int<T>(1) << (8 * sizeof(T) - 1);

template <class T> MANYHEADS_INLINE inline Vec<T> magnitude(Vec<T> x) { return (Vec<T>)((Bits<T>)x & ~SIGN<T>); }

// x, negated where `sign` is negative.
template <class T> MANYHEADS_INLINE inline Vec<T> signed_by(Vec<T> x, Vec<T> sign) {
    return (Vec<T>)((Bits<T>)x ^ ((Bits<T>)sign & SIGN<T>));
}

// Bit n is set where lane n is true.
template <class T> MANYHEADS_INLINE inline std::uint32_t lanes(Bits<T> x) {
#if defined(__AVX512F__) && MANYHEADS_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4) return _mm512_movepi32_mask((__m512i)x);
    else return _mm512_movepi64_mask((__m512i)x);
#elif defined(__AVX__) && MANYHEADS_VECTOR_BYTES == 32
    if constexpr (sizeof(T) == 4) return _mm256_movemask_ps((__m256)x);
    else return _mm256_movemask_pd((__m256d)x);
#else
    std::uint32_t set = 0;
    for (int i = 0; i < WIDTH<T>; ++i) set |= std::uint32_t(x[i] != 0) << i;
    return set;
#endif
}

template <class T> MANYHEADS_INLINE inline T sum_of(Vec<T> x) {
    T total = 0;
    for (int i = 0; i < WIDTH<T>; ++i) total += x[i];
    return total;
}

template <class T> MANYHEADS_INLINE inline double log_of_product(Vec<T> x) {
    double product = 1;
    for (int i = 0; i < WIDTH<T>; ++i) product *= x[i];
    return std::log(product);
}

// Σ coefficient(FIRST + i)·x^i for i < COUNT, by halves (Estrin): a short chain of dependent products.
template <class T, int FIRST, int COUNT, class Coefficient>
MANYHEADS_INLINE inline Vec<T> series(Coefficient coefficient, const Vec<T> *powers) {
    if constexpr (COUNT == 1) {
        constexpr T constant = coefficient(FIRST);
        return all<T>(constant);
    } else {
        constexpr int level = std::bit_width(static_cast<unsigned>(COUNT - 1)) - 1, half = 1 << level;
        return series<T, FIRST, half>(coefficient, powers) + powers[level] * series<T, FIRST + half, COUNT - half>(coefficient, powers);
    }
}

// e^x for x ≤ 0, within 3 ulp; below the smallest normal number it stays there. NaN stays NaN.
template <class T> MANYHEADS_INLINE inline Vec<T> exp_of_negative(Vec<T> x) {
    using S = Simd<T>;
    x = x < all<T>(S::lowest_exponent) ? all<T>(S::lowest_exponent) : x;
    const Vec<T> shifted = x * T(1.4426950408889634074) + S::round_magic;
    const Vec<T> n = shifted - S::round_magic;  // round(x / ln 2)
    const Vec<T> r = (x - n * S::ln2_high) - n * S::ln2_low;
    constexpr auto inverse_factorial = [](int n) {
        double inverse = 1;
        for (int i = 2; i <= n; ++i) inverse /= i;
        return static_cast<T>(inverse);
    };
    const Vec<T> powers[] = {r, r * r, (r * r) * (r * r), (r * r) * (r * r) * ((r * r) * (r * r))};
    constexpr Int<T> one = Int<T>(S::mantissa == 23 ? 127 : 1023) << S::mantissa;
    const Bits<T> power_of_two = ((Bits<T>)shifted << S::mantissa) + one;
    return series<T, 0, S::exp_terms>(inverse_factorial, powers) * (Vec<T>)power_of_two;
}

// Transposes a WIDTH × WIDTH block held in registers: log2(WIDTH) rounds of interleaving its halves.
template <class T, int ROUND = 1> MANYHEADS_INLINE inline void transpose(Vec<T> (&rows)[WIDTH<T>]) {
    constexpr int W = WIDTH<T>;
    if constexpr (ROUND < W) {
        Vec<T> next[W];
        [&]<int... I>(std::integer_sequence<int, I...>) MANYHEADS_INLINE {
            unroll<W / 2>([&](auto i) MANYHEADS_INLINE {
                next[2 * i] = __builtin_shufflevector(rows[i], rows[i + W / 2], (I / 2 + I % 2 * W)...);
                next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + W / 2], (W / 2 + I / 2 + I % 2 * W)...);
            });
        }(std::make_integer_sequence<int, W>{});
        transpose<T, ROUND * 2>(next);
        unroll<W>([&](auto i) MANYHEADS_INLINE { rows[i] = next[i]; });
    }
}

}  // namespace manyheads
