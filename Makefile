# From a fresh checkout: `make demo` shows the program at work, `make test` checks it. `make help` lists all targets.
# Everything is installed in .venv, with the versions of constraints.txt. .venv/.program and .venv/.installed mark a finished
# set-up, without and with the development tools.

PYTHON ?= python3
BIN := .venv/bin
CORPORA ?= ../shared/corpora

# The files that `make bench` measures, and the presets (N, N-pure or a name).
BENCH_FILES := $(addprefix text/,enwik6 book1 tinyshakespeare.txt enwik8-first-4154399) code/uv-new-2026-06.tar
FILES ?= $(or $(wildcard $(addprefix $(CORPORA)/,$(BENCH_FILES))),sample:christmas_carol)
LEVELS ?= 1 2 5 5-pure

.PHONY: help install demo test test-all lint types picture docs wheel-check gpu-check bench clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: .venv/.installed  ## set up .venv: the package (editable) and the development tools

# Python compiles what it imports; to compile all of torch takes longer than the demo.
.venv/.program: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e .
	touch $@

.venv/.installed: .venv/.program
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/.program  ## compress 120 kB of a bundled text, decompress and compare them, print the table
	$(BIN)/prequential evaluate -5 sample:christmas_carol --limit 120000 --verify

PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

test: .venv/.installed  ## the quick tests: one or more for every promise
	$(PYTEST) -m 'not thorough and not slow and not gpu'

test-all: test  ## then the thorough ones, and more examples: everything but those marked slow or gpu
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m '(thorough or hypothesis) and not slow and not gpu'

lint: .venv/.installed  ## format and lint, as the commit hooks do
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.installed  ## static types
	$(BIN)/mypy

picture: .venv/.installed  ## the learning curve in README, from a new run
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(BIN)/prequential evaluate -5 --baselines gzip,xz,ppmd --runs "$$folder/runs" sample:christmas_carol && \
	$(BIN)/python -c "import prequential, sys; run, = prequential.read_runs(sys.argv[1]); \
	  prequential.plots.learning_curves(run).figure.savefig('docs/pictures/learning.png', dpi=150)" "$$folder/runs"

docs: .venv/.installed  ## docs/ and the docstrings as a site in site/; a warning fails
	$(BIN)/mkdocs build --strict

wheel-check: .venv/.installed  ## build the wheel, install it elsewhere, use it from another folder
	PYTHON=$(BIN)/python bash .ci/wheel-check

gpu-check: .venv/.installed  ## with a CUDA device: tests, archives both ways, a record in benchmarks/gpu.jsonl
	$(BIN)/pytest -m gpu
	$(BIN)/python benchmarks/gpu.py $(if $(filter sample:%,$(FILES)),,$(FILES))

bench: .venv/.installed  ## new runs for docs/RESULTS.md, also of programs on PATH: make bench FILES='a b' LEVELS='1 5-pure'
	$(BIN)/python benchmarks/peers.py $(FILES)
	$(BIN)/python benchmarks/results.py $(FILES) --levels $(LEVELS)

clean:  ## remove the set-up and everything built
	rm -rf .venv site build dist *.egg-info
