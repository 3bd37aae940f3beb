// The engine in double: a file of its own, so that both precisions compile at once.
#include "train.hpp"

template std::unique_ptr<manyheads::Engine> manyheads::make_engine<double>(const Settings &, Relations, const float *, const double *);
