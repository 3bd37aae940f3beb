#!/usr/bin/env bash
# Builds the wheel and checks it: it has a kernel module for each level and none for this machine only; no level has
# instructions of a newer one; every level that this CPU can run computes the same (tests/**/test_native_isa.py). Then
# builds the engine for arm64, where g++-aarch64-linux-gnu and qemu-user are installed, and compares it with this CPU.
# usage: native/tests/platforms.sh PYTHON    (PYTHON: the interpreter of an environment with the dev extra)
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m pip wheel --quiet --no-deps --wheel-dir "$work" . ${PIP_OPTIONS:-} -C build-dir="$work/build"
"$python" -m zipfile -e "$work"/manyheads-*.whl "$work/site"
levels=$(cd "$work/site/manyheads" && ls _kernels_* | sed 's/^_kernels_//; s/\..*//' | sort | xargs)
case "$(uname -m)" in
    x86_64 | amd64) wanted="v2 v3 v4" ;;
    *) wanted="baseline" ;;
esac
[ "$levels" = "$wanted" ] || { echo "the wheel has the levels '$levels', not '$wanted'"; exit 1; }

# ymm registers are new in v3, zmm registers in v4
uses() { objdump -d "$work/site/manyheads/$1".*.so | grep -c "%$2" || true; }
if [ "$wanted" != baseline ] && command -v objdump >/dev/null; then
    for pair in "_cpu ymm" "_cpu zmm" "_kernels_v2 ymm" "_kernels_v2 zmm" "_kernels_v3 zmm"; do
        count=$(uses $pair)
        [ "$count" = 0 ] || { echo "$pair: $count instructions of a newer level"; exit 1; }
    done
    [ "$(uses _kernels_v3 ymm)" != 0 ] && [ "$(uses _kernels_v4 zmm)" != 0 ] || { echo "v3 or v4 does not use its registers"; exit 1; }
fi

# In an editable install, a finder would import the ordinary build, also in the processes that the tests start. Python
# imports sitecustomize after it has set up that finder.
mkdir "$work/hook"
cat > "$work/hook/sitecustomize.py" <<'PYTHON'
import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in type(finder).__name__]
PYTHON
export PYTHONPATH="$work/hook:$work/site"
"$python" - "$work/site" <<'PYTHON'
import sys

from manyheads import _cpu

assert _cpu.__file__.startswith(sys.argv[1]), _cpu.__file__
print(f"the wheel has {', '.join(_cpu.built)}; this CPU can run {', '.join(_cpu.supported)}")
PYTHON
"$python" -m pytest -p no:cacheprovider -o "addopts=-q --import-mode=importlib" $(find tests -name 'test_native_isa.py')
unset PYTHONPATH

if ! { command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64; } >/dev/null; then
    echo "arm64: not run (it needs g++-aarch64-linux-gnu and qemu-user)"
    exit 0
fi
build() { # NAME COMPILER [FLAG…]
    "$2" -std=gnu++20 -O2 -ffp-contract=fast -I native "${@:3}" native/tests/platforms.cpp native/engine/*.cpp native/fitting/*.cpp \
        -pthread -o "$work/$1"
}
build here "${CXX:-c++}" -march=native
build arm64 aarch64-linux-gnu-g++ -static
for precision in double single; do
    "$work/here" $precision > "$work/here.$precision"
    qemu-aarch64 "$work/arm64" $precision > "$work/arm64.$precision"
done
"$python" - "$work" <<'PYTHON'
import sys
from pathlib import Path

work, failed = Path(sys.argv[1]), False
for precision, allowed in (("double", 1e-10), ("single", 1e-5)):
    def numbers(name):
        lines = (work / f"{name}.{precision}").read_text().splitlines()
        return [float(number) for line in lines for number in line.split(",")[1:]]

    worst = max(abs(a - b) / max(abs(a), abs(b), 1e-300) for a, b in zip(numbers("here"), numbers("arm64"), strict=True))
    failed |= not worst <= allowed
    print(f"arm64 against this CPU, {precision} precision: relative difference at most {worst:.1e} ({allowed:g} allowed)")
sys.exit(failed)
PYTHON
