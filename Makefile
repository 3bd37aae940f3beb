PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml constraints.txt native/CMakeLists.txt $(wildcard native/*/*.cpp native/*/*.hpp)

.PHONY: help demo test test-long lint types imports unit unit-long test-random sanitize wheel platforms faults attack stub reference docs page test-page pages bench clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "manyheads needs Python 3.11 or later: set PYTHON=…"; exit 2; }
	@command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
		{ echo "manyheads needs a C++20 compiler to build its kernels: install g++ (11 or later) or clang++ (13 or later)."; exit 2; }
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

test: $(VENV)/.dev ## the tests, types, imports and style: what a change must pass; 5 to 10 minutes on two cores
	$(MAKE) --jobs=2 --output-sync unit types imports lint

test-long: $(VENV)/.dev ## what is long and changes rarely: long tests, sanitizers, installed wheels, every instruction set of a wheel, planted faults
	$(MAKE) unit-long
	$(MAKE) sanitize
	$(MAKE) wheel
	$(MAKE) platforms
	$(MAKE) faults

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror native/*/*.cpp native/*/*.hpp

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-cache

# One thread of BLAS in each of two workers: more threads than cores wait for each other and burn time.
unit unit-long test-random: export OPENBLAS_NUM_THREADS = 1
unit unit-long test-random: export OMP_NUM_THREADS = 1

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

unit-long: $(VENV)/.dev ## the tests with the marker `long`
	$(BIN)/python -m pytest -n 2 --dist worksteal -m long

test-random: $(VENV)/.dev ## the tests with new random examples, where `make test` takes the same ones each time
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile random

sanitize: $(VENV)/.dev ## test the compiled parts under address and undefined-behaviour sanitizers; unit tests in C++
	bash native/tests/sanitize.sh $(BIN)/python

wheel: $(VENV)/.dev ## build the wheels into dist/, install each in an environment of its own and run every command
	bash tools/wheels.sh $(BIN)/python

platforms: $(VENV)/.dev ## build a wheel and test each of its instruction sets; arm64 too, where qemu is installed
	bash native/tests/platforms.sh $(BIN)/python

faults: $(VENV)/.dev ## plant each fault of tests/support/faults.toml and see that the tests find it
	$(BIN)/python tests/support/faults.py

attack: $(VENV)/.dev ## the attack of tests/attack in its long dose: about an hour on two cores; goes on where it stopped
	$(BIN)/pip install --quiet -c constraints.txt atheris || echo "atheris cannot be installed here: no fuzzing"
	$(BIN)/python -m tools.pages reliability --measure

stub: $(VENV)/.dev ## write src/manyheads/_native.pyi, the types of the compiled module
	$(BIN)/python native/bindings/stub.py

reference: $(VENV)/.dev ## write docs/reference/commands.md and docs/reference/api/ from the code
	$(BIN)/python -m tools.reference

docs: $(VENV)/.dev ## run the tutorials and build the documentation site into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -q -c docs -b html -d docs/_build/doctrees -n -W --keep-going . docs/_build/html

page: $(VENV)/.dev ## compile the engine for browsers and shorten the paper's rows, into src/manyheads/page; the first time some minutes
	$(BIN)/python -m tools.wasm
	$(BIN)/python -m tools.page_rows

test-page: $(VENV)/.dev ## the page in a browser (chromium), and that its engine and its rows are what the sources give
	$(BIN)/python -m tools.wasm --check
	$(BIN)/python -m tools.page_rows --check
	$(BIN)/python -m pytest -n 0 tests/page/browser_*.py

pages: $(VENV)/.dev ## write the result pages of docs/ again from their rows, and see that the text is the same
	$(BIN)/python -m tools.pages
	git diff --exit-code --stat -- 'docs/results/*.md'

bench: $(VENV)/.dev ## every benchmark, with PyTorch and JAX as peers; some minutes on a quiet machine
	$(BIN)/pip install --quiet -c constraints.txt -e '.[bench]'
	for script in packing certify compile measure block; do $(BIN)/python benchmarks/$$script.py || exit 1; done
	$(BIN)/python -m benchmarks.bench

clean: ## remove what make made
	rm -rf $(VENV) build dist demo-output docs/_build
