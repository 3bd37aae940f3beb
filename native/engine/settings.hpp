// The fields of a Run that the engine needs, all defaults filled in, and their ranges.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "refusal.hpp"

namespace manyheads {

// The largest numbers of the engine, in src/manyheads/numbers.py also. It numbers the rows of the weights (2·heads·key_width),
// the pairs of positions (context²) and padded items in 32 bits.
constexpr std::int64_t MOST_ITEMS = 1 << 30, MOST_WIDTH = 1 << 24, MOST_KEY_BUDGET = 1 << 28, MOST_CONTEXT = 1 << 15;
constexpr std::int64_t MOST_STEPS = 1'000'000'000'000, MOST_CONTEXTS = 1'000'000'000, MOST_PATIENCE = 1'000'000'000, MOST_THREADS = 1024;

// Throws a std::invalid_argument with the range.
inline void require_range(const char *name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (least <= value && value <= most) return;
    refuse(std::invalid_argument(std::string(name) + " is from " + std::to_string(least) + " to " + std::to_string(most) + ", not " +
                                 std::to_string(value)));
}

// Throws where the shape of a layer is out of range.
inline void require_shape(std::int64_t items, std::int64_t d_model, std::int64_t heads, std::int64_t key_heads, std::int64_t key_width) {
    require_range("items", items, 1, MOST_ITEMS);
    require_range("d_model", d_model, 1, MOST_WIDTH);
    require_range("heads", heads, 1, MOST_KEY_BUDGET);
    require_range("key_width", key_width, 1, MOST_KEY_BUDGET);
    require_range("heads * key_width", heads * key_width, 1, MOST_KEY_BUDGET);
    require_range("key_heads", key_heads, 1, heads);
    if (heads % key_heads) refuse(std::invalid_argument("key_heads does not divide heads"));
}

struct Settings {
    int items = 0, d_model = 0, heads = 0, key_width = 0, context = 0;
    int key_heads = 0;     // heads / key_heads heads in a row read each of them
    bool softmax = false;  // rule: softmax summed over heads, else their maximum
    bool values = false;   // objective: the value channel's messages, else the edges
    int message_width = 0;
    bool balanced = false;       // the weight of positives is negatives/positives of the context …
    double positive_weight = 0;  // … else this
    double target_rate = 0, sharpness = 0;
    double learning_rate = 0, weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 0;
    std::int64_t steps = 0, validate_every = 0, validation_contexts = 0, test_contexts = 0;
    double stop_above = 0;
    int patience = 0;
    std::uint64_t context_key = 0;

    // Throws where a number is out of its range.
    void check() const {
        require_shape(items, d_model, heads, key_heads, key_width);
        require_range("context", context, 2, items < MOST_CONTEXT ? items : MOST_CONTEXT);
        if (values) require_range("message_width", message_width, 1, MOST_WIDTH);
        if (!(0 <= target_rate && target_rate <= 1)) refuse(std::invalid_argument("target_rate is from 0 to 1"));
        require_range("steps", steps, 1, MOST_STEPS);
        require_range("validate_every", validate_every, 1, MOST_STEPS);
        require_range("validation_contexts", validation_contexts, 1, MOST_CONTEXTS);
        require_range("test_contexts", test_contexts, 1, MOST_CONTEXTS);
        require_range("patience", patience, 1, MOST_PATIENCE);
    }
};

}  // namespace manyheads
