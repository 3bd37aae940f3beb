PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml constraints.txt native/CMakeLists.txt $(wildcard native/*/*.cpp native/*/*.hpp)

.PHONY: help demo test lint types imports unit sanitize platforms stub bench clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "manyheads needs Python 3.11 or later: set PYTHON=…"; exit 2; }
	@command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
		{ echo "manyheads needs a C++20 compiler to build its kernels: install g++ (10 or later) or clang++ (13 or later)."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.core: $(SOURCES) | $(BIN)/python
	$(BIN)/pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(SOURCES) | $(BIN)/python
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev,torch]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core ## measure a capacity, refute a layer that passes, certify one that holds; leaves pictures in demo-output/
	$(BIN)/python examples/demo.py demo-output

test: $(VENV)/.dev ## everything CI runs; the tests, and beside them what leaves a core idle for minutes
	$(MAKE) --jobs=2 --output-sync unit sanitize types imports lint

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

sanitize: $(VENV)/.dev ## test the compiled parts under address and undefined-behaviour sanitizers; unit tests in C++
	bash native/tests/sanitize.sh $(BIN)/python

platforms: $(VENV)/.dev ## build the wheel and test each of its instruction sets; arm64 too, where qemu is installed
	bash native/tests/platforms.sh $(BIN)/python

stub: $(VENV)/.dev ## write src/manyheads/_native.pyi, the types of the compiled module
	$(BIN)/python native/bindings/stub.py

bench: $(VENV)/.dev ## every benchmark, with PyTorch and JAX as peers; some minutes on a quiet machine
	$(BIN)/pip install --quiet -c constraints.txt -e '.[bench]'
	for script in packing certify compile measure block; do $(BIN)/python benchmarks/$$script.py || exit 1; done
	$(BIN)/python -m benchmarks.bench

clean: ## remove what make made
	rm -rf $(VENV) build dist demo-output
