# One command each; on a fresh machine only Python >= 3.11, git and make are needed.
#
#   make demo     predict the example plan, then move real bytes and compare
#   make test     everything that CI checks: lint, format, types, tests
#   make browser  install Chromium for the tests of reports (as root; else they are skipped)
#   make gpu      the tests that need a GPU: make gpu EXTRAS=cuda12
#   make golden   rewrite the recorded transcripts; read the diff before you commit it
#   make pictures make the pictures of the guides
#   make wheel    build dist/transfer_planner-*.whl
#   make clean    remove what the other targets made
#
# PYTHON=python3.12 names the Python to use; EXTRAS=cuda12 (or cuda13) brings in the GPU library:
# `make demo EXTRAS=cuda12` moves the bytes to the GPU.

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?=
BIN := $(VENV)/bin
comma := ,
PLAN ?= plans/llm_load.yaml
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALLED := $(VENV)/.installed$(EXTRAS)
DEVELOPED := $(VENV)/.developed$(EXTRAS)
CODE := planner tests scripts $(wildcard benchmarks/*.py)

.PHONY: demo test lint unit browser gpu golden pictures wheel clean
.DEFAULT_GOAL := test

demo: $(INSTALLED)
	$(BIN)/planner estimate $(PLAN)
# On a slow computer the plan's objective may be missed (10): that is its answer, not a failure.
	$(BIN)/planner execute $(PLAN) --set weights=$$($(BIN)/python scripts/demo_size.py) \
		|| [ $$? -eq 10 ]

test: lint unit

lint: $(DEVELOPED)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)

unit: $(DEVELOPED) browser
	$(BIN)/python -m pytest -q -n auto --dist worksteal --hypothesis-profile same

browser: $(DEVELOPED)
	$(BIN)/python scripts/install_browser.py

gpu: $(DEVELOPED)
	$(BIN)/python -m pytest -q -m gpu

golden: $(DEVELOPED)
	$(BIN)/python -m pytest -q --update-golden

pictures: $(INSTALLED)
	$(BIN)/python scripts/pictures.py

wheel: $(DEVELOPED)
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -f $(VENV)/.installed* $(VENV)/.developed*
	find planner tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make a second run start at once; a change of pyproject.toml installs again.
$(INSTALLED): pyproject.toml | $(BIN)/python
	$(INSTALL) --editable '.$(if $(EXTRAS),[$(EXTRAS)])'
	@touch $@

$(DEVELOPED): pyproject.toml | $(BIN)/python
	$(INSTALL) --editable '.[dev$(if $(EXTRAS),$(comma)$(EXTRAS))]'
	@touch $(INSTALLED) $@

$(BIN)/python:
	@$(PYTHON) scripts/make_venv.py $(VENV)
