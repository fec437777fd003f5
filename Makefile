# make demo   set up and run the demo           make test   set up, then lint, types and tests
# make bench  run every benchmark               make clean  forget the environment
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
NEEDS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit bench clean

help:
	@sed -n 's/^# //p' Makefile

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(BIN)/python $(NEEDS)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[report]'
	@touch $@

$(VENV)/.dev: $(BIN)/python $(NEEDS)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/vitalrank demo

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python -m pytest --cov --cov-report=term

bench: $(VENV)/.dev
	@for script in read evaluate samplers mf; do echo "== $$script"; $(BIN)/python benchmarks/$$script.py || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
