# The verbs of this project. Each sets up what it needs; `make` alone lists them.

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
DOCS := $(VENV)/.ready-docs
PYTEST := $(PY) -m pytest
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup check test test-slow test-night bench demo docs release clean

help:
	@echo "make demo       watch real jobs survive killed workers, in under a minute"
	@echo "make test       run the tests"
	@echo "make test-slow  run the tests that are marked slow"
	@echo "make test-night run those that take an hour"
	@echo "make check      format, lint, types, the rules of the house"
	@echo "make bench      print the figures that we promise"
	@echo "make docs       build the documentation into site/"
	@echo "make release    check, test and build what goes to the package index"
	@echo "make setup      the environment that all of these use, in $(VENV)"
	@echo "make clean      remove what the verbs have made"

# The first Python that is new enough. Found out by running it: a name on the path may be a stub.
find_python = for name in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		&& { echo "$$name"; break; }; done

# An environment knows its place: in a copied or moved tree it is made again.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

setup: $(READY)

$(READY): pyproject.toml
	@python=$$($(find_python)); \
	if [ -z "$$python" ]; then \
		echo "slothqueue needs Python 3.11 or newer, and there is none on the path." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$($$python --version), once..."; \
	rm -rf $(VENV); \
	if command -v uv >/dev/null 2>&1; then \
		uv venv --quiet --python "$$python" $(VENV) \
			&& uv pip install --quiet --python $(PY) -e '.[dev]'; \
	elif "$$python" -m venv $(VENV) 2>/dev/null; then \
		$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'; \
	else \
		echo "This Python has no ensurepip (Debian: apt-get install python3-venv); trying without." >&2; \
		rm -rf $(VENV); \
		"$$python" -m venv --without-pip $(VENV) \
			&& "$$python" -m pip --python $(PY) install --quiet --disable-pip-version-check -e '.[dev]'; \
	fi
	@printf '%s\n' "$(CURDIR)" > $(READY)

check: $(READY)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PYTEST) -q tests/house

test: $(READY)
	$(PYTEST) -n $(WORKERS) --dist loadgroup

test-slow: $(READY)
	$(PYTEST) -m slow -n $(WORKERS) --timeout 600 || [ $$? -eq 5 ]  # 5: no test is slow

test-night: $(READY)
	$(PYTEST) -m night -n $(WORKERS) --timeout 3600

bench: $(READY)
	$(PY) -m benchmarks

demo: $(READY)
	$(PY) demo/main.py

docs: $(DOCS)
	$(VENV)/bin/zensical build --clean

$(DOCS): $(READY)
	@if command -v uv >/dev/null 2>&1; then uv pip install --quiet --python $(PY) -e '.[docs]'; \
	else $(PY) -m pip install --quiet --disable-pip-version-check -e '.[docs]'; fi
	@touch $(DOCS)

release: check test
	rm -rf dist
	$(PY) -m build

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	find src tests demo benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
