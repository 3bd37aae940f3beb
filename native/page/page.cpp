// The functions that the page calls (src/manyheads/page/engine.mjs). Memory is the caller's, from `allocate`.
//
// A worker of the page trains one run at a time, so there is one run for each instance of this module. All sizes are
// checked by the page; a wrong one stops the module (`refuse`), and the page says so.
#include <cstdlib>
#include <memory>

#include "certificate.hpp"
#include "draws.hpp"
#include "engine/engine.hpp"
#include "fitting/fitting.hpp"

using namespace manyheads;

namespace {

std::unique_ptr<Engine> engine;
std::unique_ptr<Certifier> certifier;
std::unique_ptr<Fitting<float>> fitting;
double fit_threshold;
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
    s.items = count(), s.d_model = count(), s.heads = count(), s.key_heads = count(), s.key_width = count(), s.context = count();
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

// Opens a layer. `sizes` are items, d_model, heads, key heads and key width.
EXPORTED(open_layer) void open_layer(const int *sizes, const double *query, const double *key, const float *rows) {
    certifier.reset();
    certifier = std::make_unique<Certifier>(query, key, rows, LayerSizes{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]});
}

// Certifies the open layer under the rule max. Writes low, high, rounding, missed, false pairs, open pairs, source, target.
EXPORTED(certify)
void certify(double threshold, const std::int32_t *starts, const std::int32_t *targets, double *scores, std::int32_t *winners,
             double *numbers) {
    const Evidence e = certifier->examine(relations_of(starts, targets, certifier->sizes().items), threshold, scores, winners);
    const double values[] = {
        e.low, e.high, e.rounding, double(e.missed), double(e.false_pairs), double(e.open_pairs), double(e.source), double(e.target)};
    std::copy(std::begin(values), std::end(values), numbers);
}

// Writes the scores that a head of the open layer gives to a source with every item.
EXPORTED(score_row) void score_row(int head, int source, double *scores) { certifier->score_row(head, source, scores); }

// Begins a fit under the rule max. `sizes` are as for open_layer.
EXPORTED(begin_fit)
void begin_fit(const int *sizes, const std::int32_t *starts, const std::int32_t *targets, const float *rows) {
    fitting.reset();
    fitting = std::make_unique<Fitting<float>>(relations_of(starts, targets, sizes[0]), rows, sizes[1], sizes[2], sizes[3], sizes[4], 1);
}

EXPORTED(set_fit) void set_fit(const double *query, const double *key, double threshold) {
    fitting->set(query, 0), fitting->set(key, 1), fitting->forget();
    fit_threshold = threshold;
}

EXPORTED(get_fit) double get_fit(double *query, double *key) {
    fitting->get(query, 0), fitting->get(key, 1);
    return fit_threshold;
}

// Takes steps at the given rates, with Adam's betas and the weight of a relation (`options`). Writes the number of steps, and
// loss, low, high, missed and false pairs of the last survey. Without rates, it surveys all pairs.
EXPORTED(burst_fit) void burst_fit(const double *rates, int count, const double *options, int until_open, double *numbers) {
    Burst burst;
    if (count) {
        const Course course{{rates, rates + count}, options[0], options[1], options[2], 0, 1, HUGE_VAL, until_open != 0};
        burst = fitting->burst(course, fit_threshold, [] {});
    } else {
        burst.finding = fitting->look({-HUGE_VAL, fit_threshold - 1, fit_threshold + 1, fit_threshold, options[2]}, 1);
    }
    const Finding &f = burst.finding;
    const double values[] = {double(burst.steps), f.loss, f.low, f.high, double(f.missed), double(f.false_pairs)};
    std::copy(std::begin(values), std::end(values), numbers);
}
