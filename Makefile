# Every target creates .venv if needed; requirements: Python 3.11+, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo demo-pictures test test-all test-faults check format structure bench docs results constraints clean

demo: $(VENV)/.runtime ## classify emoji of unseen classes: a table and a page
	$(BIN)/zonkey demo

demo-pictures: $(VENV)/.images ## the same from pictures: emoji drawn to files, encoded, named by texts
	$(BIN)/zonkey demo pictures --name "a striped horse"

test: $(VENV)/.dev ## tests, and minimum coverage of the mathematics
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=
	$(BIN)/python -m coverage report --include='*/zonkey/bpl/*,*/zonkey/arrays.py,*/zonkey/blocks.py' --fail-under=95

test-all: $(VENV)/.dev test-faults ## also the tests that repeat what a similar class shows
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "not faults"

test-faults: $(VENV)/.dev ## clusters that lose memory, connections and their scheduler; about a minute
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m faults packages/zonkey/tests/distributed

check: $(VENV)/.dev ## linters, types, import direction, docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python tools/check_docstrings.py
	$(BIN)/python tools/structure.py --check

format: $(VENV)/.dev ## automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

structure: $(VENV)/.dev ## sizes, cycles, private reads, names and call paths, against their budgets
	$(BIN)/python tools/structure.py

bench: $(VENV)/.dev ## speed and accuracy tables and a report; takes hours, not part of the tests
	$(BIN)/python benchmarks/fit_speed.py
	$(BIN)/python benchmarks/threads.py --write
	$(BIN)/python benchmarks/sylvester_speed.py
	$(BIN)/python benchmarks/search_speed.py
	$(BIN)/python benchmarks/few_shot_speed.py
	$(BIN)/python benchmarks/predict_speed.py
	$(BIN)/python benchmarks/model_files.py
	$(BIN)/python benchmarks/own_files.py --data emoji
	$(BIN)/python benchmarks/encode_speed.py
	$(BIN)/python benchmarks/pretrained.py
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/gpu_encoders.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/many_classes.py
	$(BIN)/python benchmarks/many_candidates.py --write
	$(BIN)/python benchmarks/many_seen.py --write
	$(BIN)/python benchmarks/narrow_features.py --write
	$(BIN)/python benchmarks/out_of_core.py --write
	$(BIN)/python benchmarks/dask_overhead.py
	$(BIN)/python benchmarks/scale_simulation.py --write
	$(BIN)/python benchmarks/alternatives.py
	$(BIN)/python benchmarks/few_shot_alternatives.py
	$(BIN)/python benchmarks/recommended.py
	$(BIN)/python benchmarks/everywhere.py
	$(BIN)/python benchmarks/when_synthesis_helps.py --write
	$(BIN)/zonkey compare --data emoji --seeds 5 --markdown benchmarks/results/leaderboard_emoji.md
	$(BIN)/zonkey compare --data cub --models numpy --seeds 3 --markdown benchmarks/results/leaderboard_cub.md
	$(BIN)/zonkey bench all
	$(BIN)/zonkey report

docs: $(VENV)/.dev ## help texts in docs/cli.md
	$(BIN)/python tools/cli_docs.py

BENCH ?= # options such as --jobs 14 --device cuda
# Networks on pictures: `zonkey bench end-to-end`, after tools/build_emoji_pictures.py, which needs npm.
results: $(VENV)/.dev ## docs/results.md, from the records in docs/runs; hours without a GPU
	$(BIN)/zonkey bench all --data emoji --trials 200 --runs docs/runs $(BENCH)
	$(BIN)/zonkey bench mini-imagenet --data emoji-cnn --trials 200 --runs docs/runs $(BENCH)
	$(BIN)/zonkey report --runs docs/runs --markdown docs/results.md

constraints: ## pin the newest releases
	$(PYTHON) -m venv .venv-pins
	.venv-pins/bin/python -m pip install --quiet -e "packages/zonkey[dev]" -e "packages/zonkey-lab[data]" hatchling editables
	(head -1 constraints.txt; .venv-pins/bin/python -m pip freeze --exclude-editable | sed 's/+.*//') > constraints.tmp
	mv constraints.tmp constraints.txt
	rm -rf .venv-pins

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage dist zonkey-demo report

$(VENV)/.runtime: packages/zonkey/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e packages/zonkey
	touch $@

$(VENV)/.images: $(VENV)/.runtime
	$(PIP) -e "packages/zonkey[images]"
	touch $@

$(VENV)/.dev: $(VENV)/.runtime packages/zonkey-lab/pyproject.toml
	$(PIP) -e "packages/zonkey[dev]" -e "packages/zonkey-lab[data]"
	touch $@
