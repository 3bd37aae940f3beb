// The generator of random numbers and the sampler of contexts, where Python sees only finished contexts.
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "check.hpp"
#include "engine/contexts.hpp"

using namespace manyheads;

namespace {

// Item i has the out-neighbours i + 1 … i + degree (mod items), sorted.
Relations circle(int items, int degree) {
    std::vector<std::int64_t> starts(items + 1), targets;
    for (int i = 0; i < items; ++i) {
        std::set<std::int64_t> row;
        for (int n = 1; n <= degree; ++n) row.insert((i + n) % items);
        targets.insert(targets.end(), row.begin(), row.end());
        starts[i + 1] = static_cast<std::int64_t>(targets.size());
    }
    return {starts.data(), targets.data(), static_cast<std::size_t>(items)};
}

}  // namespace

TEST(draws_are_splitmix64) {
    // The state after mix(mix(0 + GOLDEN) + GOLDEN), continued by the published generator (Steele, Lea and Flood 2014).
    const auto mix = [](std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    };
    std::uint64_t state = 0x9E3779B97F4A7C15u;
    CHECK(mix(state) == 0xE220A8397B1DCDAFu);  // the first number of the published generator with seed 0
    state = mix(mix(state) + Random::GOLDEN);
    Random random(0, 0, 0);
    for (int n = 0; n < 100; ++n) CHECK(random.draw() == mix(state += Random::GOLDEN));
}

TEST(bounded_draws_stay_below_their_bound_and_reach_every_number) {
    for (const std::uint32_t bound : {1u, 2u, 3u, 7u, 1000u}) {
        Random random(1, 2, bound);
        std::vector<int> seen(bound);
        for (std::uint32_t n = 0; n < 20 * bound + 100; ++n) {
            const std::uint32_t drawn = random.below(bound);
            CHECK(drawn < bound);
            if (drawn < bound) ++seen[drawn];
        }
        CHECK(*std::min_element(seen.begin(), seen.end()) > 0);
    }
    Random random(3, 4, 5);
    CHECK(random.below(0xFFFFFFFFu) < 0xFFFFFFFFu);
    for (int n = 0; n < 1000; ++n) {
        const double fraction = random.fraction();
        CHECK(0 <= fraction && fraction < 1);
    }
}

TEST(contexts_hold_distinct_items_and_their_relations_are_complete) {
    constexpr std::tuple<int, int, int> SIZES[] = {{16, 1, 16}, {17, 3, 16}, {5, 2, 2}, {100, 0, 9}, {3, 3, 3}};
    for (const auto &[items, degree, length] : SIZES) {
        const Relations relations = circle(items, degree);
        for (const double rate : {0.0, 0.5, 1.0}) {
            Sampler sampler(relations, length, rate, 77);
            const int stride = length + 3;
            std::vector<int> pairs(std::size_t(length) * length + 1);
            for (int n = 0; n < 200; ++n) {
                const Item *context = sampler.draw(0, n);
                CHECK(std::set<Item>(context, context + length).size() == std::size_t(length));
                CHECK(*std::min_element(context, context + length) >= 0 && *std::max_element(context, context + length) < items);
                std::set<int> wanted;
                for (int p = 0; p < length; ++p)
                    for (int q = 0; q < length; ++q)
                        if (std::find(relations.begin(context[p]), relations.end(context[p]), context[q]) != relations.end(context[p]))
                            wanted.insert(p * stride + q);
                const int count = sampler.relations(stride, pairs.data());
                CHECK(std::set<int>(pairs.begin(), pairs.begin() + count) == wanted && std::size_t(count) == wanted.size());
            }
        }
    }
}

TEST(a_context_depends_only_on_its_key_stream_and_index) {
    const Relations relations = circle(40, 2);
    Sampler forwards(relations, 16, 0.5, 5), backwards(relations, 16, 0.5, 5), other(relations, 16, 0.5, 6);
    std::vector<std::vector<Item>> drawn;
    for (int n = 0; n < 50; ++n) drawn.emplace_back(forwards.draw(1, n), forwards.items() + 16);
    int different = 0;
    for (int n = 49; n >= 0; --n) {
        const Item *context = backwards.draw(1, n);
        CHECK(std::equal(context, context + 16, drawn[n].begin()));
        different += !std::equal(drawn[n].begin(), drawn[n].end(), other.draw(1, n));
        different += !std::equal(drawn[n].begin(), drawn[n].end(), forwards.draw(2, n));
    }
    CHECK(different == 100);
}

TEST(a_context_that_was_set_replaces_the_drawn_one) {
    const Relations relations = circle(20, 1);
    Sampler sampler(relations, 4, 0.5, 5);
    sampler.draw(0, 0);
    const Item context[] = {3, 4, 9, 5};  // relations 3 → 4 and 4 → 5
    sampler.set(context);
    std::vector<int> pairs(17);
    CHECK(sampler.relations(4, pairs.data()) == 2);
    CHECK(pairs[0] == 0 * 4 + 1 && pairs[1] == 1 * 4 + 3);
}
