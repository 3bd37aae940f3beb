// The vector functions of simd.hpp and survey.hpp, lane by lane, against scalar code.
#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"
#include "engine/random.hpp"
#include "engine/rows.hpp"
#include "fitting/survey.hpp"

using namespace manyheads;

namespace {

// Calls body with a float and with a double, for their types.
template <class Body> void both(Body &&body) {
    body(0.0f);
    body(0.0);
}

template <class T> std::vector<T> numbers(std::size_t count, double low, double high) {
    Random random(1, 2, count);
    std::vector<T> x(count);
    for (T &value : x) value = static_cast<T>(low + (high - low) * random.fraction());
    return x;
}

// The distance of x and y in units of the last place of y.
template <class T> double ulps(T x, long double y) {
    int exponent;
    std::frexp(static_cast<T>(y), &exponent);
    return static_cast<double>(std::abs(x - y) / std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

template <class T> T exponential(T x) { return exp_of_negative<T>(all<T>(x))[WIDTH<T> - 1]; }

}  // namespace

TEST(loads_and_stores_need_no_alignment) {
    both([]<class T>(T) {
        const auto x = numbers<T>(3 * WIDTH<T>, -1, 1);
        std::vector<T> y(x.size(), T(7));
        for (int at = 0; at <= WIDTH<T>; ++at) {
            store<T>(&y[at], load(&x[at + 1]));
            for (int i = 0; i < WIDTH<T>; ++i) CHECK(y[at + i] == x[at + 1 + i]);
            CHECK(y[at + WIDTH<T>] == T(7));
        }
    });
}

TEST(functions_of_one_vector_are_those_of_its_lanes) {
    both([]<class T>(T) {
        const auto x = numbers<T>(WIDTH<T>, 0, 5), y = numbers<T>(WIDTH<T>, -1, 1);
        const Vec<T> v = load(x.data()), signs = load(y.data());
        T sum = 0;
        double product = 1;
        for (int i = 0; i < WIDTH<T>; ++i) {
            CHECK(square_root<T>(v)[i] == std::sqrt(x[i]));
            CHECK(magnitude<T>(signs)[i] == std::abs(y[i]));
            CHECK(signed_by<T>(v, signs)[i] == (y[i] < 0 ? -x[i] : x[i]));
            CHECK(all<T>(x[0])[i] == x[0]);
            CHECK(all_bits<T>(5)[i] == 5);
            sum += x[i], product *= x[i];
        }
        CHECK(sum_of<T>(v) == sum);
        CHECK(log_of_product<T>(v) == std::log(product));
        CHECK(signed_by<T>(all<T>(1), all<T>(T(-0.0)))[0] == -1);
    });
}

TEST(lanes_are_the_bits_of_a_comparison) {
    both([]<class T>(T) {
        for (std::uint32_t wanted = 0; wanted < (1u << std::min(WIDTH<T>, 12)); ++wanted) {
            Bits<T> x{};
            for (int i = 0; i < WIDTH<T>; ++i) x[i] = wanted >> i & 1 ? -1 : 0;
            CHECK(lanes<T>(x) == wanted);
        }
        CHECK(lanes<T>(all_bits<T>(-1)) == (1ull << WIDTH<T>)-1);
    });
}

TEST(the_exponential_is_within_3_ulp) {
    both([]<class T>(T) {
        const double lowest = sizeof(T) == 4 ? -87 : -708;
        double worst = 0;
        for (const T x : numbers<T>(50'000, lowest, 0))
            worst = std::max(worst, ulps(exponential(x), std::exp(static_cast<long double>(x))));
        for (double size = 1e-12; size < -lowest; size *= 1.001)
            worst = std::max(worst, ulps(exponential(static_cast<T>(-size)), std::exp(static_cast<long double>(static_cast<T>(-size)))));
        CHECK(worst < 3);
        CHECK(exponential(T(0)) == 1);
        CHECK(exponential(T(-0.0)) == 1);
    });
}

TEST(the_exponential_of_nan_and_of_very_negative_numbers) {
    both([]<class T>(T) {
        const T lowest = sizeof(T) == 4 ? T(-87) : T(-708);
        CHECK(std::isnan(exponential(std::numeric_limits<T>::quiet_NaN())));
        for (const T x : {2 * lowest, -std::numeric_limits<T>::infinity()}) CHECK(exponential(x) == exponential(lowest));
        CHECK(exponential(lowest) > 0 && exponential(lowest) < T(1e-37));
    });
}

TEST(a_transpose_exchanges_rows_and_columns) {
    both([]<class T>(T) {
        const int rows = 2 * WIDTH<T>, columns = 3 * WIDTH<T>, from_stride = columns + 1, to_stride = rows + 2;
        const auto from = numbers<T>(std::size_t(rows) * from_stride, -1, 1);
        std::vector<T> to(std::size_t(columns) * to_stride, T(7));
        transpose_into(from.data(), from_stride, rows, columns, to.data(), to_stride);
        for (int j = 0; j < columns; ++j) {
            for (int i = 0; i < rows; ++i) CHECK(to[j * to_stride + i] == from[i * from_stride + j]);
            for (int i = rows; i < to_stride; ++i) CHECK(to[j * to_stride + i] == T(7));
        }
    });
}

TEST(gathered_rows_are_the_items_and_their_padding_is_zero) {
    both([]<class T>(T) {
        for (const int width : {1, WIDTH<T> - 1, WIDTH<T>, WIDTH<T> + 1, 37})
            for (const int length : {2, 9, 16, 17}) {
                const auto plain = numbers<T>(std::size_t(40) * width, 1, 2);
                const Rows<T> table(plain.data(), 40, width);
                Gathered<T> gathered(table, length);
                std::vector<Item> items(length);
                for (int round = 0; round < 2; ++round) {
                    for (int p = 0; p < length; ++p) items[p] = (7 * p + 3 + round) % 40;
                    gathered.gather(items.data());
                    const int stride = round_up(length, WIDTH<T>);
                    for (int d = 0; d < table.stride(); ++d)
                        for (int p = 0; p < stride; ++p)
                            CHECK(gathered.across(d)[p] == (p < length && d < width ? plain[std::size_t(items[p]) * width + d] : T(0)));
                    for (int p = 0; p < length; ++p) CHECK(gathered.row(p)[width - 1] == plain[std::size_t(items[p]) * width + width - 1]);
                }
            }
    });
}
