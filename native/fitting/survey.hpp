// A survey: the exact scores of all m² pairs, and the gradient of a squared hinge over them. There is no m² matrix in
// memory. The scores of a block of sources with a block of targets are computed in registers, and only the pairs that
// have a cost are read again.
//
// The cost of a pair without a relation is (S_k − ceiling)₊², summed over the heads k. Where the levels have a floor,
// (floor − S_k)₊² is added for every head k. The cost of a relation is weight·(summit − max_k S_k)₊².
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/contexts.hpp"
#include "engine/memory.hpp"
#include "engine/tile.hpp"

namespace manyheads {

// The scores from which a pair has a cost (see the top of this file). A floor of −∞ means: no floor.
struct Levels {
    double floor, ceiling, summit, threshold, weight;
};

// The near pairs of a group of sources at the group's last survey, head by head: the pairs of head k end at ends[k]. A pair
// without a relation is near in a head if its score had a cost there, or was less than the survey's reach away from one.
struct NearPairs {
    struct Pair {
        std::uint32_t row : 6, target : 26;  // the source, counted from the group's first
    };
    std::vector<Pair> pairs;
    std::vector<std::size_t> ends;
};

// The result of a survey. `low` is the highest score of a pair without a relation, but at least the ceiling, because
// scores below the ceiling are not compared. `high` is the lowest score of a relation.
struct Finding {
    double loss = 0, by_ceiling = 0, by_summit = 0;           // the loss, and its derivatives by the two levels
    double lowest = std::numeric_limits<double>::infinity();  // the lowest score of any head below the floor
    double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
    std::int64_t missed = 0, false_pairs = 0, costly = 0;  // relations at or below the threshold; other pairs above it; pairs with a cost

    void add(const Finding &other) {
        loss += other.loss, by_ceiling += other.by_ceiling, by_summit += other.by_summit;
        lowest = std::min(lowest, other.lowest), low = std::max(low, other.low), high = std::min(high, other.high);
        missed += other.missed, false_pairs += other.false_pairs, costly += other.costly;
    }
};

// Queries of all items, head by head, and keys, key head by key head: a row of width() for each item. Head k of h reads
// key head k·g/h of g. The keys are stored a second time as [key head][block][c][BLOCK], blocks of BLOCK items side by
// side. The survey reads them in this order.
template <class T> class Projections {
public:
    static constexpr int BLOCK = TILE_VECTORS * WIDTH<T>;

    Projections(int items, int heads, int key_heads, int key_width)
        : items_(items), heads_(heads), key_heads_(key_heads), key_width_(key_width), width_(round_up(key_width, WIDTH<T>)),
          query_(at(heads, 0)), key_(at(key_heads, 0)), across_(std::size_t(key_heads) * blocks() * key_width * BLOCK) {}

    int items() const { return items_; }
    int heads() const { return heads_; }
    int key_heads() const { return key_heads_; }
    int key_head(int head) const { return static_cast<int>(std::int64_t(head) * key_heads_ / heads_); }
    int key_width() const { return key_width_; }
    int width() const { return width_; }
    int blocks() const { return (items_ + BLOCK - 1) / BLOCK; }
    std::size_t at(int head, int item) const { return (std::size_t(head) * items_ + item) * width_; }

    const T *query(int head, int item) const { return query_.data() + at(head, item); }
    const T *key(int head, int item) const { return key_.data() + at(key_head(head), item); }
    const T *across(int head, int block) const {
        return across_.data() + (std::size_t(key_head(head)) * blocks() + block) * key_width_ * BLOCK;
    }

    // From rows [item][queries of all heads …], those of items first … last − 1.
    void fill_queries(const T *joined, std::ptrdiff_t stride, int first, int last) {
        for (int head = 0; head < heads_; ++head)
            for (int i = first; i < last; ++i)
                std::copy_n(joined + i * stride + head * key_width_, key_width_, query_.data() + at(head, i));
    }

    // From rows [item][keys of all key heads …], likewise.
    void fill_keys(const T *joined, std::ptrdiff_t stride, int first, int last) {
        for (int head = 0; head < key_heads_; ++head)
            for (int i = first; i < last; ++i) {
                const T *const from = joined + i * stride + head * key_width_;
                T *const block = across_.data() + (std::size_t(head) * blocks() + i / BLOCK) * key_width_ * BLOCK + i % BLOCK;
                std::copy_n(from, key_width_, key_.data() + at(head, i));
                for (int c = 0; c < key_width_; ++c) block[std::ptrdiff_t(c) * BLOCK] = from[c];
            }
    }

private:
    int items_, heads_, key_heads_, key_width_, width_;
    Buffer<T> query_, key_, across_;
};

// The part of a survey that one thread computes. Its gradients have the layout of the rows of Projections.
template <class T> class Surveyor {
public:
    Surveyor(const Projections<T> &p, const Relations &relations) : by_key(p.at(p.key_heads(), 0)), p_(&p), relations_(&relations) {}

    Buffer<T> by_key;  // summed over this thread's sources, and over the heads that share a key head

    static constexpr int GROUP = 48;  // sources whose scores are computed while a block of keys is in the cache

    static_assert(GROUP <= 64, "a row has six bits in NearPairs");
    static constexpr std::int64_t MOST_ITEMS_WITH_NEAR_PAIRS = std::int64_t(1) << 26;

    // Begins a survey. All threads share by_query and near (one element for each group). Each thread writes only the rows of
    // the sources in its own groups.
    void begin(const Levels &levels, double reach, std::size_t most_kept, T *by_query, NearPairs *near) {
        finding_ = {};
        by_query_ = by_query, near_ = near, levels_ = levels, reach_ = static_cast<T>(reach), most_kept_ = most_kept;
        std::fill_n(by_key.data(), by_key.size(), T(0));
        wrong_.resize(std::size_t(GROUP) * p_->items());
    }

    // All pairs of a group of sources. Keeps the near ones, if asked to.
    void look(int group, bool keep) {
        const Item from = group * GROUP;
        const int count = relations_of_group(group);
        std::fill(wrong_.begin(), wrong_.end(), false);
        keeps_ = keep, kept_.clear();
        std::vector<std::size_t> ends;
        for (int head = 0; head < p_->heads(); ++head) {
            for (int block = 0; block < p_->blocks(); ++block) {
                if (levels_.floor == -std::numeric_limits<double>::infinity()) others<false>(head, from, count, block);
                else others<true>(head, from, count, block);
            }
            ends.push_back(kept_.size());
        }
        if (keep) near_[group] = {{kept_.begin(), kept_.end()}, std::move(ends)};  // in no more memory than it needs
    }

    // The relations of the groups first … last − 1, and their pairs that were near at their last survey; not the groups that
    // `skip` names. Head by head, so that the keys of one head stay in the cache.
    template <class Skip> void look_again(int first, int last, Skip &&skip) {
        for (int group = first; group < last; ++group)
            if (!skip(group)) relations_of_group(group);
        for (int head = 0; head < p_->heads(); ++head)
            for (int group = first; group < last; ++group)
                if (!skip(group) && !near_[group].ends.empty()) near_of(head, group);
    }

    const Finding &finding() const { return finding_; }

private:
    static constexpr int BLOCK = Projections<T>::BLOCK;

    // Returns the number of sources of the group.
    int relations_of_group(int group) {
        const Item from = group * GROUP;
        const int count = std::min<Item>(GROUP, p_->items() - from);
        for (int head = 0; head < p_->heads(); ++head)
            std::fill(by_query_ + p_->at(head, from), by_query_ + p_->at(head, from + count), T(0));
        for (Item i = from; i < from + count; ++i) relations_of(i);
        return count;
    }

    void near_of(int head, int group) {
        const NearPairs &near = near_[group];
        for (std::size_t n = head == 0 ? 0 : near.ends[head - 1]; n < near.ends[head]; ++n) {
            const auto [row, target] = near.pairs[n];
            const T score = score_of(head, group * GROUP + row, target);
            if (score > levels_.ceiling || score < levels_.floor) costly(head, group * GROUP + row, target, score);
        }
    }

    T score_of(int head, Item source, Item target) const {
        const T *const query = p_->query(head, source), *const key = p_->key(head, target);
        Vec<T> sum{};
        for (int c = 0; c < p_->width(); c += WIDTH<T>) sum += load(query + c) * load(key + c);
        return sum_of<T>(sum);
    }

    void relations_of(Item i) {
        for (auto t = relations_->begin(i); t != relations_->end(i); ++t) {
            int winner = 0;
            T best = 0;
            for (int head = 0; head < p_->heads(); ++head) {
                const T score = score_of(head, i, *t);
                if (head == 0 || score > best) best = score, winner = head;
            }
            finding_.high = std::min<double>(finding_.high, best);
            finding_.missed += !(best > levels_.threshold);
            const double lack = levels_.summit - best;
            if (lack > 0) {
                finding_.by_summit += 2 * levels_.weight * lack;
                finding_.loss += levels_.weight * lack * lack, ++finding_.costly;
                push(winner, i, *t, static_cast<T>(-2 * levels_.weight * lack));
            }
        }
    }

    template <bool FLOOR> void others(int head, Item from, int count, int block) {
        const std::ptrdiff_t width = p_->width();
        const T *const across = p_->across(head, block), *const query = p_->query(head, from);
        const T reach = keeps_ ? reach_ : 0;
        const T ceiling = static_cast<T>(levels_.ceiling) - reach, floor = static_cast<T>(levels_.floor) + reach;
        row_blocks<4>(count, [=, this](auto R, int row) MANYHEADS_INLINE {
            Tile<T, R, TILE_VECTORS> tile;
            tile.clear();
            tile.accumulate(query + row * width, width, 1, p_->key_width(),
                            [=](std::ptrdiff_t c, auto v) MANYHEADS_INLINE { return load(across + c * BLOCK + v * WIDTH<T>); });
            tile.each([&](auto r, auto v) MANYHEADS_INLINE {
                Bits<T> near = tile.at[r][v] > ceiling;
                if constexpr (FLOOR) near |= tile.at[r][v] < floor;
                for (std::uint32_t set = lanes<T>(near); set; set &= set - 1) {
                    const int lane = std::countr_zero(set);
                    other(head, from, row + r, block * BLOCK + v * WIDTH<T> + lane, tile.at[r][v][lane]);
                }
            });
        });
    }

    // A pair whose score lies outside floor … ceiling, or near these.
    void other(int head, Item from, int row, Item target, T score) {
        const Item source = from + row;
        if (target >= p_->items() || std::binary_search(relations_->begin(source), relations_->end(source), target)) return;
        if (keeps_ && kept_.size() < most_kept_) kept_.push_back({static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(target)});
        if (!(score > levels_.ceiling || score < levels_.floor)) return;
        if (score > levels_.threshold && !wrong_[std::size_t(row) * p_->items() + target]) {
            wrong_[std::size_t(row) * p_->items() + target] = true;
            ++finding_.false_pairs;
        }
        costly(head, source, target, score);
    }

    void costly(int head, Item source, Item target, T score) {
        ++finding_.costly;
        finding_.low = std::max<double>(finding_.low, score), finding_.lowest = std::min<double>(finding_.lowest, score);
        const bool above = score > levels_.ceiling;
        const double excess = score - (above ? levels_.ceiling : levels_.floor);
        finding_.loss += excess * excess;
        if (above) finding_.by_ceiling -= 2 * excess;
        push(head, source, target, static_cast<T>(2 * excess));
    }

    void push(int head, Item source, Item target, T gradient) {
        const T *const query = p_->query(head, source), *const key = p_->key(head, target);
        T *const by_query = by_query_ + p_->at(head, source), *const to_key = by_key.data() + p_->at(p_->key_head(head), target);
        for (int c = 0; c < p_->width(); c += WIDTH<T>) {
            store<T>(by_query + c, load(by_query + c) + gradient * load(key + c));
            store<T>(to_key + c, load(to_key + c) + gradient * load(query + c));
        }
    }

    const Projections<T> *p_;
    const Relations *relations_;
    T *by_query_ = nullptr;
    NearPairs *near_ = nullptr;  // of all groups
    Levels levels_{};
    T reach_ = 0;
    std::size_t most_kept_ = 0;  // near pairs of a group; further ones are left out
    Finding finding_;
    bool keeps_ = false;
    std::vector<NearPairs::Pair> kept_;  // of the current sources
    std::vector<char> wrong_;            // pairs of the current sources already counted in false_pairs
};

}  // namespace manyheads
