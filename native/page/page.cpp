// The functions that the page calls (src/manyheads/page/engine.mjs). Memory is the caller's, from `allocate`.
//
// A worker of the page trains one run at a time, so there is one run for each instance of this module. All sizes are
// checked by the page; a wrong one stops the module (`refuse`), and the page says so.
#include <cstdlib>
#include <memory>

#include "certificate.hpp"
#include "draws.hpp"
#include "engine/engine.hpp"

using namespace manyheads;

namespace {

std::unique_ptr<Engine> engine;
std::unique_ptr<Certifier> certifier;
Report report;

Relations relations_of(const std::int32_t *starts, const std::int32_t *targets, int items) {
    const std::vector<std::int64_t> rows(starts, starts + items + 1), to(targets, targets + starts[items]);
    return Relations(rows.data(), to.data(), items);
}

}  // namespace

#define EXPORTED(name) extern "C" __attribute__((export_name(#name)))

EXPORTED(allocate) void *allocate(std::size_t bytes) { return std::calloc(bytes ? bytes : 1, 1); }
EXPORTED(release) void release(void *memory) { std::free(memory); }

// `seed_key` of src/manyheads/training/task.py.
EXPORTED(seed_key) std::uint64_t seed_key(const std::uint64_t *numbers, int count) {
    return SeedSequence({numbers, numbers + count}).state(1)[0];
}

EXPORTED(permutation) void permutation(std::uint64_t key, int items, std::int32_t *targets) {
    const auto drawn = Generator(key).permutation(items);
    std::copy(drawn.begin(), drawn.end(), targets);
}

EXPORTED(gaussian) void gaussian(std::uint64_t key, int items, int d_model, float *rows) { gaussian_rows(key, items, d_model, rows); }

EXPORTED(normals) void normals(std::uint64_t key, int count, double scale, double *numbers) {
    Generator generator(key);
    for (int i = 0; i < count; ++i) numbers[i] = generator.normal() * scale;
}

// Begins a run. `numbers` are the fields of Settings in the order of engine.mjs.
EXPORTED(begin)
void begin(const double *numbers, std::uint64_t context_key, const std::int32_t *starts, const std::int32_t *targets, const float *rows) {
    const auto next = [&numbers] { return *numbers++; };
    const auto count = [&next] { return static_cast<int>(next()); };
    const auto steps = [&next] { return static_cast<std::int64_t>(next()); };
    Settings s;
    s.items = count(), s.d_model = count(), s.heads = count(), s.key_width = count(), s.context = count();
    s.key_heads = s.heads;
    s.softmax = next() != 0, s.balanced = next() != 0;
    s.positive_weight = next(), s.target_rate = next(), s.sharpness = next();
    s.learning_rate = next(), s.weight_decay = next(), s.beta1 = next(), s.beta2 = next(), s.epsilon = next();
    s.steps = steps(), s.validate_every = steps(), s.validation_contexts = steps(), s.test_contexts = steps();
    s.stop_above = next(), s.patience = count();
    s.context_key = context_key;
    s.check();
    engine.reset();
    report = Report();
    engine = make_engine<float>(s, relations_of(starts, targets, s.items), rows, nullptr);
}

EXPORTED(set_weights) void set_weights(const double *query, const double *key, double threshold) {
    engine->set_weights(query, key, threshold);
}
EXPORTED(weights) double weights(double *query, double *key) { return engine->weights(query, key); }
EXPORTED(advance) void advance(int count, double *losses) { engine->advance(count, losses); }

// Trains to the next validation check. Returns 0 converged, 1 limit, 2 diverged, 3 a check with more steps to come.
EXPORTED(train) int train() {
    Monitor monitor;
    monitor.check = [](const Check &) { return false; };
    monitor.pulse = [] {};
    monitor.seconds = HUGE_VAL;
    report = engine->train(monitor);
    return static_cast<int>(report.stop);
}

// Writes steps, score and loss of the last check, and hits, false alarms and misses of the test.
EXPORTED(result) void result(double *numbers) {
    const Check last = report.curve.empty() ? Check{0, NAN, NAN} : report.curve.back();
    const double values[] = {double(engine->steps()),   last.score, last.loss, double(report.test.hits), double(report.test.false_alarms),
                             double(report.test.misses)};
    std::copy(std::begin(values), std::end(values), numbers);
}

// Certifies a layer under the rule max. Writes low, high, rounding, missed, false pairs, open pairs, source, target.
EXPORTED(certify)
void certify(const int *sizes, const double *query, const double *key, double threshold, const std::int32_t *starts,
             const std::int32_t *targets, const float *rows, double *scores, std::int32_t *winners, double *numbers) {
    certifier = std::make_unique<Certifier>(query, key, rows, sizes[0], sizes[1], sizes[2], sizes[3]);
    const Evidence e = certifier->examine(relations_of(starts, targets, sizes[0]), threshold, scores, winners);
    const double values[] = {
        e.low, e.high, e.rounding, double(e.missed), double(e.false_pairs), double(e.open_pairs), double(e.source), double(e.target)};
    std::copy(std::begin(values), std::end(values), numbers);
}

// The score that a head of the layer certified last gives to a pair.
EXPORTED(head_score) double head_score(int head, int source, int target) { return certifier->head_score(head, source, target); }
