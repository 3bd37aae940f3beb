#!/usr/bin/env bash
# Builds the compiled parts with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the unit tests in C++ and the
# tests of the compiled parts in Python on that build.
# usage: native/tests/sanitize.sh PYTHON [TEST…]    (PYTHON: the interpreter of an environment with the dev extra)
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
shift
tests=("$@")
if [ ${#tests[@]} -eq 0 ]; then
    # by name, wherever in tests/ they are; they must not import torch, which the sanitizers slow down too much
    mapfile -t tests < <(find tests \( -name 'test_training_native*.py' -o -name 'test_contexts.py' -o -name 'test_matching*.py' \
        -o -name 'test_product.py' -o -name 'test_mixed_precision.py' -o -name 'test_fit_native.py' \) | sort)
    [ ${#tests[@]} -ge 7 ] || { echo "sanitizers: of seven test files only these were found: ${tests[*]}"; exit 1; }
fi

# Python is not built with the sanitizers, so their library has to be loaded first, by LD_PRELOAD. libstdc++ is loaded with
# it, because the sanitizer replaces the function of libstdc++ that throws exceptions.
library() { ${CXX:-c++} -print-file-name="$1"; }
asan=$(library libasan.so)
[ -e "$asan" ] || { echo "sanitizers: not run, this compiler has no libasan.so"; exit 0; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip install --quiet --no-deps --target "$work/site" . ${PIP_OPTIONS:-} -C build-dir="$work/build" \
    -C cmake.define.MANYHEADS_SANITIZE=address,undefined -C cmake.define.MANYHEADS_PORTABLE=OFF -C cmake.define.MANYHEADS_TESTS=ON

export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
"$work/build/tests/unit_tests"

# In an editable install, a finder would import the ordinary build, also in the processes that the tests start. Python
# imports sitecustomize after it has set up that finder.
mkdir "$work/hook"
cat > "$work/hook/sitecustomize.py" <<'PYTHON'
import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
PYTHON
export PYTHONPATH="$work/hook:$work/site"
export LD_PRELOAD="$asan $(library libstdc++.so)"
loaded=$("$python" -c "from manyheads import _kernels_native; print(_kernels_native.__file__)")
[[ "$loaded" == "$work/site/"* ]] || { echo "sanitizers: not the build with sanitizers was imported, but $loaded"; exit 1; }
"$python" -m pytest -p no:cacheprovider -o "addopts=-q --import-mode=importlib --capture=no" "${tests[@]}"
