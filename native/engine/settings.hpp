// The fields of a Run that the engine needs, all defaults filled in.
#pragma once

#include <cstdint>

namespace manyheads {

struct Settings {
    int items, d_model, heads, key_width, context;
    bool softmax;            // rule: softmax summed over heads, else their maximum
    bool values;             // objective: the value channel's messages, else the edges
    int message_width;
    bool balanced;           // the weight of positives is negatives/positives of the context …
    double positive_weight;  // … else this
    double target_rate, sharpness;
    double learning_rate, weight_decay, beta1, beta2, epsilon;
    std::int64_t steps, validate_every, validation_contexts, test_contexts;
    double stop_above;
    int patience;
    std::uint64_t context_key;

    int key_budget() const { return heads * key_width; }
};

}  // namespace manyheads
