# Every target sets up .venv by itself; nothing but Python 3.11+, make and a package index is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check format bench results constraints clean

demo: $(VENV)/.runtime ## the main job on the embedded data: a table and a picture
	$(BIN)/zonkey demo

test: $(VENV)/.dev ## the test suite, and the coverage that the maths must keep
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov --cov-report=
	$(BIN)/python -m coverage report --include='*/zonkey/linalg/*,*/zonkey/core/*' --fail-under=95

check: $(VENV)/.dev ## linters, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## tables of speed and accuracy, a page of them; long, not part of the tests
	$(BIN)/python benchmarks/fit_speed.py
	$(BIN)/python benchmarks/sylvester_speed.py
	$(BIN)/python benchmarks/search_speed.py
	$(BIN)/python benchmarks/few_shot_speed.py
	$(BIN)/python benchmarks/predict_speed.py
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/alternatives.py
	$(BIN)/python benchmarks/few_shot_alternatives.py
	$(BIN)/python benchmarks/recommended.py
	$(BIN)/zonkey bench all
	$(BIN)/zonkey report

results: $(VENV)/.runtime ## docs/results.md, from the runs on the embedded data that lie beside it
	$(BIN)/zonkey bench all --data emoji --quick --runs docs/runs
	$(BIN)/zonkey report --runs docs/runs --markdown docs/results.md

constraints: ## pin what the newest releases resolve to
	$(PYTHON) -m venv .venv-pins
	.venv-pins/bin/python -m pip install --quiet -e ".[dev]" hatchling editables
	(head -1 constraints.txt; .venv-pins/bin/python -m pip freeze --exclude-editable | sed 's/+.*//') > constraints.tmp
	mv constraints.tmp constraints.txt
	rm -rf .venv-pins

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage dist zonkey-demo report

$(VENV)/.runtime: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) -e ".[dev]"
	touch $@
