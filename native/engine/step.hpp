// One context through the layer and back: scores, cost, gradients, and the optimiser's step.
#pragma once

#include <optional>

#include "objective.hpp"
#include "projection.hpp"
#include "scores.hpp"

namespace manyheads {

// The data of a run, shared by training and evaluation.
template <class T> struct Data {
    Data(const Settings &s, Relations graph, const float *rows, const double *messages_)
        : settings(s), relations(std::move(graph)), embedding(rows, s.items, s.d_model), messages() {
        if (s.values) messages = Rows<T>(messages_, s.items, s.message_width);
    }

    Data(const Data &) = delete;  // samplers and gathered rows point into it

    Sampler sampler() const { return {relations, settings.context, settings.target_rate, settings.context_key}; }
    Layout<T> layout() const { return {settings.d_model, settings.heads, settings.key_heads, settings.key_width}; }

    Settings settings;
    Relations relations;
    Rows<T> embedding, messages;
};

template <class T, int FIXED> class Step {
public:
    Step(const Step &) = delete;
    explicit Step(const Data<T> &data)
        : s_(data.settings), layout_(data.layout()), shape_(s_, s_.context), x_(data.embedding, s_.context),
          last_x_(data.embedding, s_.context), projected_(shape_.size()), by_projection_(shape_.size()), by_score_(shape_.pairs()),
          panel_(std::size_t(s_.context) * PANEL<T>) {
        if (s_.softmax) softmax_.emplace(shape_);
        else max_.emplace(shape_);
        if (s_.values) values_.emplace(shape_, data.messages);
        else edges_.emplace(s_, shape_);
    }

    // Makes the sampler's current context the one to differentiate at.
    void prepare(const Weights<T> &weights, const Sampler &context) {
        take(context);
        project<T, FIXED>(layout_, shape_, weights.value(), x_, projected_.data());
    }

    // The cost of the prepared context and its gradient by queries and keys; nothing where it has no valid position.
    std::optional<Cost> differentiate(T threshold) {
        if (!valid_) return {};
        const T *query = projected_.data(), *key = query + shape_.keys();
        const T *score = s_.softmax ? softmax_->forward(query, key) : max_->forward(query, key);
        const Cost cost = s_.values ? (*values_)(score, by_score_.data()) : (*edges_)(score, threshold, by_score_.data());
        if (s_.softmax) softmax_->backward(query, by_score_.data(), by_projection_.data());
        else max_->backward(query, by_score_.data(), by_projection_.data());
        return cost;
    }

    // After differentiate: the gradient by the weights, in their layout.
    void gradient(T *by_weight) {
        store_weight_gradients(layout_, Positions<T, 0>(s_.context), by_projection_.data(), x_, panel_.data(), wins(), by_weight);
    }

    // After differentiate: one step of AdamW on weights and threshold, and the sampler's context, the next one, prepared.
    // A panel of new weights projects the next context's rows while it is still in the cache, so that a step runs through
    // the weights once.
    void update(Weights<T> &weights, const Cost &cost, const Adam<T> &adam, const Sampler &next) {
        if (adam.keep != 1)
            for (std::size_t at = 0; at < layout_.size(); at += WIDTH<T>)
                store<T>(weights.value() + at, load(weights.value() + at) * adam.keep);
        std::swap(x_, last_x_);
        take(next);
        int panel = 0;
        const auto project_until = [&](std::ptrdiff_t finished) {
            for (; panel < layout_.panels() && std::ptrdiff_t(layout_.end(panel)) <= finished; ++panel)
                project_panel<T, FIXED>(layout_, shape_, panel, weights.value(), x_, projected_.data());
        };
        const AdamStream<T> stream(adam, weights.value(), weights.first.data(), weights.second.data());
        weight_gradients<T, FIXED>(layout_, shape_, by_projection_.data(), last_x_, panel_.data(), wins(), stream,
                                   [&](const auto &under_way) { project_until(under_way.finished()); })
            .finish();
        project_until(layout_.size());
        if (!s_.values)
            adam.update(weights.threshold, weights.threshold_first, weights.threshold_second, static_cast<T>(cost.by_threshold));
    }

private:
    // Where the heads have a gradient, if the gradients of weights are to skip the rest.
    const Wins *wins() const { return max_ && Wins::pay_for_weights(s_.heads, layout_.panels()) ? max_->wins() : nullptr; }

    void take(const Sampler &context) {
        if (s_.values) valid_ = values_->label(context) > 0;
        else edges_->label(context);
        x_.gather(context.items());
    }

    Settings s_;
    Layout<T> layout_;
    Shape<T, FIXED> shape_;
    Gathered<T> x_, last_x_;
    bool valid_ = true;
    Buffer<T> projected_, by_projection_, by_score_, panel_;
    std::optional<MaxScores<T, FIXED>> max_;
    std::optional<SoftmaxScores<T, FIXED>> softmax_;
    std::optional<Edges<T, FIXED>> edges_;
    std::optional<Values<T, FIXED>> values_;
};

}  // namespace manyheads
