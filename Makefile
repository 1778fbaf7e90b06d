# Two commands do everything on a machine with Python 3.11 and pip: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# dozens of tests start processes, each of which would compile every module anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all coverage explore campaign check format docs bench setup clean

setup: $(INSTALLED)

# torch first and by its exact version, so that pip takes the build that constraints.txt was tested with
$(INSTALLED): pyproject.toml constraints.txt src/llrnn_agreement/pyproject.toml src/llrnn_morphology/pyproject.toml \
		models/french/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,plot]' \
		--editable src/llrnn_agreement --editable src/llrnn_morphology --editable models/french
	touch $@

demo: $(INSTALLED)
	$(BIN)/llrnn demo --out demo

# COVERAGE=--cov measures the branches that the tests take, for `make coverage`; what was measured before is kept
COVERAGE ?=
PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal $(COVERAGE) $(if $(COVERAGE),--cov-append --cov-report=)

test: $(INSTALLED)
	$(PYTEST) -m "not slow"

# everything, every case of the property tests (tests/conftest.py), and the branch coverage of the mathematics
test-all: COVERAGE = --cov
test-all: $(INSTALLED)
	$(BIN)/coverage erase
	$(PYTEST) --hypothesis-profile=all
	$(BIN)/python scripts/branches.py

# fails where less than 95 % of the branches of the mathematics were taken (which files: pyproject.toml)
coverage: $(INSTALLED)
	$(BIN)/python scripts/branches.py

# new cases for every property test, for so many minutes; what fails is printed as a regression test
MINUTES ?= 10
explore: $(INSTALLED)
	$(BIN)/python scripts/explore.py --minutes $(MINUTES)

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# the site in site/, from docs/ and the code; any warning is an error
docs: $(INSTALLED)
	BIN=$(BIN) scripts/docs

# every row, half an hour and more; stopped, it goes on. `python scripts/figures.py runs/bench` makes the page
bench: $(INSTALLED)
	$(BIN)/llrnn bench --out runs/bench

# files, processes, requests and numbers as bad as they can be; minutes. docs/stability.md#reliability says what is promised
campaign: $(INSTALLED)
	$(BIN)/python -m campaign --out runs/campaign

clean:
	rm -rf $(VENV) demo site
