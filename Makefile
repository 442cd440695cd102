# Two commands do everything on a fresh machine: make demo, make test.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PEERS  ?= .venv-
# tests start many processes: without kept bytecode each compiles the package again
export PYTHONDONTWRITEBYTECODE =
INSTALL = $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: setup demo test lint format types pytest test-slow chaos flower-versions test-browser package bench peers results learning known-results claims paper attack crash-small crash fuzz clean

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/pip pyproject.toml constraints.txt
	@echo "installing into $(VENV) (once)"
	@$(INSTALL) '.[torch,report]'
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	@$(INSTALL) '.[torch,report,simulation,tensorboard,mlflow,dev]'
	@touch $@

setup: $(VENV)/.test            ## everything a developer needs

demo: $(VENV)/.demo             ## the embedded comparison, and a report to look at
	@$(BIN)/fedparity demo

test: lint types pytest         ## what CI runs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.test
	$(BIN)/mypy

pytest: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 -m "not slow" --ignore=tests/crash

paper: $(VENV)/.demo            ## the paper's tables and figures, small
	$(BIN)/fedparity paper all --scale smoke

test-slow: $(VENV)/.test        ## the figures that take minutes
	$(BIN)/python -m pytest -n 2 -m slow

chaos: $(VENV)/.test            ## real processes on loopback, killed and cut off (Flower; minutes)
	$(BIN)/python -m pytest tests/chaos tests/deploy/test_deploy_real.py -rs

# The environment of the tests, with another Flower (and the uv it asks for) over its own; the pins are those of `peers`.
OTHER_FLOWER = .venv-flwr142
$(OTHER_FLOWER)/.done: $(VENV)/.test benchmarks/training/requirements-flower.txt
	$(PYTHON) -m venv --clear $(OTHER_FLOWER)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$($(OTHER_FLOWER)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth"
	$(OTHER_FLOWER)/bin/pip install --quiet --disable-pip-version-check --no-deps --ignore-installed \
	  $$(grep -E '^(flwr|uv)==' benchmarks/training/requirements-flower.txt)
	@touch $@

flower-versions: $(OTHER_FLOWER)/.done   ## what needs Flower, on the other minor version that is supported
	@$(OTHER_FLOWER)/bin/flwr --version | grep -F " 1.42."
	$(OTHER_FLOWER)/bin/python -m pytest -n 2 -m "not slow" tests/engines tests/deploy
	$(OTHER_FLOWER)/bin/python -m pytest -rs tests/chaos/test_chaos.py -k "bits or listens"

test-browser: $(VENV)/.test     ## the report in headless Chromium (skips, visibly, without one)
	$(BIN)/python -m pytest tests/browser -rs

package: $(VENV)/.test          ## dist/: a wheel and an sdist, installed in a fresh venv and tried
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m pytest tests/package -rs

bench: $(VENV)/.test            ## timed figures, as ratios, into benchmarks/
	$(BIN)/python benchmarks/run.py

# torch first: a range would pull CUDA. PEERS=/some/dir/ puts them elsewhere; tell race.py by FEDPARITY_PEERS=/some/dir
peers: $(PEERS)flower/.done $(PEERS)pfl/.done   ## environments of the peers we race against

$(PEERS)flower/.done: NODEPS = --no-deps
$(PEERS)%/.done: benchmarks/training/requirements-%.txt
	$(PYTHON) -m venv $(PEERS)$*
	$(PEERS)$*/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PEERS)$*/bin/pip install --quiet --disable-pip-version-check $(NODEPS) -r $<
	@touch $@

results: learning               ## docs/results.md, from scratch, and docs/learning.md
	$(BIN)/python benchmarks/results.py

learning: $(VENV)/.test         ## docs/learning.md: what is not there yet, about 20 minutes in all
	$(BIN)/python benchmarks/learning.py

known-results: $(VENV)/.test    ## docs/known_results.md: what is not there yet, about 20 minutes in all
	$(BIN)/python benchmarks/known_results.py

claims: $(VENV)/.test           ## docs/paper.md: the paper's claims, examined again (TRACE=FILE: with FLASH's events)
	$(BIN)/fedparity claims --expect --page docs/paper.md $(if $(TRACE),--trace $(TRACE))

attack: $(VENV)/.test           ## the tables of docs/security.md: what is not there yet, about 15 minutes in all
	$(BIN)/python benchmarks/attacks.py
	$(BIN)/python benchmarks/noise.py

crash-small: $(VENV)/.test      ## the crash laboratory at the size of CI
	$(BIN)/python -m pytest -n 2 tests/crash

crash: $(VENV)/.test            ## the crash laboratory at full size, and 10,000 days of simulated systems
	FEDPARITY_CRASH=nightly $(BIN)/python -m pytest -n 2 tests/crash tests/testing/test_simulation.py
	$(BIN)/fedparity simulate --seeds 1000 --days 10

fuzz: $(VENV)/.test             ## SIZE inputs per parser (10^6), by coverage where atheris is installed: hours
	$(BIN)/python tests/fuzz.py $(or $(SIZE),1000000) $(PARSERS)

clean:
	rm -rf $(VENV) $(OTHER_FLOWER) .venv-flower .venv-pfl runs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
