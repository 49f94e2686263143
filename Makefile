# `make` alone prints this help. Each target sets up its own environment first, once.

PYTHON ?= python3
VENV ?= .venv
# `make QUIET= demo` shows what pip does.
QUIET ?= --quiet --quiet
# The versions to install. For other releases of the frameworks, see test-release.
CONSTRAINTS ?= constraints.txt

BIN := $(VENV)/bin
# uv installs faster, where it is there.
ifeq ($(shell command -v uv),)
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install $(QUIET) -c $(CONSTRAINTS)
else
PIP_INSTALL := uv pip install $(QUIET) --python $(BIN)/python -c $(CONSTRAINTS)
endif

.DEFAULT_GOAL := help
.PHONY: help demo dev test test-fast test-all test-release test-newest test-nightly test-for test-integrations gpu attack lint docs bench clean

# One process for each core, of about 2 GiB; `make JOBS=1 test` for one.
JOBS ?= auto
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal

help: ## print this help
	@echo "usage: make <target> [PYTHON=python3] [VENV=.venv] [CONSTRAINTS=constraints.txt]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.demo ## compare models trained on handwritten digits, in PyTorch and in Keras
	@$(BIN)/python examples/compare_digits.py

dev: $(VENV)/.installed ## install all frameworks, and the tools of tests and lint

test: $(VENV)/.installed ## run the tests and doctests that are not slow: some minutes
	@$(PYTEST) -m "not slow"

test-fast: $(VENV)/.installed ## run the tests of the core and the rules of the house that need no framework and no process: a minute
	@$(PYTEST) -m "not slow and not heavy" $(CORE) tests/house profilerkit plugins

test-all: $(VENV)/.installed ## run all tests, slow ones too (browsers, fresh environments); the core must be covered to 95 %
	@$(PYTEST) --cov --cov-report=
	@echo
	@echo "Coverage of the core:"
	@$(BIN)/python -m coverage report --include='profilerkit/*' --fail-under=95

CORE := tests/profilerkit tests/profilerkit_audits tests/profilerkit_budgets tests/profilerkit_energy tests/profilerkit_pages tests/profilerkit_predict

# The script knows the frameworks, and takes their releases from make's command line; RECORD=1 writes the row into
# docs/releases.rst.
RELEASES := tests/support/releases.py --jobs $(JOBS) $(if $(RECORD),--record) $(if $(FRAMEWORK),--framework $(FRAMEWORK))

test-release: ## run a backend's tests on another release: make test-release TORCH=2.8.0 PYTHON=python3.12
	@$(PYTHON) $(RELEASES) $(MAKEOVERRIDES)

test-newest: ## run the tests on the newest releases, without pins; FRAMEWORK=jax for one
	@$(PYTHON) $(RELEASES) --newest

test-nightly: ## run the tests on the frameworks' builds of the night; FRAMEWORK=tensorflow for one
	@$(PYTHON) $(RELEASES) --nightly

test-for: $(VENV)/.installed ## list the tests that cover a file: make test-for FILE=profilerkit/trace/table.py
	@$(BIN)/python tests/support/covering.py $(FILE)

test-integrations: $(VENV)/.installed ## install trainers, trackers and pre-commit, and run their tests and examples
	@$(PIP_INSTALL) --group test-integrations
	@$(BIN)/python -m pytest tests/profilerkit_torch/callbacks tests/profilerkit_budgets/test_pre_commit_hook.py tests/test_docs.py -k "callbacks or logging or pre_commit"

gpu: $(VENV)/.installed ## check all that needs a GPU, in at most ten minutes; results go to gpu-results/
	@$(BIN)/python benchmarks/gpu.py gpu-results

attack: $(VENV)/.installed ## run all of tests/attack, of which the other targets run a sample: an hour; prints go to attack-results/
	@$(BIN)/python tests/support/attack_in_parts.py

lint: $(VENV)/.installed ## check style and format (ruff) and types (mypy)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(VENV)/.installed-docs ## build the documentation; a warning is an error
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

bench: $(VENV)/.installed ## measure every figure of docs/speed.rst beside its peers, and write the page
	@$(BIN)/python benchmarks/run.py

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist docs/_build htmlcov *.egg-info .coverage .coverage.* coverage.xml
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamps keep pip from running again until a file that it reads has changed.
SETTINGS := setup.cfg pyproject.toml $(CONSTRAINTS)

$(VENV)/.made:
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --disable-pip-version-check install $(QUIET) --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.demo: $(VENV)/.made $(SETTINGS)
	@echo "Installing profilerkit, PyTorch and TensorFlow into $(VENV); the first time takes a minute"
	@$(PIP_INSTALL) -e '.[torch,tensorflow]' --group demo
	@touch $@

$(VENV)/.installed: $(VENV)/.made $(SETTINGS) examples/profilerkit-numpy/setup.cfg
	@echo "Installing profilerkit and its development tools into $(VENV); the first time takes some minutes"
	@$(PIP_INSTALL) -e '.[all,ray]' -e examples/profilerkit-numpy --group dev
	@touch $@ $(VENV)/.demo

$(VENV)/.installed-docs: $(VENV)/.installed
	@echo "Installing Sphinx into $(VENV)"
	@$(PIP_INSTALL) --group docs
	@touch $@
