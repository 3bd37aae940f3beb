#!/usr/bin/env bash
# Builds the engine for this CPU, for any CPU of its architecture and, where g++-aarch64-linux-gnu and qemu-user are
# installed, for arm64, and compares what the builds train: to 1e-10 in double precision, to 1e-5 in single.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # NAME COMPILER [FLAG…]
    "$2" -std=gnu++20 -O2 -ffp-contract=fast -I . "${@:3}" platforms.cpp training_float.cpp training_double.cpp -pthread -o "$work/$1"
}
ran=(native portable)
build native "${CXX:-c++}" -march=native
build portable "${CXX:-c++}"
if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null; then
    build arm64.elf aarch64-linux-gnu-g++ -static
    printf '#!/bin/sh\nexec qemu-aarch64 %s "$@"\n' "$work/arm64.elf" > "$work/arm64"
    chmod +x "$work/arm64"
    ran+=(arm64)
else
    echo "arm64: not run (it takes g++-aarch64-linux-gnu and qemu-user)"
fi
for name in "${ran[@]}"; do
    "$work/$name" > "$work/$name.double"
    "$work/$name" single > "$work/$name.single"
done
python3 - "$work" "${ran[@]}" <<'PYTHON'
import sys
from pathlib import Path

work, (first, *others) = Path(sys.argv[1]), sys.argv[2:]
failed = False
for precision, allowed in (("double", 1e-10), ("single", 1e-5)):
    def numbers(name):
        lines = (work / f"{name}.{precision}").read_text().splitlines()
        return [float(number) for line in lines for number in line.split(",")[1:]]

    for other in others:
        pairs = list(zip(numbers(first), numbers(other), strict=True))
        worst = max(abs(a - b) / max(abs(a), abs(b), 1e-300) for a, b in pairs)
        failed |= not worst <= allowed
        print(f"{other} against {first}, {precision} precision: off by {worst:.1e} at most ({allowed:g} allowed)")
sys.exit(failed)
PYTHON
