// The bindings of the training engine: contexts, Settings, Training.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "arrays.hpp"
#include "engine/engine.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace manyheads;

namespace {

nb::ndarray<nb::numpy, Item> contexts(const Indices &row_starts, const Indices &targets, int length, double target_rate, std::uint64_t key,
                                      std::uint64_t stream, std::uint64_t start, std::size_t count) {
    const Relations relations = relations_from(row_starts, targets);
    require_range("length", length, 2, std::min<std::int64_t>(relations.items(), MOST_CONTEXT));
    require(0 <= target_rate && target_rate <= 1, "target_rate is from 0 to 1");
    require_range("count", static_cast<std::int64_t>(std::min<std::size_t>(count, MOST_CONTEXTS + 1)), 0, MOST_CONTEXTS);
    auto rows = std::make_unique<Item[]>(count * length);
    {
        nb::gil_scoped_release released;
        Sampler sampler(relations, length, target_rate, key);
        for (std::size_t n = 0; n < count; ++n) std::copy_n(sampler.draw(stream, start + n), length, &rows[n * length]);
    }
    return owned(std::move(rows), {count, static_cast<std::size_t>(length)});
}

using TallyTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, double, double, std::int64_t>;

TallyTuple as_tuple(const Tally &t) { return {t.hits, t.false_alarms, t.misses, t.distance, t.distance_of_zero, t.positions}; }

// One run, its arrays checked once.
class Training {
public:
    Training(const Settings &s, const std::string &precision, const Indices &row_starts, const Indices &targets,
             const Array<float, 2> &embedding, const std::optional<Array<double, 2>> &messages)
        : s_(s) {
        s.check();
        Relations relations = relations_from(row_starts, targets);
        require(relations.items() == s.items, "the graph has another number of items than the settings");
        require(embedding.shape(0) == std::size_t(s.items) && embedding.shape(1) == std::size_t(s.d_model),
                "the embedding has another shape than the settings");
        require(s.values == messages.has_value(), "messages belong to the value channel, and the other way round");
        require(!messages || (messages->shape(0) == std::size_t(s.items) && messages->shape(1) == std::size_t(s.message_width)),
                "the messages have another shape than the settings");
        require(precision == "float32" || precision == "float64", "the precision is float32 or float64");
        const auto make = precision == "float32" ? make_engine<float> : make_engine<double>;
        engine_ = make(s, std::move(relations), embedding.data(), messages ? messages->data() : nullptr);
    }

    // progress(step, score, loss) is called at every validation check; False cancels the run, an exception ends it.
    auto train(const nb::object &progress, double seconds) {
        Monitor monitor;
        monitor.seconds = seconds;
        monitor.check = [&](const Check &c) {
            if (progress.is_none()) return true;
            nb::gil_scoped_acquire acquired;
            const nb::object answer = progress(c.step, c.score, c.loss);
            return !answer.is(nb::bool_(false));
        };
        monitor.pulse = [] {
            nb::gil_scoped_acquire acquired;
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        };
        Report report;
        {
            nb::gil_scoped_release released;
            report = engine_->train(monitor);
        }
        static constexpr const char *NAMES[] = {"converged", "limit", "diverged", "cancelled", "timeout"};
        std::vector<std::tuple<std::int64_t, double, double>> curve;
        for (const Check &c : report.curve) curve.emplace_back(c.step, c.score, c.loss);
        return std::tuple(std::string(NAMES[static_cast<int>(report.stop)]), curve, as_tuple(report.test));
    }

    Numbers advance(std::int64_t count) {
        require_range("count", count, 0, MOST_STEPS);
        auto losses = std::make_unique<double[]>(count);
        {
            nb::gil_scoped_release released;
            engine_->advance(count, losses.get());
        }
        return owned(std::move(losses), {static_cast<std::size_t>(count)});
    }

    auto gradient(const Array<Item, 1> &context) {
        require(context.shape(0) == std::size_t(s_.context), "the context has another length than the settings");
        std::vector<bool> seen(s_.items);
        for (int p = 0; p < s_.context; ++p) {
            const Item i = context.data()[p];
            require(0 <= i && i < s_.items && !seen[i], "a context holds distinct items");
            seen[i] = true;
        }
        double loss, threshold;
        auto [query, key] = matrices([&](double *q, double *k) { loss = engine_->gradient(context.data(), q, k, &threshold); });
        return std::tuple(loss, query, key, threshold);
    }

    TallyTuple evaluate(std::uint64_t stream, std::int64_t count) {
        require_range("contexts", count, 1, MOST_CONTEXTS);
        nb::gil_scoped_release released;
        return as_tuple(engine_->evaluate(stream, count));
    }

    void set_weights(const Array<double, 3> &query, const Array<double, 3> &key, double threshold) {
        for (const auto &[w, heads] : {std::pair(&query, s_.heads), std::pair(&key, s_.key_heads)})
            require(w->shape(0) == std::size_t(heads) && w->shape(1) == std::size_t(s_.d_model) && w->shape(2) == std::size_t(s_.key_width),
                    "the weights have another shape than the settings");
        engine_->set_weights(query.data(), key.data(), threshold);
    }

    auto weights() const {
        double threshold;
        auto [query, key] = matrices([&](double *q, double *k) { threshold = engine_->weights(q, k); });
        return std::tuple(query, key, threshold);
    }

    auto moments(int order) const {
        require_range("order", order, 1, 2);
        double threshold;
        auto [query, key] = matrices([&](double *q, double *k) { threshold = engine_->moments(order, q, k); });
        return std::tuple(query, key, threshold);
    }

    std::int64_t steps() const { return engine_->steps(); }

private:
    template <class Fill> std::pair<Numbers, Numbers> matrices(Fill &&fill) const {
        const std::size_t heads = s_.heads, key_heads = s_.key_heads, d_model = s_.d_model, key_width = s_.key_width;
        auto query = std::make_unique<double[]>(heads * d_model * key_width);
        auto key = std::make_unique<double[]>(key_heads * d_model * key_width);
        fill(query.get(), key.get());
        return {owned(std::move(query), {heads, d_model, key_width}), owned(std::move(key), {key_heads, d_model, key_width})};
    }

    Settings s_;
    std::unique_ptr<Engine> engine_;
};

}  // namespace

void register_training(nb::module_ &m) {
    m.def("contexts", &contexts, "row_starts"_a, "targets"_a, "length"_a, "target_rate"_a, "key"_a, "stream"_a, "start"_a, "count"_a,
          "Return the contexts start … start + count − 1 of a stream: (count, length) items, distinct in each row.");

    nb::class_<Settings>(m, "Settings", "The fields of a Run that the engine needs, all defaults filled in.")
        .def(nb::init<>())
        .def("check", &Settings::check, "Refuse numbers that are out of their range.")
        .def_rw("items", &Settings::items)
        .def_rw("d_model", &Settings::d_model)
        .def_rw("heads", &Settings::heads)
        .def_rw("key_heads", &Settings::key_heads)
        .def_rw("key_width", &Settings::key_width)
        .def_rw("context", &Settings::context)
        .def_rw("softmax", &Settings::softmax)
        .def_rw("values", &Settings::values)
        .def_rw("message_width", &Settings::message_width)
        .def_rw("balanced", &Settings::balanced)
        .def_rw("positive_weight", &Settings::positive_weight)
        .def_rw("target_rate", &Settings::target_rate)
        .def_rw("sharpness", &Settings::sharpness)
        .def_rw("learning_rate", &Settings::learning_rate)
        .def_rw("weight_decay", &Settings::weight_decay)
        .def_rw("beta1", &Settings::beta1)
        .def_rw("beta2", &Settings::beta2)
        .def_rw("epsilon", &Settings::epsilon)
        .def_rw("steps", &Settings::steps)
        .def_rw("validate_every", &Settings::validate_every)
        .def_rw("validation_contexts", &Settings::validation_contexts)
        .def_rw("test_contexts", &Settings::test_contexts)
        .def_rw("stop_above", &Settings::stop_above)
        .def_rw("patience", &Settings::patience)
        .def_rw("context_key", &Settings::context_key);

    nb::class_<Training>(m, "Training",
                         "One run of the native engine. Weights cross this border as float64, query as (heads, d_model, key_width), "
                         "key as (key_heads, d_model, key_width).")
        .def(nb::init<const Settings &, const std::string &, const Indices &, const Indices &, const Array<float, 2> &,
                      const std::optional<Array<double, 2>> &>(),
             "settings"_a, "precision"_a, "row_starts"_a, "targets"_a, "embedding"_a, "messages"_a.none())
        .def("train", &Training::train, "progress"_a.none(), "seconds"_a,
             nb::sig("def train(self, progress: collections.abc.Callable[[int, float, float], object] | None, seconds: float) -> "
                     "tuple[typing.Literal['converged', 'limit', 'diverged', 'cancelled', 'timeout'], list[tuple[int, float, float]], "
                     "tuple[int, int, int, float, float, int]]"),
             "Train the whole protocol. Return (stopped, curve, tally of the test). progress(step, score, loss) is called at every "
             "validation check; its answer False cancels the run. seconds is the time limit.")
        .def("advance", &Training::advance, "count"_a,
             "Train `count` steps and return their losses. NaN: the context had no valid position and the weights stayed.")
        .def("gradient", &Training::gradient, "context"_a,
             "Return (loss, gradient by query, by key, by threshold) of one context. The weights stay.")
        .def("evaluate", &Training::evaluate, "stream"_a, "contexts"_a,
             "Return (hits, false alarms, misses, squared distance, squared distance of the prediction zero, valid positions).")
        .def("set_weights", &Training::set_weights, "query"_a, "key"_a, "threshold"_a)
        .def("weights", &Training::weights, "Return (query, key, threshold).")
        .def("moments", &Training::moments, "order"_a, "Return the optimiser's moments of order 1 or 2, as (query, key, threshold).")
        .def_prop_ro("steps", &Training::steps);
}
