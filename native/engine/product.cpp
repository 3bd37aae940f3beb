#include "product.hpp"

namespace manyheads {

template void add_product(const float *, std::ptrdiff_t, std::ptrdiff_t, int, int, const float *, std::ptrdiff_t, int, float *,
                          std::ptrdiff_t);
template void add_product(const double *, std::ptrdiff_t, std::ptrdiff_t, int, int, const double *, std::ptrdiff_t, int, double *,
                          std::ptrdiff_t);

}  // namespace manyheads
