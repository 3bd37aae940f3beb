// How matrices are divided into tiles (tile.hpp), and the product that is built on it (product.hpp).
#include <cmath>
#include <vector>

#include "check.hpp"
#include "engine/product.hpp"
#include "engine/random.hpp"
#include "engine/weights.hpp"

using namespace manyheads;

namespace {

template <class Body> void both(Body &&body) {
    body(0.0f);
    body(0.0);
}

template <class T> std::vector<T> numbers(std::size_t count, std::uint64_t seed) {
    Random random(seed, 0, count);
    std::vector<T> x(count);
    for (T &value : x) value = static_cast<T>(random.fraction() - 0.5);
    return x;
}

template <int MOST> void check_row_blocks() {
    for (int rows = 1; rows <= 50; ++rows) {
        std::vector<int> seen(rows);
        int next = 0, smallest = MOST, largest = 0;
        row_blocks<MOST>(rows, [&](auto R, int first) {
            CHECK(first == next);
            for (int r = first; r < first + R && r < rows; ++r) ++seen[r];
            next = first + R, smallest = std::min<int>(smallest, R), largest = std::max<int>(largest, R);
        });
        CHECK(next == rows);
        for (const int count : seen) CHECK(count == 1);
        CHECK(largest <= MOST && largest - smallest <= 1);
    }
}

// One multiply-add as the compiler makes it for this instruction set.
template <class T> T multiply_add(T a, T b, T sum) {
#if defined(__FMA__) || defined(__aarch64__)
    return std::fma(a, b, sum);
#else
    return a * b + sum;
#endif
}

}  // namespace

TEST(row_blocks_are_equal_and_cover_every_row_once) {
    check_row_blocks<1>();
    check_row_blocks<2>();
    check_row_blocks<4>();
    check_row_blocks<6>();
}

TEST(vector_blocks_cover_every_vector_once) {
    both([]<class T>(T) {
        for (int vectors = 1; vectors <= 9; ++vectors) {
            int next = 0;
            vector_blocks<T>(vectors * WIDTH<T>, [&](auto V, int first) {
                CHECK(first == next);
                next = first + V * WIDTH<T>;
            });
            CHECK(next == vectors * WIDTH<T>);
        }
    });
}

TEST(a_product_has_the_bits_of_one_chain_for_each_element) {
    both([]<class T>(T) {
        for (const int depth : {1, 2, 127, 128, 129, 300})
            for (const int rows : {1, 2, 3, 5, 7, 191, 193})
                for (const int vectors : {1, 2, 3}) {
                    if (rows > 100 && (depth > 2 || vectors == 2)) continue;  // for time
                    const int columns = vectors * WIDTH<T>, stride = columns + 3, to_stride = columns + 1;
                    const auto a = numbers<T>(std::size_t(rows) * depth, 1), b = numbers<T>(std::size_t(depth) * stride, 2);
                    const auto start = numbers<T>(std::size_t(rows) * to_stride, 3);
                    for (const bool across : {false, true}) {  // a by rows, a by columns
                        auto to = start;
                        const int row = across ? 1 : depth, step = across ? rows : 1;
                        add_product(a.data(), row, step, rows, depth, b.data(), stride, columns, to.data(), to_stride);
                        for (int r = 0; r < rows; ++r) {
                            for (int c = 0; c < columns; ++c) {
                                T sum = start[r * to_stride + c];
                                for (int k = 0; k < depth; ++k) sum = multiply_add(a[r * row + k * step], b[k * stride + c], sum);
                                CHECK(to[r * to_stride + c] == sum);
                            }
                            CHECK(to[r * to_stride + columns] == start[r * to_stride + columns]);
                        }
                    }
                }
    });
}

TEST(packed_weights_unpack_to_themselves) {
    both([]<class T>(T) {
        for (const int d_model : {1, WIDTH<T>, 2 * WIDTH<T> + 1, 5 * WIDTH<T> - 1})
            for (const auto &[heads, key_heads] : {std::pair(1, 1), std::pair(3, 3), std::pair(6, 2), std::pair(4, 1)}) {
                const Layout<T> layout{d_model, heads, key_heads, 5};
                const auto query = numbers<T>(std::size_t(heads) * d_model * 5, 1),
                           key = numbers<T>(std::size_t(key_heads) * d_model * 5, 2);
                std::vector<T> packed(layout.size()), back(query.size()), key_back(key.size());
                layout.pack(query.data(), 0, packed.data());
                layout.pack(key.data(), 1, packed.data());
                layout.unpack(packed.data(), 0, back.data());
                CHECK(back == query);
                layout.unpack(packed.data(), 1, key_back.data());
                CHECK(key_back == key);
                CHECK(layout.end(layout.panels() - 1) == layout.size());
            }
    });
}

// AdamStream finishes a vector of weights two calls later than it takes the gradient.
TEST(the_stream_of_updates_is_adam_on_every_weight) {
    both([]<class T>(T) {
        const std::size_t count = 5 * WIDTH<T>;
        const Adam<T> adam{T(0.01), T(1e-3), T(0.9), T(0.99), 1};
        auto weight = numbers<T>(count, 1), first = numbers<T>(count, 2), second = numbers<T>(count, 3);
        for (T &x : second) x = std::abs(x);
        const auto gradient = numbers<T>(count, 4);
        std::vector<T> values(AdamStream<T>::LEAD + count);
        std::copy(weight.begin(), weight.end(), values.begin() + AdamStream<T>::LEAD);
        auto first_moment = first, second_moment = second;
        AdamStream<T> stream(adam, values.data() + AdamStream<T>::LEAD, first_moment.data(), second_moment.data());
        for (std::size_t at = 0; at < count; at += WIDTH<T>) stream(load(&gradient[at]));
        CHECK(stream.finished() == std::ptrdiff_t(count) - AdamStream<T>::LEAD);
        stream.finish();
        for (std::size_t n = 0; n < count; ++n) {
            adam.update(weight[n], first[n], second[n], gradient[n]);
            CHECK(std::abs(values[AdamStream<T>::LEAD + n] - weight[n]) <= 4 * std::numeric_limits<T>::epsilon() * std::abs(weight[n]));
            CHECK(first_moment[n] == first[n] || std::abs(first_moment[n] - first[n]) <= std::numeric_limits<T>::epsilon());
            CHECK(std::abs(second_moment[n] - second[n]) <= std::numeric_limits<T>::epsilon());
        }
        for (int n = 0; n < AdamStream<T>::LEAD; ++n) CHECK(values[n] == 0);  // the lead stays zero
    });
}
