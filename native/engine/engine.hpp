// The interface of the engine: one run, of any precision and context length.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "contexts.hpp"
#include "settings.hpp"

namespace manyheads {

enum Stream : std::uint64_t { TRAIN = 0, VALIDATION = 1, TEST = 2 };
enum class Stop { converged, limit, diverged, cancelled, timeout };

// The counts of an evaluation.
struct Tally {
    std::int64_t hits = 0, false_alarms = 0, misses = 0;  // ordered pairs of positions, over all contexts
    double distance = 0, distance_of_zero = 0;            // squared, summed over the valid positions
    std::int64_t positions = 0;                           // valid ones

    double micro_f1() const { return hits ? 2.0 * hits / (2.0 * hits + false_alarms + misses) : 0.0; }
    double mse() const { return distance / positions; }
};

struct Check {
    std::int64_t step;
    double score, loss;  // micro-F1 or mean squared error on the validation set; mean training loss since the last check
};

struct Report {
    Stop stop = Stop::limit;
    std::vector<Check> curve;
    Tally test;  // only where the run converged or reached its limit
};

// Functions that a run calls while it trains.
struct Monitor {
    std::function<bool(const Check &)> check;  // after every validation check: whether to go on
    std::function<void()> pulse;               // now and then; may throw, as on Ctrl-C
    double seconds;                            // how long the run may take
};

// Weights and gradients cross this border as float64, in the layout of Layer: the query as (heads, d_model, key_width), the key as
// (key_heads, d_model, key_width).
class Engine {
public:
    virtual ~Engine() = default;
    virtual Report train(const Monitor &monitor) = 0;  // after a cancelled call, the next call goes on with the next step
    virtual void advance(std::int64_t count, double *losses) = 0;
    virtual double gradient(const Item *context, double *query, double *key, double *threshold) = 0;
    virtual Tally evaluate(std::uint64_t stream, std::int64_t count) = 0;
    virtual void set_weights(const double *query, const double *key, double threshold) = 0;
    virtual double weights(double *query, double *key) const = 0;
    virtual double moments(int order, double *query, double *key) const = 0;
    virtual std::int64_t steps() const = 0;
};

// T is float or double. Compiled in train_float.cpp and train_double.cpp.
template <class T>
std::unique_ptr<Engine> make_engine(const Settings &s, Relations relations, const float *embedding, const double *messages);

}  // namespace manyheads
