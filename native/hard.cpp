// Python's view of training on hard contexts.
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "hard.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace manyheads;

namespace {

// For the paper's contexts of 16 items.
class Hard {
public:
    Hard(const Settings &s, const Indices &row_starts, const Indices &targets, const Array<float, 2> &embedding, std::size_t queue)
        : s_(s), training_(s, checked(s, row_starts, targets, embedding), embedding.data(), queue) {}

    void set_weights(const Array<double, 3> &query, const Array<double, 3> &key, double threshold) {
        for (const auto *w : {&query, &key})
            require(w->shape(0) == std::size_t(s_.heads) && w->shape(1) == std::size_t(s_.d_model) && w->shape(2) == std::size_t(s_.key_width),
                    "the weights have another shape than (heads, d_model, key_width)");
        training_.set_weights(query.data(), key.data(), threshold);
    }

    auto weights() const {
        const std::size_t heads = s_.heads, d_model = s_.d_model, key_width = s_.key_width;
        auto query = std::make_unique<double[]>(heads * d_model * key_width), key = std::make_unique<double[]>(heads * d_model * key_width);
        const double threshold = training_.weights(query.get(), key.get());
        return std::tuple(owned(std::move(query), {heads, d_model, key_width}), owned(std::move(key), {heads, d_model, key_width}), threshold);
    }

    Burst burst(std::vector<double> rates, double share, double tight, std::int64_t look_every, double seconds) {
        require(look_every > 0, "there is at least one step between two looks");
        nb::gil_scoped_release released;
        return training_.burst({std::move(rates), share, tight, look_every, seconds}, [] {
            nb::gil_scoped_acquire acquired;
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        });
    }

    auto context(double share) {
        auto items = std::make_unique<Item[]>(s_.context);
        std::copy_n(training_.context(share), s_.context, items.get());
        return owned(std::move(items), {static_cast<std::size_t>(s_.context)});
    }

private:
    // The relations, once everything that will be read by them is known to be there.
    static Relations checked(const Settings &s, const Indices &row_starts, const Indices &targets, const Array<float, 2> &embedding) {
        Relations relations = relations_from(row_starts, targets);
        require(relations.items() == s.items && embedding.shape(0) == std::size_t(s.items) && embedding.shape(1) == std::size_t(s.d_model),
                "graph, embedding and settings have different sizes");
        require(s.context == 16 && s.items >= 16 && !s.softmax && !s.values, "hard contexts have 16 items, under the rule max");
        return relations;
    }

    Settings s_;
    HardTraining<float, 16> training_;
};

}  // namespace

void register_hard(nb::module_ &m) {
    nb::class_<Hard>(m, "HardTraining", "The fused step on contexts of 16 items, a share of them drawn around hard pairs.")
        .def(nb::init<const Settings &, const Indices &, const Indices &, const Array<float, 2> &, std::size_t>(), "settings"_a, "row_starts"_a,
             "targets"_a, "embedding"_a, "queue"_a)
        .def("set_weights", &Hard::set_weights, "query"_a, "key"_a, "threshold"_a)
        .def("weights", &Hard::weights, "(query, key, threshold).")
        .def("burst", &Hard::burst, "rates"_a, "share"_a, "tight"_a, "look_every"_a, "seconds"_a,
             "Steps at these rates, with an exact look at all pairs every so many; ends early where all are separated.")
        .def("context", &Hard::context, "share"_a, "Draws the next context.");
}
