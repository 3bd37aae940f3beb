// The engine in float. Each precision has its own file, so that both compile in parallel.
#include "train.hpp"

template std::unique_ptr<manyheads::Engine> manyheads::make_engine<float>(const Settings &, Relations, const float *, const double *);
