// The contexts of a run: App. A.1's three steps, read literally, for any graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "random.hpp"

namespace manyheads {

using Item = std::int32_t;

// A graph as the engine reads it: the out-neighbours of item i lie in begin(i) … end(i) − 1.
class Relations {
public:
    Relations(const std::int64_t *row_starts, const std::int64_t *targets, std::size_t items)
        : row_starts_(row_starts, row_starts + items + 1), targets_(targets, targets + row_starts[items]) {}

    const Item *begin(Item i) const { return targets_.data() + row_starts_[i]; }
    const Item *end(Item i) const { return targets_.data() + row_starts_[i + 1]; }
    std::uint32_t degree(Item i) const { return static_cast<std::uint32_t>(row_starts_[i + 1] - row_starts_[i]); }
    Item items() const { return static_cast<Item>(row_starts_.size() - 1); }

private:
    std::vector<std::int64_t> row_starts_;
    std::vector<Item> targets_;
};

class Sampler {
public:
    Sampler(const Relations &relations, int length, double target_rate, std::uint64_t key)
        : graph_(&relations), length_(length), key_(key), at_most_(length), place_(relations.items(), ABSENT), order_(length),
          items_(length) {
        // P[Binomial(n, ρ) = k] by one more trial at a time, then summed: at_most_[k] = P[Binomial(ℓ, ρ) ≤ k], k < ℓ.
        std::vector<double> exactly(length + 1, 0.0);
        exactly[0] = 1;
        for (int n = 1; n <= length; ++n)
            for (int k = n; k >= 0; --k) exactly[k] = exactly[k] * (1 - target_rate) + (k ? exactly[k - 1] * target_rate : 0);
        double sum = 0;
        for (int k = 0; k < length; ++k) at_most_[k] = sum += exactly[k];
    }

    // Draws one context. It stays current, with `items` and `relations`, until the next one is drawn.
    const Item *draw(std::uint64_t stream, std::uint64_t index) {
        Random random(key_, stream, index);
        clear();
        sample_distinct_items(random);
        const int chosen = choose_sources(random);
        for (int n = 0; n < chosen; ++n) bring_a_target_of(order_[n], random);
        return items_.data();
    }

    // Makes a context of the caller's the current one.
    void set(const Item *context) {
        clear();
        for (int p = 0; p < length_; ++p) put(p, context[p]);
    }

    const Item *items() const { return items_.data(); }
    int length() const { return length_; }

    // Writes p·stride + q for every ordered pair of positions of the current context that is a relation, in order, and
    // returns their number. `pairs` has room for one more: every pair is written, and only the count tells
    // whether the next one overwrites it, so that there is no branch.
    int relations(int stride, int *pairs) const {
        int count = 0;
        for (int p = 0; p < length_; ++p)
            for (auto t = graph_->begin(items_[p]); t != graph_->end(items_[p]); ++t) {
                pairs[count] = p * stride + place_[*t];
                count += place_[*t] != ABSENT;
            }
        return count;
    }

private:
    static constexpr std::int32_t ABSENT = -1;

    void clear() {
        if (filled_)
            for (Item i : items_) place_[i] = ABSENT;
        filled_ = true;
    }

    void put(int position, Item item) {
        items_[position] = item;
        place_[item] = position;
    }

    // Step 1: ℓ distinct items. An item that is already in the context is drawn again.
    void sample_distinct_items(Random &random) {
        for (int p = 0; p < length_; ++p) {
            Item item;
            do item = static_cast<Item>(random.below(graph_->items()));
            while (place_[item] != ABSENT);
            put(p, item);
        }
    }

    // Step 2: b ~ Binomial(ℓ, ρ) from one fraction of one, then b of the items in random order: the head of order_.
    int choose_sources(Random &random) {
        const double fraction = random.fraction();
        int chosen = 0;
        for (double p : at_most_) chosen += fraction >= p;
        for (int p = 0; p < length_; ++p) order_[p] = items_[p];
        for (int n = 0; n < chosen; ++n) std::swap(order_[n], order_[n + random.below(length_ - n)]);
        return chosen;
    }

    // Step 3: where no out-neighbour of i is in S, a random one replaces a random j ∈ S∖{i}. Nothing is repaired:
    // j may be a chosen source or an earlier target, and i itself may have been replaced by now. Both random numbers
    // are drawn in any case, and an out-neighbour that is there replaces itself, so that nothing branches.
    void bring_a_target_of(Item i, Random &random) {
        const std::uint32_t degree = graph_->degree(i);
        if (degree == 0) return;
        Item target = graph_->begin(i)[random.below(degree)];
        const int source = place_[i];
        int position = static_cast<int>(random.below(length_ - (source != ABSENT)));
        position += source != ABSENT && position >= source;
        for (auto t = graph_->begin(i); t != graph_->end(i); ++t) {
            const bool there = place_[*t] != ABSENT;
            target = there ? *t : target;
            position = there ? place_[*t] : position;
        }
        place_[items_[position]] = ABSENT;
        put(position, target);
    }

    const Relations *graph_;
    int length_;
    std::uint64_t key_;
    bool filled_ = false;
    std::vector<double> at_most_;
    std::vector<std::int32_t> place_;  // the position of each item in the current context, or ABSENT
    std::vector<Item> order_;
    std::vector<Item> items_;
};

}  // namespace manyheads
