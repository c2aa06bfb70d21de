# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-fast check lint types docs site dist hub peers shapleig test-peers nginx clean

# Ten clients share handwritten digits: a free rider, an exact copy and a label-flipper among honest clients.
# What each is worth, exactly; then how close 32 of the 1,024 coalitions come.
DEMO := build/demo
demo: $(VENV)/.installed
	@rm -rf $(DEMO)
	$(BIN)/fedvalue run --no-config --partition demo --exact --out $(DEMO)
	@echo
	$(BIN)/fedvalue store export $(DEMO)/store.db federation --out $(DEMO)/game.npz
	$(BIN)/fedvalue compare --table $(DEMO)/game.npz --methods surrogate,ipss,permutation,cc-paired,loo --budget 32 --seeds 10

# Two workers with one thread each: small trainings gain nothing from more threads and fight over the cores.
# More workers than cores help the whole suite, many of whose slow tests wait for processes: make test WORKERS=3.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

test: $(VENV)/.installed-dev
	$(PYTEST)

test-fast: $(VENV)/.installed-dev
	$(PYTEST) -m "not slow"

check: lint types test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# The command-line reference from the commands themselves; a test fails when it is out of date.
docs: $(VENV)/.installed
	$(BIN)/python tools/cli_reference.py docs/cli.md

# The documentation site, in build/site: it opens from that folder, and asks for nothing from elsewhere. A warning is an error.
site: $(VENV)/.installed-site
	OMP_NUM_THREADS=1 $(BIN)/python tools/gallery.py build/gallery
	$(BIN)/python tools/pages.py build/pages build/gallery
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python tools/check_site.py build/site
	@echo "Open build/site/index.html"

$(VENV)/.installed-site: $(VENV)/.installed-dev
	$(PIP) -e ".[site]"
	touch $@

# What a release uploads: built, checked, and tried in bare environments of all Pythons that are installed.
dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/try_dist.py
	$(BIN)/python tools/try_dist.py --torch

# The valuation app as Flower's hub wants it, and its bundle, in build/hub. PUBLISHER is the account that publishes it.
PUBLISHER ?= fedvalue
hub: $(VENV)/.installed-dev
	$(BIN)/python tools/hub.py build/hub --publisher $(PUBLISHER)

# One test starts nginx, and says so where it is skipped. Nothing happens where it is there, or where it cannot be installed.
nginx:
	@PATH="$$PATH:/usr/sbin"; command -v nginx > /dev/null \
	  || { test "$$(id -u)" = 0 && export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
	    && timeout 120 apt-get update -qq && timeout 120 apt-get install -y -qq --no-install-recommends nginx-light; } \
	  || echo "nginx is not installed; the test that needs it is skipped"

# Packages to compare against, in an environment of their own: shapiq 1.8 wants Python 3.12, and pyDVL a NumPy that 3.13 has not.
PEERS := .venv-peers
PEERS_PIP := $(PEERS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt

peers: $(PEERS)/.installed

# With ShaplEIG, whose Gaussian process needs torch. PIP_EXTRA_INDEX_URL names an index with CPU builds; with CUDA it is gigabytes.
shapleig: $(PEERS)/.installed
	$(PEERS_PIP) -e ".[peers,shapleig]"

test-peers: $(PEERS)/.installed
	OMP_NUM_THREADS=1 $(PEERS)/bin/python -m pytest tests/adapters/test_adapters.py tests/indices/test_indices_of_peers.py tests/bench

$(PEERS)/bin/python:
	@path=$$($(PYTHON) tools/pythons.py 3.12) || { echo "make peers needs Python 3.12. Install it and try again."; exit 1; }; \
	$$path -m venv $(PEERS)

$(PEERS)/.installed: pyproject.toml constraints.txt | $(PEERS)/bin/python
	$(PEERS_PIP) -e ".[peers]"
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e ".[torch]"
	touch $@

# With the paper's project, which has its own tests and adds `fedvalue reproduce`.
$(VENV)/.installed-dev: pyproject.toml paper/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e ".[dev]" -e ./paper
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) $(PEERS) build dist .mypy_cache .ruff_cache .pytest_cache
