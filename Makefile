# One command each; on a fresh machine only Python >= 3.11, git and make are needed.
#
#   make demo     predict the example plan, then move real bytes and compare
#   make test     everything that CI checks: lint, format, types, tests
#   make gpu      the tests that need a GPU (install the extra cuda12 or cuda13 first)
#   make golden   rewrite the recorded transcripts; read the diff before you commit it
#   make wheel    build dist/transfer_planner-*.whl
#   make clean    remove what the other targets made

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PLAN ?= plans/llm_load.yaml
CODE := planner tests scripts $(wildcard benchmarks/*.py)

.PHONY: demo test lint unit gpu golden wheel clean
.DEFAULT_GOAL := test

demo: $(VENV)/.installed
	$(BIN)/planner estimate $(PLAN)
	$(BIN)/planner execute $(PLAN) --set weights=$$($(BIN)/python scripts/demo_size.py)

test: lint unit

lint: $(VENV)/.developed
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy $(CODE)

unit: $(VENV)/.developed
	$(BIN)/python -m pytest -q

gpu: $(VENV)/.developed
	$(BIN)/python -m pytest -q -m gpu

golden: $(VENV)/.developed
	$(BIN)/python -m pytest -q --update-golden

wheel: $(VENV)/.developed
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf $(VENV)/.installed $(VENV)/.developed
	find planner tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps make a second run start at once; a change of pyproject.toml installs again.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.developed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(VENV)/.installed $@

$(BIN)/python:
	@$(PYTHON) scripts/make_venv.py $(VENV)
