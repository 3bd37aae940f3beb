// Scoring a fixed set of contexts with the current weights.
//
// Every item of the set is projected once. Under the rule max a pair is decided the same in every context, so where
// there are fewer pairs of items than pairs in contexts, all of them are decided once, block by block, and each
// decision counts as often as the contexts hold the pair. Otherwise each context is scored from its items' projections.
#pragma once

#include <optional>

#include "engine.hpp"
#include "step.hpp"

namespace manyheads {

template <class T, int FIXED> class Evaluation {
public:
    Evaluation(const Evaluation &) = delete;
    Evaluation(const Data<T> &data, std::uint64_t stream, std::int64_t count)
        : s_(data.settings), layout_(data.layout()), sampler_(data.sampler()), embedding_(data.embedding, BLOCK), block_(s_, BLOCK),
          shape_(s_, s_.context) {
        draw(stream, count);
        const std::size_t padded = round_up(static_cast<int>(items_.size()), BLOCK), pairs = std::size_t(s_.context) * s_.context;
        if (!s_.softmax && !s_.values && count < MOST_COUNTED && padded * padded <= pairs * count) {
            count_pairs(data.relations, padded);
        } else {
            projections_ = Rows<T>(padded, layout_.rows());
            x_.emplace(projections_, s_.context);
            by_score_ = Buffer<T>(shape_.pairs());
            if (s_.values) values_.emplace(shape_, data.messages);
        }
        // one block, whose rows are transposed by whole vectors, or all of them
        projected_ = Buffer<T>(multiplicity_.size() ? padded / BLOCK * block_.size() : projections_.stride() * BLOCK);
        if (multiplicity_.size()) block_scores_.emplace(block_);
        else if (s_.softmax) softmax_.emplace(shape_);
        else max_.emplace(shape_);
    }

    Tally operator()(const Weights<T> &weights) {
        project_items(weights.value());
        return multiplicity_.size() ? tally_pairs(weights.threshold) : tally_contexts(weights.threshold);
    }

private:
    static constexpr int BLOCK = 16;
    static constexpr std::int64_t MOST_COUNTED = 1 << 24;  // so that no lane of a block's count overflows

    void draw(std::uint64_t stream, std::int64_t count) {
        std::vector<Item> number(s_.items, -1);  // among the distinct items of the set
        contexts_.reserve(count * s_.context);
        relation_ends_.reserve(count);
        std::vector<int> pairs(std::size_t(s_.context) * s_.context + 1);
        for (std::int64_t n = 0; n < count; ++n) {
            const Item *items = sampler_.draw(stream, n);
            for (int p = 0; p < s_.context; ++p) {
                if (number[items[p]] < 0) {
                    number[items[p]] = static_cast<Item>(items_.size());
                    items_.push_back(items[p]);
                }
                contexts_.push_back(number[items[p]]);
            }
            relations_.insert(relations_.end(), pairs.data(), pairs.data() + sampler_.relations(shape_.stride(), pairs.data()));
            relation_ends_.push_back(relations_.size());
        }
        number_ = std::move(number);
    }

    // How often the contexts hold each ordered pair of distinct items, negative where the pair is a relation.
    void count_pairs(const Relations &relations, std::size_t padded) {
        multiplicity_ = Buffer<Int<T>>(padded * padded);
        for (auto context = contexts_.begin(); context != contexts_.end(); context += s_.context)
            for (int p = 0; p < s_.context; ++p)
                for (int q = 0; q < s_.context; ++q) ++multiplicity_[context[p] * padded + context[q]];
        for (std::size_t i = 0; i < items_.size(); ++i)
            for (auto t = relations.begin(items_[i]); t != relations.end(items_[i]); ++t)
                if (number_[*t] >= 0) multiplicity_[i * padded + number_[*t]] *= -1;
    }

    // Queries and keys of all items: blocks side by side for tally_pairs, else one row for each item.
    void project_items(const T *weights) {
        const int count = static_cast<int>(items_.size());
        for (int first = 0; first < count; first += BLOCK) {
            T *to = projected_.data() + (multiplicity_.size() ? first / BLOCK * block_.size() : 0);
            embedding_.gather(items_.data() + first, std::min(BLOCK, count - first));
            project<T, BLOCK>(layout_, block_, weights, embedding_, to);
            if (multiplicity_.size()) continue;
            transpose_into(to, BLOCK, projections_.stride(), BLOCK, projections_.row(first), projections_.stride());
        }
    }

    Tally tally_pairs(T threshold) {
        Tally tally;
        const std::ptrdiff_t padded = projected_.size() / block_.size() * BLOCK;
        for (std::ptrdiff_t i = 0; i < padded; i += BLOCK)
            for (std::ptrdiff_t j = 0; j < padded; j += BLOCK) {
                const T *query = projected_.data() + i / BLOCK * block_.size(), *key = projected_.data() + j / BLOCK * block_.size();
                const T *score = block_scores_->forward(query, key + block_.keys());
                Bits<T> signed_sum{}, sum{};
                for (int p = 0; p < BLOCK; ++p)
                    for (int q = 0; q < BLOCK; q += WIDTH<T>) {
                        const Bits<T> recognised = load(score + p * BLOCK + q) > threshold;
                        const Bits<T> times = load_bits<T>(&multiplicity_[(i + p) * padded + j + q]) & recognised;
                        signed_sum += times;
                        sum += times < 0 ? -times : times;
                    }
                for (int lane = 0; lane < WIDTH<T>; ++lane) {
                    tally.hits += (sum[lane] - signed_sum[lane]) / 2;
                    tally.false_alarms += (sum[lane] + signed_sum[lane]) / 2;
                }
            }
        tally.misses = std::int64_t(relations_.size()) - tally.hits;
        return tally;
    }

    Tally tally_contexts(T threshold) {
        Tally tally;
        std::vector<Item> items(s_.context);
        std::size_t relation = 0;
        for (std::size_t n = 0; n < relation_ends_.size(); ++n) {
            const Item *context = contexts_.data() + n * s_.context;
            x_->gather(context);
            const T *query = x_->across(0), *key = query + shape_.keys();
            const T *score = s_.softmax ? softmax_->forward(query, key) : max_->forward(query, key);
            if (s_.values) {
                for (int p = 0; p < s_.context; ++p) items[p] = items_[context[p]];
                sampler_.set(items.data());
                tally.positions += values_->label(sampler_);
                tally.distance += values_->distance(score);
                tally.distance_of_zero += values_->distance_of_zero();
                continue;
            }
            std::int64_t recognised = 0, hits = 0;
            for (int p = 0; p < s_.context; ++p)
                for (int q = 0; q < s_.context; ++q) recognised += score[std::ptrdiff_t(p) * shape_.stride() + q] > threshold;
            for (; relation < relation_ends_[n]; ++relation) hits += score[relations_[relation]] > threshold;
            tally.hits += hits;
            tally.false_alarms += recognised - hits;
        }
        tally.misses = s_.values ? 0 : std::int64_t(relations_.size()) - tally.hits;
        return tally;
    }

    Settings s_;
    Layout<T> layout_;
    Sampler sampler_;
    Gathered<T> embedding_;
    Shape<T, BLOCK> block_;
    Shape<T, FIXED> shape_;

    std::vector<Item> items_;                 // the distinct items of the set
    std::vector<Item> number_;                // the place of each item of the run among them, or −1
    std::vector<Item> contexts_;              // by their number among the distinct
    std::vector<int> relations_;              // p·stride + q of every relation, context by context …
    std::vector<std::size_t> relation_ends_;  // … up to here

    Buffer<Int<T>> multiplicity_;
    Buffer<T> projected_, by_score_;
    Rows<T> projections_;
    std::optional<Gathered<T>> x_;
    std::optional<MaxScores<T, BLOCK>> block_scores_;
    std::optional<MaxScores<T, FIXED>> max_;
    std::optional<SoftmaxScores<T, FIXED>> softmax_;
    std::optional<Values<T, FIXED>> values_;
};

}  // namespace manyheads
