# Each of `make install`, `make demo` and `make test` does all the set-up on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

DOCS_READY := $(VENV)/.docs-ready

.PHONY: install demo test test-all docs release lint types clean

install: $(READY)
	@echo "Installed in $(VENV). Next: . $(BIN)/activate"

demo: $(READY)
	$(BIN)/dims demo

# mypy runs beside the tests, so that no core waits for it; the last lines are what it says.
test: lint
	@$(BIN)/mypy > $(VENV)/types.txt 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n 2 --dist worksteal; tests=$$?; \
	wait $$types; types=$$?; cat $(VENV)/types.txt; exit $$((tests + types))

# Adds notebooks, wheels in an empty environment, clusters, kill series, browsers and long
# statistics, and checks the shapes of more calls; the last lines list the slow tests that ran.
test-all: lint types docs
	DIMS_CHECKED_CALLS=5 $(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or not slow"

# The site, into site/; a warning or a broken link is an error (not with --quiet, which hides them).
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Built site/. To read it, with search: $(BIN)/python -m http.server -d site, then http://localhost:8000"

# sdist and wheel of the library and of the paper's package, into dist/.
release: $(READY)
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m build --no-isolation --outdir dist ./paper

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Everything is pinned in constraints.txt, dependencies of dependencies included: hence --no-deps.
# torch comes first and alone, so that nothing can ask for another build of it.
$(READY): pyproject.toml paper/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --no-deps -r constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . --editable ./paper
	touch $(READY)

$(DOCS_READY): $(READY) constraints-docs.txt
	$(BIN)/python -m pip install --quiet --no-deps -r constraints-docs.txt
	touch $(DOCS_READY)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist site
