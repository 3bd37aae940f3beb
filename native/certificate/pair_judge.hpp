// All ordered pairs, scored in single precision by tiles, and judged in double precision where single does not decide.
//
// A row is the pairs of one source. The score of a pair in single precision lies within a bound of its score in double
// precision. So most pairs are certainly on one side of the threshold, and certainly not the extreme of their row. A pair
// is a candidate if it is near the threshold, or perhaps the largest score of its row without a relation, or perhaps the
// smallest with a relation. Candidates are scored again in double precision, by the chain of multiply-adds of product.hpp.
// A row is left open if a pair is too close to the threshold for the bound of the row, or if it has too many candidates.
//
// The caller computes the bounds (src/manyheads/certificate/mixed_precision.py). Everything here is compared, not bounded.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "engine/contexts.hpp"
#include "engine/memory.hpp"
#include "engine/threads.hpp"
#include "engine/tile.hpp"

namespace manyheads {

// Queries (heads, items, key_width) and keys (key_heads, key_width, items). Head k of h reads key head k·g/h of g.
struct Vectors {
    const double *queries, *keys;
    int items, heads, key_heads, key_width;
    int key_head(int head) const { return static_cast<int>(std::int64_t(head) * key_heads / heads); }
};

// The limits of one row. The first three are in the scale of single precision: a pair with a score below `below` or above
// `above` is decided, and of two scores that differ by more than `width` the larger is larger in double precision too.
// `clear` is in the scale of double precision: a pair nearer to the threshold than this leaves the row open.
struct RowLimits {
    float below, above, width;
    double clear;
};

// The result of a row. A distance is negative where the pair is wrong.
struct RowResult {
    double low = -std::numeric_limits<double>::infinity();   // the largest score of a pair without a relation
    double high = std::numeric_limits<double>::infinity();   // the smallest score of a relation
    double least = std::numeric_limits<double>::infinity();  // the least distance from the threshold
    std::int64_t target = 0;                                 // the first target with that distance
    std::int64_t missed = 0, false_pairs = 0;
    bool open = false;
};

// Throws where this thread replaces subnormal numbers by zero: then the bounds in double precision do not hold.
inline void require_subnormals() {
    const volatile double tiny = std::numeric_limits<double>::denorm_min(), normal = std::numeric_limits<double>::min();
    const volatile double scaled = tiny * 0x1p60, half = normal * 0.5;
    if (!(scaled > 0 && half > 0)) throw std::runtime_error("a thread replaces subnormal numbers by zero, so that no rounding bound holds");
}

// The keys in single precision, scaled by a power of two: [key head][block][c][BLOCK], blocks of BLOCK items side by side.
class PackedKeys {
public:
    static constexpr int BLOCK = TILE_VECTORS * WIDTH<float>;

    PackedKeys(const Vectors &v, double scale, int threads)
        : blocks_((v.items + BLOCK - 1) / BLOCK), key_width_(v.key_width),
          numbers_(std::size_t(v.key_heads) * blocks_ * key_width_ * BLOCK) {
        const int panels = v.key_heads * blocks_;
        on_threads(threads, [&](int n) {
            for (std::int64_t panel = std::int64_t(n) * panels / threads; panel < std::int64_t(n + 1) * panels / threads; ++panel) {
                const int head = static_cast<int>(panel / blocks_), first = static_cast<int>(panel % blocks_) * BLOCK;
                const double *const from = v.keys + std::size_t(head) * key_width_ * v.items + first;
                float *const to = numbers_.data() + std::size_t(panel) * key_width_ * BLOCK;
                for (int c = 0; c < key_width_; ++c)
                    for (int lane = 0; lane < std::min(BLOCK, v.items - first); ++lane)
                        to[c * BLOCK + lane] = static_cast<float>(from[std::size_t(c) * v.items + lane] * scale);
            }
        });
    }

    int blocks() const { return blocks_; }
    const float *panel(int key_head, int block) const {
        return numbers_.data() + (std::size_t(key_head) * blocks_ + block) * key_width_ * BLOCK;
    }

private:
    int blocks_, key_width_;
    Buffer<float> numbers_;
};

// Judges a group of rows at a time. SUM: the rule adds the scores of the heads; otherwise it takes the largest.
template <bool SUM> class RowJudge {
public:
    static constexpr int GROUP = 96;  // rows whose scores are computed while a block of keys is in the cache

    RowJudge(const Vectors &v, const PackedKeys &keys, double query_scale, double threshold, const Relations &relations)
        : v_(v), keys_(&keys), relations_(&relations), scale_(query_scale), threshold_(threshold),
          queries_(std::size_t(v.heads) * GROUP * v.key_width), joined_(std::size_t(GROUP) * BLOCK),
          few_keys_(std::size_t(v.key_width) * WIDTH<double>), rows_(GROUP) {}

    // Judges `count` rows from source `from` on.
    void judge(int from, int count, const RowLimits *limits, RowResult *results) {
        for (int r = 0; r < count; ++r) rows_[r].start(limits[r], relations_->begin(from + r), relations_->end(from + r));
        for (int head = 0; head < v_.heads; ++head) {
            const double *const source = v_.queries + (std::size_t(head) * v_.items + from) * v_.key_width;
            float *const to = queries_.data() + std::size_t(head) * GROUP * v_.key_width;
            for (int n = 0; n < count * v_.key_width; ++n) to[n] = static_cast<float>(source[n] * scale_);
        }
        const auto is_open = [](const Row &row) { return row.result.open; };
        for (int block = 0; block < keys_->blocks(); ++block) {
            if (std::all_of(rows_.begin(), rows_.begin() + count, is_open)) break;
            for (int head = 0; head < v_.heads; ++head) score(head, block, count);
        }
        for (int r = 0; r < count; ++r) {
            if (!rows_[r].result.open) decide(from + r, rows_[r]);
            results[r] = rows_[r].result;
        }
    }

private:
    static constexpr int BLOCK = PackedKeys::BLOCK;
    static constexpr std::size_t MOST = 128;  // candidates of a row; to score more than these costs as much as the row

    struct Candidate {
        Item target;
        float score;
        bool related, near;
    };

    struct Row {
        RowLimits limits;
        float raise, sink, quiet;  // a score above `raise` (without a relation) or below `sink` (with one) may be extreme
        const Item *next, *last;   // the row's relations from the current block on
        RowResult result;
        std::vector<Candidate> candidates;

        void start(const RowLimits &row_limits, const Item *begin, const Item *end) {
            constexpr float FAR = std::numeric_limits<float>::infinity();
            limits = row_limits, raise = quiet = -FAR, sink = FAR, next = begin, last = end, result = {};
            candidates.clear();
        }
        // A score that only equals the limit replaces none: of equal scores of a row of zeros the first stays.
        bool takes(const Candidate &c) const { return c.near || (c.related ? c.score < sink : c.score > raise); }
        bool keeps(const Candidate &c) const { return c.near || (c.related ? c.score <= sink : c.score >= raise); }
        void drop_others() {
            std::erase_if(candidates, [this](const Candidate &c) { return !keeps(c); });
        }
        void leave_open() {
            result.open = true, quiet = std::numeric_limits<float>::infinity();
            candidates.clear();
        }
    };

    // Adds a head to the scores of all rows with a block of targets. After the last head the scores are judged.
    void score(int head, int block, int count) {
        const int key_width = v_.key_width;
        const float *const panel = keys_->panel(v_.key_head(head), block);
        const float *const query = queries_.data() + std::size_t(head) * GROUP * key_width;
        const bool first = head == 0, last = head == v_.heads - 1;
        row_blocks<4>(count, [=, this](auto R, int row) MANYHEADS_INLINE {
            Tile<float, R, TILE_VECTORS> tile;
            tile.clear();
            tile.accumulate(query + row * key_width, key_width, 1, key_width,
                            [=](std::ptrdiff_t c, auto v) MANYHEADS_INLINE { return load(panel + c * BLOCK + v * WIDTH<float>); });
            float *const joined = joined_.data() + std::size_t(row) * BLOCK;
            if (!first)
                tile.each([&](auto r, auto v) MANYHEADS_INLINE {
                    const Vec<float> before = load(joined + r * BLOCK + v * WIDTH<float>), now = tile.at[r][v];
                    if constexpr (SUM) tile.at[r][v] = before + now;
                    else tile.at[r][v] = before > now ? before : now;
                });
            tile.store_to(joined, BLOCK);
            if (last)
                for (int r = 0; r < R; ++r) look(rows_[row + r], block, joined + r * BLOCK);
        });
    }

    // Bit n is set where the condition is true for lane n of the block.
    template <class Condition> MANYHEADS_INLINE static std::uint64_t set_of(const float *scores, Condition condition) {
        std::uint64_t set = 0;
        unroll<TILE_VECTORS>([&](auto v) MANYHEADS_INLINE {
            set |= std::uint64_t(lanes<float>(condition(load(scores + v * WIDTH<float>)))) << v * WIDTH<float>;
        });
        return set;
    }

    MANYHEADS_INLINE void look(Row &row, int block, const float *scores) {
        const Item first = block * BLOCK, end = std::min(first + BLOCK, v_.items);
        const bool relations = row.next != row.last && *row.next < end;
        const std::uint64_t loud = set_of(scores, [&](Vec<float> s) MANYHEADS_INLINE { return s > row.quiet; });
        if (relations || loud) look_closely(row, first, end, scores);
    }

    __attribute__((noinline)) static void look_closely(Row &row, Item first, Item end, const float *scores) {
        std::uint64_t related = 0;
        for (; row.next != row.last && *row.next < end; ++row.next) related |= std::uint64_t(1) << (*row.next - first);
        if (row.result.open) return;
        const std::uint64_t valid = ~std::uint64_t(0) >> (64 - (end - first)), others = valid & ~related;
        const auto set = [&](auto condition) { return set_of(scores, condition); };
        const std::uint64_t above = set([&](Vec<float> s) { return s > row.limits.above; });
        const std::uint64_t below = set([&](Vec<float> s) { return s < row.limits.below; });
        const std::uint64_t near = valid & ~(above | below);
        row.result.false_pairs += std::popcount(above & others), row.result.missed += std::popcount(below & related);
        const std::uint64_t raising = others & set([&](Vec<float> s) { return s > row.raise; });
        const std::uint64_t sinking = related & set([&](Vec<float> s) { return s < row.sink; });
        for (std::uint64_t rest = near | raising | sinking; rest; rest &= rest - 1) {
            const int lane = std::countr_zero(rest);
            const Candidate candidate{first + lane, scores[lane], bool(related >> lane & 1), bool(near >> lane & 1)};
            if (!row.takes(candidate)) continue;
            if (candidate.related) row.sink = std::min(row.sink, candidate.score + row.limits.width);
            else row.raise = std::max(row.raise, candidate.score - row.limits.width);
            row.candidates.push_back(candidate);
            if (row.candidates.size() <= MOST) continue;
            row.drop_others();
            if (row.candidates.size() > MOST / 2) return row.leave_open();
        }
        row.quiet = std::min(row.limits.below, row.raise);
    }

    // Scores the candidates of a row in double precision, in the order of their targets.
    void decide(Item source, Row &row) {
        row.drop_others();
        RowResult &result = row.result;
        for (std::size_t first = 0; first < row.candidates.size(); first += WIDTH<double>) {
            const int count = static_cast<int>(std::min<std::size_t>(WIDTH<double>, row.candidates.size() - first));
            const Candidate *const candidates = row.candidates.data() + first;
            double scores[WIDTH<double>];
            store<double>(scores, exact_scores(source, candidates, count));
            for (int n = 0; n < count; ++n) {
                const Candidate &c = candidates[n];
                const double score = scores[n], distance = c.related ? score - threshold_ : threshold_ - score;
                if (std::fabs(distance) <= row.limits.clear) return row.leave_open();
                if (c.near && distance < 0) ++(c.related ? result.missed : result.false_pairs);
                if (c.related) result.high = std::min(result.high, score);
                else result.low = std::max(result.low, score);
                if (distance < result.least) result.least = distance, result.target = c.target;
            }
        }
    }

    // The scores of a source with at most WIDTH targets: each is the chain of multiply-adds that product.hpp computes.
    Vec<double> exact_scores(Item source, const Candidate *candidates, int count) {
        constexpr int W = WIDTH<double>;
        Vec<double> joined{};
        for (int head = 0; head < v_.heads; ++head) {
            const double *const keys = v_.keys + std::size_t(v_.key_head(head)) * v_.key_width * v_.items;
            for (int c = 0; c < v_.key_width; ++c)
                for (int n = 0; n < count; ++n) few_keys_[c * W + n] = keys[std::size_t(c) * v_.items + candidates[n].target];
            Tile<double, 1, 1> tile;
            tile.clear();
            tile.accumulate(v_.queries + (std::size_t(head) * v_.items + source) * v_.key_width, 0, 1, v_.key_width,
                            [this](std::ptrdiff_t c, auto) MANYHEADS_INLINE { return load(few_keys_.data() + c * W); });
            const Vec<double> now = tile.at[0][0];
            if (head == 0) joined = now;
            else if constexpr (SUM) joined += now;
            else joined = joined > now ? joined : now;
        }
        return joined;
    }

    Vectors v_;
    const PackedKeys *keys_;
    const Relations *relations_;
    double scale_, threshold_;
    Buffer<float> queries_;    // of the group: [head][row][c]
    Buffer<float> joined_;     // the scores of the group with a block of targets, over the heads so far: [row][BLOCK]
    Buffer<double> few_keys_;  // of some candidates and one head: [c][WIDTH]
    std::vector<Row> rows_;
};

// Judges rows first … last − 1 on several threads. `limits` and `results` begin with row `first`. No result depends on
// the number of threads.
template <bool SUM> void judge_rows(const Vectors &v, const PackedKeys &keys, double query_scale, double threshold,
                                    const Relations &relations, int first, int last, const RowLimits *limits, RowResult *results,
                                    int threads) {
    constexpr int GROUP = RowJudge<SUM>::GROUP;
    const int groups = (last - first + GROUP - 1) / GROUP;
    std::atomic<int> next = 0;
    on_threads(std::clamp(threads, 1, std::max(groups, 1)), [&](int) {
        require_subnormals();
        RowJudge<SUM> judge(v, keys, query_scale, threshold, relations);
        for (int group = next++; group < groups; group = next++) {
            const int from = first + group * GROUP;
            judge.judge(from, std::min(GROUP, last - from), limits + from - first, results + from - first);
        }
    });
}

// Compiled in pair_judge.cpp.
extern template void judge_rows<false>(const Vectors &, const PackedKeys &, double, double, const Relations &, int, int, const RowLimits *,
                                       RowResult *, int);
extern template void judge_rows<true>(const Vectors &, const PackedKeys &, double, double, const Relations &, int, int, const RowLimits *,
                                      RowResult *, int);

}  // namespace manyheads
