// The binding of the certificate's pass over all pairs in mixed precision.
#include "certificate/pair_judge.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include "arrays.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace manyheads;

namespace {

class PairJudge {
public:
    PairJudge(const Array<double, 3> &queries, const Array<double, 3> &keys, double query_scale, double key_scale, double threshold,
              bool sum, const Indices &row_starts, const Indices &targets, int threads)
        : queries_(queries), keys_(keys), query_scale_(query_scale), threshold_(threshold), sum_(sum),
          relations_(relations_from(row_starts, targets)), threads_(threads) {
        require_shape(static_cast<std::int64_t>(queries.shape(1)), 1, static_cast<std::int64_t>(queries.shape(0)),
                      static_cast<std::int64_t>(keys.shape(0)), static_cast<std::int64_t>(queries.shape(2)));
        require(keys.shape(1) == queries.shape(2) && keys.shape(2) == queries.shape(1), "the keys have another shape than the queries");
        require(std::size_t(relations_.items()) == queries.shape(1), "the graph has another number of items than the queries");
        require_range("threads", threads, 1, MOST_THREADS);
        nb::gil_scoped_release released;
        packed_ = std::make_unique<PackedKeys>(vectors(), key_scale, threads);
    }

    auto judge(int first, const Array<float, 1> &below, const Array<float, 1> &above, const Array<float, 1> &width,
               const Array<double, 1> &clear) const {
        const std::size_t count = below.shape(0);
        require(above.shape(0) == count && width.shape(0) == count && clear.shape(0) == count, "the limits have different lengths");
        require(first >= 0 && first + count <= queries_.shape(1), "the rows are not among the items");
        std::vector<RowLimits> limits(count);
        for (std::size_t n = 0; n < count; ++n) limits[n] = {below.data()[n], above.data()[n], width.data()[n], clear.data()[n]};
        std::vector<RowResult> results(count, RowResult{.open = true});
        {
            nb::gil_scoped_release released;
            const auto judge_all = sum_ ? judge_rows<true> : judge_rows<false>;
            judge_all(vectors(), *packed_, query_scale_, threshold_, relations_, first, first + static_cast<int>(count), limits.data(),
                      results.data(), threads_);
        }
        return std::tuple(column<double>(results, &RowResult::low), column<double>(results, &RowResult::high),
                          column<double>(results, &RowResult::least), column<std::int64_t>(results, &RowResult::target),
                          column<std::int64_t>(results, &RowResult::missed), column<std::int64_t>(results, &RowResult::false_pairs),
                          column<bool>(results, &RowResult::open));
    }

private:
    Vectors vectors() const {
        return {queries_.data(),
                keys_.data(),
                static_cast<int>(queries_.shape(1)),
                static_cast<int>(queries_.shape(0)),
                static_cast<int>(keys_.shape(0)),
                static_cast<int>(queries_.shape(2))};
    }

    template <class T> static nb::ndarray<nb::numpy, T> column(const std::vector<RowResult> &results, T RowResult::*field) {
        auto numbers = std::make_unique<T[]>(results.size());
        for (std::size_t n = 0; n < results.size(); ++n) numbers[n] = results[n].*field;
        return owned(std::move(numbers), {results.size()});
    }

    Array<double, 3> queries_, keys_;  // these keep the arrays of Python alive
    double query_scale_, threshold_;
    bool sum_;
    Relations relations_;
    int threads_;
    std::unique_ptr<PackedKeys> packed_;
};

}  // namespace

void register_certificate(nb::module_ &m) {
    nb::class_<PairJudge>(m, "PairJudge", "The pairs of a layer's queries and keys, scored in mixed precision on several threads.")
        .def(nb::init<const Array<double, 3> &, const Array<double, 3> &, double, double, double, bool, const Indices &, const Indices &,
                      int>(),
             "queries"_a, "keys"_a, "query_scale"_a, "key_scale"_a, "threshold"_a, "sum"_a, "row_starts"_a, "targets"_a, "threads"_a)
        .def("judge", &PairJudge::judge, "first"_a, "below"_a, "above"_a, "width"_a, "clear"_a,
             "Judge the sources from `first` on, one for each limit. Return for each (largest score without a relation, smallest score of "
             "a relation, least distance from the threshold, its target, relations missed, false pairs, whether the row is open).");
}
