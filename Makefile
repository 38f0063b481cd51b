# Works from any path, spaces included: every path below is relative.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
VLLM_BIN := .venv-vllm/bin
VLLM_READY := .venv-vllm/.ready

.DEFAULT_GOAL := help
.PHONY: help setup setup-vllm demo serve test test-slow lint bench bench-peers clean

help:            ## List the targets
	@grep -hE '^[a-z-]+: .*##' Makefile | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup: $(READY)  ## Create .venv with everything the project needs (does nothing when it is up to date)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "EAServe needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@echo "Creating .venv and installing (the first time this takes a few minutes)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

setup-vllm: $(VLLM_READY)  ## Create .venv-vllm, with vLLM for this CPU, from which all of easerve runs too (3.5 GB)

$(VLLM_READY): pyproject.toml constraints-vllm.txt tools/setup_vllm.py
	@echo "Creating .venv-vllm and installing (a few minutes)"
	$(PYTHON) -m venv .venv-vllm
	$(VLLM_BIN)/python -m pip install --disable-pip-version-check -c constraints-vllm.txt -r constraints-vllm.txt
	$(VLLM_BIN)/python tools/setup_vllm.py
	$(VLLM_BIN)/python -m pip install --disable-pip-version-check --no-deps -e .
	@touch $(VLLM_READY)

demo: setup      ## Ask the built-in model about pictures, through separate encode and prefill/decode workers
	$(BIN)/python -m easerve demo

serve: setup     ## Serve the built-in model on 127.0.0.1:8000
	$(BIN)/python -m easerve serve

lint: setup      ## Linters, type check, import contract
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

test: lint       ## Everything that must pass before a change lands
	$(BIN)/python -m pytest -m "not slow"

test-slow: setup ## Proofs that take minutes each
	$(BIN)/python -m pytest -m slow

bench: setup     ## Benchmarks of decisions, transfer, overhead and engine; fails if the engine misses a target
	$(BIN)/python benchmarks/policies.py
	$(BIN)/python benchmarks/transfer.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/engine_throughput.py

bench-peers: setup setup-vllm  ## EAServe beside vLLM on cores 0 and 1, into docs/benchmarks.md (about two hours)
	$(BIN)/python tools/make_reference_model.py --out runs/reference-model
	$(BIN)/python benchmarks/peers/run.py --page docs/benchmarks.md

clean:           ## Remove the environment and caches
	rm -rf .venv .venv-vllm .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
