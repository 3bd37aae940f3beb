#include "pair_judge.hpp"

namespace manyheads {

template void judge_rows<false>(const Vectors &, const PackedKeys &, double, double, const Relations &, int, int, const RowLimits *,
                                RowResult *, int);
template void judge_rows<true>(const Vectors &, const PackedKeys &, double, double, const Relations &, int, int, const RowLimits *,
                               RowResult *, int);

}  // namespace manyheads
