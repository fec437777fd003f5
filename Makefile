# make demo   set up and run the demo           make test   set up, then lint, types and tests
# make bench  benchmarks that need no data      make docs   build the pages into site/
# make test-gpu  the kernels on a real GPU      make cover  tests with coverage, slower
# make wheel  build and check the packages       make lock   pin the development environment anew
# make fuzz   bad input of every kind, FUZZ_SECONDS for each area (60)
# make clean  forget the environment and what was compiled
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PIP := $(BIN)/python -m pip --disable-pip-version-check
NEEDS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu lint types unit cover docs wheel lock bench fuzz clean

help:
	@sed -n 's/^# //p' Makefile

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.base: $(VENV)/.made $(NEEDS)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[report]'
	@touch $@

$(VENV)/.dev: $(VENV)/.made $(NEEDS)
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
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

cover: $(VENV)/.dev
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --cov --cov-report=term

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The packages as they are published: contents, metadata, and whether the wheel works in an environment of its own.
wheel: $(VENV)/.dev
	$(PIP) install --quiet --constraint constraints.txt --editable '.[release]'
	rm -rf dist build/wheel
	$(BIN)/python -m build --outdir dist
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/wheel
	build/wheel/$(notdir $(BIN))/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt dist/*.whl
	build/wheel/$(notdir $(BIN))/vitalrank doctor

# Every version of the development environment, for all Pythons and systems; constraints.in says what is chosen by hand.
lock: $(VENV)/.made
	$(PIP) install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra release --universal --upgrade --constraint constraints.in \
		--no-emit-index-url --no-annotate --quiet --custom-compile-command 'make lock' --output-file constraints.txt

# The kernels on a real GPU; PY is an interpreter with torch, Triton and pytest.
PY ?= $(BIN)/python
test-gpu:
	VITALRANK_TEST_GPU=1 PYTHONPATH=src $(PY) -m pytest -q -p no:cacheprovider tests/test_gpu.py tests/test_gpu_models.py tests/test_samplers.py

bench: $(VENV)/.dev
	@for script in read evaluate samplers mf fit; do echo "== $$script"; $(BIN)/python benchmarks/$$script.py || exit 1; done

fuzz: $(VENV)/.dev
	PYTHONPATH=src FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(BIN)/python -m tests.fuzz

clean:
	rm -rf $(VENV) site .cache .mypy_cache .pytest_cache .ruff_cache .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
