// The bindings of fitting by full gradients: Finding, Burst, Fitting32, Fitting64.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "fitting/fitting.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace manyheads;

namespace {

template <class T> class Fit {
public:
    Fit(const Indices &row_starts, const Indices &targets, const Array<float, 2> &embedding, int heads, int key_width, int threads,
        std::optional<int> key_heads, int near_pairs)
        : fitting_(checked(row_starts, targets, embedding, heads, key_width, threads, key_heads, near_pairs), embedding.data(),
                   static_cast<int>(embedding.shape(1)), heads, key_heads.value_or(heads), key_width, threads, near_pairs) {}

    void set_weights(const Array<double, 3> &query, const Array<double, 3> &key, double threshold) {
        for (int matrix = 0; matrix < 2; ++matrix) {
            const auto &w = matrix == 0 ? query : key;
            require(w.shape(0) == std::size_t(fitting_.heads_of(matrix)) && w.shape(1) == std::size_t(fitting_.d_model()) &&
                        w.shape(2) == std::size_t(fitting_.key_width()),
                    "the weights have another shape than (heads, d_model, key_width)");
        }
        fitting_.set(query.data(), 0), fitting_.set(key.data(), 1);
        fitting_.forget();
        threshold_ = threshold;
    }

    auto weights() const {
        auto [query, key] = matrices([&](double *to, int matrix) { fitting_.get(to, matrix); });
        return std::tuple(query, key, threshold_);
    }

    auto gradient() const {
        return matrices([&](double *to, int matrix) { fitting_.get_gradient(to, matrix); });
    }

    Finding look(double floor, double ceiling, double summit, double threshold, double weight) {
        nb::gil_scoped_release released;
        return fitting_.look({floor, ceiling, summit, threshold, weight}, 1);
    }

    Burst burst(std::vector<double> rates, double beta1, double beta2, double weight, double ratio, double share, double seconds,
                bool until_open, const nb::object &pulse) {
        nb::gil_scoped_release released;
        return fitting_.burst({std::move(rates), beta1, beta2, weight, ratio, share, seconds, until_open}, threshold_, [&] {
            nb::gil_scoped_acquire acquired;
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
            if (!pulse.is_none()) pulse();
        });
    }

private:
    // Checks the arrays and numbers, then copies the relations.
    static Relations checked(const Indices &row_starts, const Indices &targets, const Array<float, 2> &embedding, int heads, int key_width,
                             int threads, std::optional<int> key_heads, int near_pairs) {
        Relations relations = relations_from(row_starts, targets);
        require(embedding.shape(0) == std::size_t(relations.items()), "the embedding has another number of rows than the graph items");
        require_shape(relations.items(), static_cast<std::int64_t>(embedding.shape(1)), heads, key_heads.value_or(heads), key_width);
        require_range("threads", threads, 1, MOST_THREADS);
        require_range("near_pairs", near_pairs, 0, 1 << 20);
        if (near_pairs > 0) require_range("items with near pairs", relations.items(), 0, Surveyor<T>::MOST_ITEMS_WITH_NEAR_PAIRS);
        return relations;
    }

    template <class Fill> std::pair<Numbers, Numbers> matrices(Fill &&fill) const {
        const std::size_t d_model = fitting_.d_model(), key_width = fitting_.key_width();
        const auto one = [&](int matrix) {
            const std::size_t heads = fitting_.heads_of(matrix);
            auto numbers = std::make_unique<double[]>(heads * d_model * key_width);
            fill(numbers.get(), matrix);
            return owned(std::move(numbers), {heads, d_model, key_width});
        };
        return {one(0), one(1)};
    }

    Fitting<T> fitting_;
    double threshold_ = 0;
};

template <class T> void register_as(nb::module_ &m, const char *name) {
    nb::class_<Fit<T>>(m, name,
                       "Weights fitted to a graph by full gradients. They cross this border as float64 (heads, d_model, key_width), the "
                       "keys as (key_heads, d_model, key_width).")
        .def(nb::init<const Indices &, const Indices &, const Array<float, 2> &, int, int, int, std::optional<int>, int>(), "row_starts"_a,
             "targets"_a, "embedding"_a, "heads"_a, "key_width"_a, "threads"_a, "key_heads"_a = nb::none(), "near_pairs"_a = 0)
        .def("set_weights", &Fit<T>::set_weights, "query"_a, "key"_a, "threshold"_a,
             "Set the weights, and the optimiser's moments to zero.")
        .def("weights", &Fit<T>::weights, "Return (query, key, threshold).")
        .def("look", &Fit<T>::look, "floor"_a, "ceiling"_a, "summit"_a, "threshold"_a, "weight"_a,
             "Survey all pairs, and compute the gradient by the weights.")
        .def("gradient", &Fit<T>::gradient, "Return the gradient of the last survey, (by query, by key).")
        .def("burst", &Fit<T>::burst, "rates"_a, "beta1"_a, "beta2"_a, "weight"_a, "ratio"_a, "share"_a, "seconds"_a, "until_open"_a,
             "pulse"_a = nb::none(),
             "Take steps at these rates. Ends early at zero or infinite loss, at the time limit, and (until_open) when all pairs are "
             "separated. Calls `pulse` ten times a second; an exception in it ends the burst.");
}

}  // namespace

void register_fitting(nb::module_ &m) {
    nb::class_<Finding>(m, "Finding", "The result of a survey of all pairs.")
        .def_ro("loss", &Finding::loss)
        .def_ro("by_ceiling", &Finding::by_ceiling)
        .def_ro("by_summit", &Finding::by_summit)
        .def_ro("lowest", &Finding::lowest)
        .def_ro("low", &Finding::low)
        .def_ro("high", &Finding::high)
        .def_ro("missed", &Finding::missed)
        .def_ro("false_pairs", &Finding::false_pairs)
        .def_ro("costly", &Finding::costly);
    nb::class_<Burst>(m, "Burst", "The result of a burst of steps.").def_ro("steps", &Burst::steps).def_ro("finding", &Burst::finding);
    register_as<float>(m, "Fitting32");
    register_as<double>(m, "Fitting64");
}
