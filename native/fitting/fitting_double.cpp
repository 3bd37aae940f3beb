// Fitting in double. Each precision has its own file, so that both compile in parallel.
#include "fitting.hpp"

template class manyheads::Fitting<double>;
