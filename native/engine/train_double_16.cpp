// The engine in double for contexts of 16 items, the length of the paper. Each of the four variants has its own file, so that they compile in parallel.
#include "train.hpp"

template std::unique_ptr<manyheads::Engine> manyheads::make_trainer<double, 16>(const Settings &, Relations, const float *, const double *);
