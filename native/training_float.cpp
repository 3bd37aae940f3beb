// The engine in float: a file of its own, so that both precisions compile at once.
#include "train.hpp"

template std::unique_ptr<manyheads::Engine> manyheads::make_engine<float>(const Settings &, Relations, const float *, const double *);
