# `make demo` sets up and runs the quick start, `make test` sets up and runs the tests.
#
#   make demo PYTHON=python3.12      another interpreter (3.11 or newer)
#   make test VENV=/path/to/venv     another virtual environment
#   make demo PIP_ARGS="..."         extra arguments to pip, say a package index

PYTHON ?= python3
VENV ?= .venv
OUT ?= runs/quickstart
PIP_ARGS ?=
# Each process takes its share of neighbouring tests, which share what they prepare.
PYTEST_ARGS ?= -n auto --maxprocesses 8 --dist worksteal

BIN := $(VENV)/bin
GPU_PYTHON ?= $(or $(wildcard $(BIN)/python),$(PYTHON))
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt $(PIP_ARGS)
# One thread: results are fixed per thread count, and small models train fastest so.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

INSTALLED := $(VENV)/.simfl-installed
INSTALLED_DEV := $(VENV)/.simfl-installed-dev

# Flower pins versions that the others do not go with (docs/flower.md).
VENV_FLOWER ?= .venv-flower
INSTALLED_FLOWER := $(VENV_FLOWER)/.simfl-installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint test-slow test-gpu benchmark-gpu test-flower docs clean

help:
	@echo "make demo       set up $(VENV) and run the quick start"
	@echo "make test       set up $(VENV) and run style checks, type checks and tests"
	@echo "make lint       the style and type checks alone"
	@echo "make test-slow  the tests that take longer"
	@echo "make test-gpu   the tests that need a CUDA device (skipped with a reason elsewhere)"
	@echo "make benchmark-gpu  what a GPU gives, in 8 minutes at most"
	@echo "make test-flower  the tests of the bridge to Flower, in an environment of their own"
	@echo "make docs       build the documentation into site/"
	@echo "make clean      remove caches and build output; keeps $(VENV) and runs/"

demo: $(INSTALLED)
	$(BIN)/simfl run scenarios/quickstart.yaml --out $(OUT) --overwrite
	@echo
	@echo "The results lie in $(OUT): manifest.json says how the run ended, events.parquet holds every event."
	@echo "In Python: import simfl; run = simfl.load_run('$(OUT)'); run.rounds"

test: lint
	$(PYTEST)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-slow: $(INSTALLED_DEV)
	$(PYTEST) -m slow

# Nothing is installed: a machine with a GPU has its own torch, and perhaps no network.
test-gpu:
	OMP_NUM_THREADS=1 $(GPU_PYTHON) -m pytest -m cuda tests/test_cuda.py

benchmark-gpu:
	OMP_NUM_THREADS=1 $(GPU_PYTHON) benchmarks/gpu.py

test-flower: $(INSTALLED_FLOWER)
	OMP_NUM_THREADS=1 $(VENV_FLOWER)/bin/python -m pytest -m "slow or not slow" tests/bridges

docs: $(INSTALLED_DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

# pip is the last thing that a new environment gets: a half-made one is made again.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "simfl needs Python 3.11 or newer, $(PYTHON) is: $$($(PYTHON) --version 2>&1)"; \
		echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Order-only: the interpreter's own date says nothing about what is installed.
$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/pip
	$(PIP_INSTALL) -e .
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt | $(BIN)/pip
	$(PIP_INSTALL) -e '.[dev]'
	@touch $(INSTALLED) $@

$(INSTALLED_FLOWER): pyproject.toml constraints-flower.txt
	$(PYTHON) -m venv $(VENV_FLOWER)
	$(VENV_FLOWER)/bin/python -m pip install --disable-pip-version-check -c constraints-flower.txt \
		$(PIP_ARGS) -e '.[flower]' pytest hypothesis
	@touch $@
