#!/usr/bin/env bash
# Builds the wheels that are handed on, into dist/: one for Python 3.11, and one for 3.12 and later (abi3). On Linux,
# auditwheel names the oldest system that can load a wheel (manylinux). Each wheel is then installed with every
# interpreter that is found, in an environment of its own, and every command is run there.
# usage: tools/wheels.sh PYTHON    (PYTHON: the interpreter of an environment with the dev extra)
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$1")
PATH=$PATH:$(dirname "$python")  # the interpreter of the environment counts as found
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v pyenv >/dev/null; then  # without this, pyenv offers only one of the versions it has
    PYENV_VERSION=$(pyenv versions --bare | paste -sd:)
    export PYENV_VERSION
fi
works() { "$1" -c 'import venv' 2>/dev/null; }

built=0
for candidates in "python3.11" "python3.12 python3.13 python3.14"; do
    for interpreter in $candidates; do
        works "$interpreter" || continue
        "$interpreter" -m venv "$work/$interpreter"
        "$work/$interpreter/bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$work" ${PIP_OPTIONS:-} -C build-dir="$work/build-$interpreter" .
        built=1
        continue 2
    done
    echo "no wheel for any of: $candidates (not installed)"
done
[ "$built" = 1 ] || { echo "no Python from 3.11 on was found"; exit 1; }

mkdir -p dist
rm -f dist/*.whl
for wheel in "$work"/*.whl; do
    if [ "$(uname -s)" = Linux ]; then
        PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --wheel-dir dist "$wheel"
    else
        cp "$wheel" dist
    fi
done
ls -l dist/*.whl
tested=0
for wheel in dist/*.whl; do  # every interpreter that is found and that the wheel says it is for
    case $wheel in *-cp311-*) candidates="python3.11" ;; *) candidates="python3.12 python3.13 python3.14" ;; esac
    for interpreter in $candidates; do
        if works "$interpreter"; then
            "$python" tests/project/installed_wheel.py "$interpreter" "$wheel"
            tested=1
        else
            echo "$(basename "$wheel"): not tested with $interpreter (not installed)"
        fi
    done
done
[ "$tested" = 1 ]
