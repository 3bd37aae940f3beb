#!/usr/bin/env bash
# Builds the compiled parts with AddressSanitizer and UndefinedBehaviorSanitizer and runs their tests on that build.
# usage: native/sanitize.sh PYTHON [TEST…]    (PYTHON: the interpreter of an environment with the dev extra)
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
shift
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(tests/test_training_native*.py tests/test_contexts.py tests/test_matching*.py tests/test_product.py)

# Python is not built with the sanitizers, so their library comes first by preloading; with it the one whose exceptions it watches.
library() { ${CXX:-c++} -print-file-name="$1"; }
asan=$(library libasan.so)
[ -e "$asan" ] || { echo "sanitizers: not run, this compiler has no libasan.so"; exit 0; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip install --quiet --no-deps --target "$work/site" . \
    -C build-dir="$work/build" -C cmake.define.MANYHEADS_SANITIZE=address,undefined

# The editable install would hand out the ordinary build: its finder has to go before manyheads is imported.
cat > "$work/run.py" <<'PYTHON'
import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
sys.path.insert(0, sys.argv[1])
import pytest

import manyheads._native

assert manyheads._native.__file__.startswith(sys.argv[1]), manyheads._native.__file__
# the type checks of the ordinary run would have to come before the import above
sys.exit(pytest.main(["-p", "no:cacheprovider", "-o", "addopts=-q --import-mode=importlib --capture=no", *sys.argv[2:]]))
PYTHON

LD_PRELOAD="$asan $(library libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    "$python" "$work/run.py" "$work/site" "${tests[@]}"
