# Two commands do everything on a machine with Python 3.11 and pip: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-all check format docs bench setup clean

setup: $(INSTALLED)

# torch first and by its exact version, so that pip takes the build that constraints.txt was tested with
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,plot]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/llrnn demo --out demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not timing"

# everything, and the branch coverage of the mathematics: at least 95 % in the layer, features, backgrounds and n-grams
test-all: $(INSTALLED)
	$(BIN)/python -m pytest -m timing
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not timing" --cov=llrnn --cov-branch --cov-report=
	$(BIN)/coverage report --include='*/loglinear.py,*/masses/*,*/drawing.py,*/numerics.py,*/priors.py,*/knowledge.py,*/expectations.py,*/features/*,*/backgrounds/*,*/contextual/*,*/ngrams/*,*/domain.py,*/domains/*,*/automata/*,*/languages/*,*/bounds.py' --fail-under=95
	$(BIN)/coverage report --skip-covered

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

clean:
	rm -rf $(VENV) demo site
