// The engine in float for contexts of any length. Each of the four variants has its own file, so that they compile in parallel.
#include "train.hpp"

template std::unique_ptr<manyheads::Engine> manyheads::make_trainer<float, 0>(const Settings &, Relations, const float *, const double *);
