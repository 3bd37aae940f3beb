// Trains and fits small problems of every kind and prints the results. platforms.sh compares them between CPUs.
#include <cstdio>
#include <cstring>

#include "engine/engine.hpp"
#include "fitting/fitting.hpp"

using namespace manyheads;

namespace {

struct Variant {
    const char *name;
    int items, d_model, heads, key_heads, key_width, context;
    bool softmax, values;
};

constexpr Variant VARIANTS[] = {
    {"max", 64, 16, 4, 4, 5, 16, false, false},
    {"max at odd sizes", 31, 13, 3, 3, 7, 11, false, false},
    {"softmax", 40, 12, 2, 2, 6, 16, true, false},
    {"softmax at odd sizes", 40, 11, 2, 2, 6, 9, true, false},
    {"values", 40, 12, 2, 2, 6, 16, false, true},
    {"max with shared keys", 64, 16, 6, 2, 5, 16, false, false},
    {"softmax with shared keys", 40, 11, 4, 1, 6, 9, true, false},
};
constexpr int STEPS = 200, CONTEXTS = 100, MESSAGE = 5;

std::vector<double> numbers(Random &random, std::size_t count) {
    std::vector<double> drawn(count);
    for (double &x : drawn) x = random.fraction() - 0.5;
    return drawn;
}

Relations permutation(Random &random, int items) {
    std::vector<std::int64_t> starts(items + 1), targets(items);
    std::iota(starts.begin(), starts.end(), 0), std::iota(targets.begin(), targets.end(), 0);
    for (int n = items; n > 1; --n) std::swap(targets[n - 1], targets[random.below(n)]);
    return {starts.data(), targets.data(), static_cast<std::size_t>(items)};
}

double squares(const std::vector<double> &x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

template <class T> void train(const Variant &v) {
    Settings s{};
    s.items = v.items, s.d_model = v.d_model, s.heads = v.heads, s.key_heads = v.key_heads, s.key_width = v.key_width,
    s.context = v.context;
    s.softmax = v.softmax, s.values = v.values, s.message_width = v.values ? MESSAGE : 0;
    s.positive_weight = v.context - 1, s.target_rate = 0.5, s.sharpness = 10;
    s.learning_rate = 1e-3, s.beta1 = 0.9, s.beta2 = 0.999, s.epsilon = 1e-8, s.context_key = 77;
    Random random(1, 2, 3);
    Relations relations = permutation(random, v.items);
    const auto rows = numbers(random, std::size_t(v.items) * v.d_model), messages = numbers(random, std::size_t(v.items) * MESSAGE);
    const std::vector<float> embedding(rows.begin(), rows.end());
    const auto engine = make_engine<T>(s, std::move(relations), embedding.data(), v.values ? messages.data() : nullptr);
    const std::size_t head = std::size_t(v.d_model) * v.key_width;
    auto query = numbers(random, head * v.heads), key = numbers(random, head * v.key_heads);
    engine->set_weights(query.data(), key.data(), 0.1);
    std::vector<double> losses(STEPS);
    engine->advance(STEPS, losses.data());
    const double threshold = engine->weights(query.data(), key.data());
    const Tally tally = engine->evaluate(TEST, CONTEXTS);
    double loss = 0;
    for (const double x : losses) loss += std::isfinite(x) ? x : 0;  // NaN: a context without a valid position
    std::printf("%s,%.17g,%.17g,%.17g,%.17g,%.17g\n", v.name, loss, squares(query) + squares(key), threshold, tally.micro_f1(),
                tally.distance);
}

template <class T> void fit() {
    constexpr int ITEMS = 100, D_MODEL = 17, HEADS = 3, KEY_WIDTH = 5;
    Random random(4, 5, 6);
    Relations relations = permutation(random, ITEMS);
    const auto rows = numbers(random, ITEMS * D_MODEL);
    const std::vector<float> embedding(rows.begin(), rows.end());
    Fitting<T> fitting(std::move(relations), embedding.data(), D_MODEL, HEADS, HEADS, KEY_WIDTH, 1);
    for (const int matrix : {0, 1}) fitting.set(numbers(random, D_MODEL * HEADS * KEY_WIDTH).data(), matrix);
    double threshold = 1;
    const Burst burst = fitting.burst({std::vector<double>(40, 0.05), 0.98, 0.98, 3, 0, 1, 1e9, false}, threshold, [] {});
    std::printf("fit,%.17g,%.17g,%.17g,%.17g\n", burst.finding.loss, burst.finding.low, burst.finding.high, threshold);
}

template <class T> void every() {
    for (const Variant &variant : VARIANTS) train<T>(variant);
    fit<T>();
}

}  // namespace

int main(int count, char **words) { count > 1 && !std::strcmp(words[1], "single") ? every<float>() : every<double>(); }
