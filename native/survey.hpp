// An exact look at all m² pairs, and the gradient of a squared hinge over them. No m² matrix: a block of sources meets a
// block of targets in registers, and only pairs that cost something are touched again.
//
// A pair without a relation costs (S_k − ceiling)₊² for every head k that scores it above the ceiling, and where there is
// a floor (floor − S_k)₊² for every head that scores it below; a relation costs weight·(summit − max_k S_k)₊².
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "contexts.hpp"
#include "memory.hpp"
#include "tile.hpp"

namespace manyheads {

// Where the loss begins: see above. −∞ is no floor.
struct Levels {
    double floor, ceiling, summit, threshold, weight;
};

// What a look at all pairs finds. Scores below the ceiling are not told apart: low is at least the ceiling.
struct Finding {
    double loss = 0, by_ceiling = 0, by_summit = 0;  // and by how much it grows with the two levels
    double lowest = std::numeric_limits<double>::infinity();  // of all scores below the floor, by any head
    double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
    std::int64_t missed = 0, false_pairs = 0, costly = 0;  // relations at or below the threshold, others above it, pairs that cost

    void add(const Finding &other) {
        loss += other.loss, by_ceiling += other.by_ceiling, by_summit += other.by_summit;
        lowest = std::min(lowest, other.lowest), low = std::max(low, other.low), high = std::min(high, other.high);
        missed += other.missed, false_pairs += other.false_pairs, costly += other.costly;
    }
};

// The pairs that cost most of all those offered, at most `limit` of them.
class Hardest {
public:
    struct Pair {
        double cost;
        Item source, target;
        bool operator<(const Pair &other) const { return cost > other.cost; }  // a heap with the cheapest on top
    };

    explicit Hardest(std::size_t limit) : limit_(limit) {}

    void clear() { pairs_.clear(); }
    const std::vector<Pair> &pairs() const { return pairs_; }
    void offer(double cost, Item source, Item target) {
        if (pairs_.size() == limit_) {
            if (limit_ == 0 || cost <= pairs_.front().cost) return;
            std::pop_heap(pairs_.begin(), pairs_.end());
            pairs_.pop_back();
        }
        pairs_.push_back({cost, source, target});
        std::push_heap(pairs_.begin(), pairs_.end());
    }

private:
    std::size_t limit_;
    std::vector<Pair> pairs_;
};

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

// Queries and keys of all items, head by head: a row of width() for each item, and the keys again in blocks of BLOCK
// items side by side, [head][block][c][BLOCK], which is how the pass over all pairs reads them.
template <class T> class Projections {
public:
    static constexpr int BLOCK = TILE_VECTORS * WIDTH<T>;

    Projections(int items, int heads, int key_width)
        : items_(items), heads_(heads), key_width_(key_width), width_(round_up(key_width, WIDTH<T>)), query_(rows() * width_),
          key_(rows() * width_), across_(std::size_t(heads) * blocks() * key_width * BLOCK) {}

    int items() const { return items_; }
    int heads() const { return heads_; }
    int key_width() const { return key_width_; }
    int width() const { return width_; }
    int blocks() const { return (items_ + BLOCK - 1) / BLOCK; }
    std::size_t rows() const { return std::size_t(heads_) * items_; }
    std::size_t at(int head, int item) const { return (std::size_t(head) * items_ + item) * width_; }

    const T *query(int head, int item) const { return query_.data() + at(head, item); }
    const T *key(int head, int item) const { return key_.data() + at(head, item); }
    const T *across(int head, int block) const { return across_.data() + (std::size_t(head) * blocks() + block) * key_width_ * BLOCK; }

    // From rows [item][queries of all heads …], those of items first … last − 1.
    void fill_queries(const T *joined, std::ptrdiff_t stride, int first, int last) {
        for (int head = 0; head < heads_; ++head)
            for (int i = first; i < last; ++i) std::copy_n(joined + i * stride + head * key_width_, key_width_, query_.data() + at(head, i));
    }

    // From rows [item][keys of all heads …], likewise.
    void fill_keys(const T *joined, std::ptrdiff_t stride, int first, int last) {
        for (int head = 0; head < heads_; ++head)
            for (int i = first; i < last; ++i) {
                const T *const from = joined + i * stride + head * key_width_;
                T *const block = across_.data() + (std::size_t(head) * blocks() + i / BLOCK) * key_width_ * BLOCK + i % BLOCK;
                std::copy_n(from, key_width_, key_.data() + at(head, i));
                for (int c = 0; c < key_width_; ++c) block[std::ptrdiff_t(c) * BLOCK] = from[c];
            }
    }

private:
    int items_, heads_, key_width_, width_;
    Buffer<T> query_, key_, across_;
};

// The part of the pass that one thread does, gradients into arrays laid out as the rows. Sources come in groups.
template <class T> class Surveyor {
public:
    Surveyor(const Projections<T> &p, const Relations &relations, std::size_t keep)
        : by_key(p.rows() * p.width()), hardest(keep), p_(&p), relations_(&relations) {}

    Buffer<T> by_key;  // summed over this thread's sources
    Hardest hardest;   // of them

    static constexpr int GROUP = 48;  // sources that meet a block of keys while it is in the cache

    // by_query belongs to all threads: each writes the rows of the sources of its own groups.
    Finding look(const Levels &levels, const int *groups, std::size_t count, T *by_query) {
        finding_ = {};
        hardest.clear();
        by_query_ = by_query, levels_ = levels;
        std::fill_n(by_key.data(), by_key.size(), T(0));
        wrong_.resize(std::size_t(GROUP) * p_->items());
        for (std::size_t n = 0; n < count; ++n) look_at(groups[n] * GROUP);
        return finding_;
    }

private:
    static constexpr int BLOCK = Projections<T>::BLOCK;

    void look_at(Item from) {
        const int count = std::min<Item>(GROUP, p_->items() - from);
        std::fill(wrong_.begin(), wrong_.end(), false);
        for (int head = 0; head < p_->heads(); ++head)
            std::fill(by_query_ + p_->at(head, from), by_query_ + p_->at(head, from + count), T(0));
        for (Item i = from; i < from + count; ++i) relations_of(i);
        for (int head = 0; head < p_->heads(); ++head)
            for (int block = 0; block < p_->blocks(); ++block) {
                if (levels_.floor == -std::numeric_limits<double>::infinity()) others<false>(head, from, count, block);
                else others<true>(head, from, count, block);
            }
    }

    void relations_of(Item i) {
        for (auto t = relations_->begin(i); t != relations_->end(i); ++t) {
            int winner = 0;
            T best = 0;
            for (int head = 0; head < p_->heads(); ++head) {
                const T *const query = p_->query(head, i), *const key = p_->key(head, *t);
                Vec<T> sum{};
                for (int c = 0; c < p_->width(); c += WIDTH<T>) sum += load(query + c) * load(key + c);
                const T score = sum_of<T>(sum);
                if (head == 0 || score > best) best = score, winner = head;
            }
            finding_.high = std::min<double>(finding_.high, best);
            finding_.missed += !(best > levels_.threshold);
            const double lack = levels_.summit - best;
            if (lack > 0) {
                finding_.by_summit += 2 * levels_.weight * lack;
                finding_.loss += levels_.weight * lack * lack, ++finding_.costly;
                hardest.offer(lack, i, *t);
                push(winner, i, *t, static_cast<T>(-2 * levels_.weight * lack));
            }
        }
    }

    template <bool FLOOR> void others(int head, Item from, int count, int block) {
        const std::ptrdiff_t width = p_->width();
        const T *const across = p_->across(head, block), *const query = p_->query(head, from);
        const T ceiling = static_cast<T>(levels_.ceiling), floor = static_cast<T>(levels_.floor);
        row_blocks<4>(count, [=, this](auto R, int row) MANYHEADS_INLINE {
            Tile<T, R, TILE_VECTORS> tile;
            tile.clear();
            tile.accumulate(query + row * width, width, 1, p_->key_width(), [=](std::ptrdiff_t c, auto v) MANYHEADS_INLINE {
                return load(across + c * BLOCK + v * WIDTH<T>);
            });
            tile.each([&](auto r, auto v) MANYHEADS_INLINE {
                Bits<T> costs = tile.at[r][v] > ceiling;
                if constexpr (FLOOR) costs |= tile.at[r][v] < floor;
                for (std::uint32_t set = lanes<T>(costs); set; set &= set - 1) {
                    const int lane = std::countr_zero(set);
                    other(head, from, row + r, block * BLOCK + v * WIDTH<T> + lane, tile.at[r][v][lane]);
                }
            });
        });
    }

    // A pair whose score lies outside floor … ceiling.
    void other(int head, Item from, int row, Item target, T score) {
        const Item source = from + row;
        if (target >= p_->items() || std::binary_search(relations_->begin(source), relations_->end(source), target)) return;
        ++finding_.costly;
        finding_.low = std::max<double>(finding_.low, score), finding_.lowest = std::min<double>(finding_.lowest, score);
        if (score > levels_.threshold && !wrong_[std::size_t(row) * p_->items() + target]) {
            wrong_[std::size_t(row) * p_->items() + target] = true;
            ++finding_.false_pairs;
        }
        const bool above = score > levels_.ceiling;
        const double excess = score - (above ? levels_.ceiling : levels_.floor);
        finding_.loss += excess * excess;
        if (above) finding_.by_ceiling -= 2 * excess;
        hardest.offer(std::abs(excess), source, target);
        push(head, source, target, static_cast<T>(2 * excess));
    }

    void push(int head, Item source, Item target, T gradient) {
        const T *const query = p_->query(head, source), *const key = p_->key(head, target);
        T *const by_query = by_query_ + p_->at(head, source), *const to_key = by_key.data() + p_->at(head, target);
        for (int c = 0; c < p_->width(); c += WIDTH<T>) {
            store<T>(by_query + c, load(by_query + c) + gradient * load(key + c));
            store<T>(to_key + c, load(to_key + c) + gradient * load(query + c));
        }
    }

    const Projections<T> *p_;
    const Relations *relations_;
    T *by_query_ = nullptr;
    Levels levels_{};
    Finding finding_;
    std::vector<char> wrong_;  // pairs of the current sources that some head has already got wrong
};

}  // namespace manyheads
