# `make help` lists the targets. Each target builds the environment that it needs, once.

# The interpreter for the environments: any Python from 3.11 on.
PYTHON ?= python3
# Pytest's options, for example `make test PYTEST_ARGS="-k bm25 -x"`.
PYTEST_ARGS ?=
# Two processes; the tests of a file run in the same process, because they share the indexes that the file builds.
# The tests of a cluster, of the page and of long runs have targets of their own: workers and a browser need the cores.
WHOLE_SUITE = -n 2 --dist loadfile -m "not cluster and not page and not soak"

# Without byte code the environment is a fifth smaller; Python compiles what it imports.
INSTALL = -m pip install --quiet --no-compile

# A Python from 3.12 on, for the newest pyserini: PYTHON312, or the first that runs of the usual names and places.
NEWER = $(PYTHON312) python3.12 python3.13 python3.14 $(PYTHON) \
    $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.1[2-9]*/bin/python)
find_newer = for python in $(NEWER); do \
    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then echo $$python; break; fi; done

.PHONY: help demo docs test fuzz mutants licences test-corrupt test-kill test-dask test-page test-openapi test-soak coverage lint test-pyserini test-pyterrier test-lucene10 bench bench-bridge bench-dropin bridge freeze clean

help:  ## Lists the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | awk -F '\t' '{printf "%-15s %s\n", $$1, $$2}'

demo: .venv/.ready  ## Indexes the bundled collection, runs every method on it and compares them
	.venv/bin/python -m kernelsearch.demo

test: .venv/.ready  ## Runs the tests, the examples in docstrings and the commands of the documentation
	.venv/bin/python -m pytest $(WHOLE_SUITE) $(PYTEST_ARGS)

test-dask: .venv/.ready  ## Runs the tests that start a Dask cluster and kill its workers
	.venv/bin/python -m pytest -m cluster $(PYTEST_ARGS)

test-page: .venv/.ready  ## Runs the page's tests in a headless Chromium (skipped where there is none)
	.venv/bin/python -m pytest -m page $(PYTEST_ARGS)

test-openapi: .venv/.ready  ## Sends the service generated requests from its OpenAPI description (KERNELSEARCH_EXAMPLES=50 per endpoint)
	KERNELSEARCH_EXAMPLES=$${KERNELSEARCH_EXAMPLES:-50} .venv/bin/python -m pytest tests/serve/test_openapi.py $(PYTEST_ARGS)

test-soak: .venv/.ready  ## Runs queries from many threads and a service under abuse (KERNELSEARCH_SOAK_QUERIES=300 per thread, KERNELSEARCH_SOAK_SECONDS=30)
	.venv/bin/python -m pytest -m soak $(PYTEST_ARGS)

test-corrupt: .venv/.ready  ## Damages every file of an index: refused by name or without effect (KERNELSEARCH_CORRUPTIONS=500 cases)
	KERNELSEARCH_CORRUPTIONS=$${KERNELSEARCH_CORRUPTIONS:-500} .venv/bin/python -m pytest tests/corruption/test_corrupt.py $(PYTEST_ARGS)

test-kill: .venv/.ready  ## Kills commands at random times and at renames and syncs (KERNELSEARCH_KILLS=10 per command)
	KERNELSEARCH_KILLS=$${KERNELSEARCH_KILLS:-10} .venv/bin/python -m pytest tests/corruption/test_kill.py $(PYTEST_ARGS)

fuzz: .venv/.ready  ## Reads 10,000 changed files with every reader (KERNELSEARCH_FUZZ=10000)
	KERNELSEARCH_FUZZ=$${KERNELSEARCH_FUZZ:-10000} .venv/bin/python -m pytest tests/fuzz -n 2 $(PYTEST_ARGS)

mutants: .venv/.ready  ## Changes 300 operators and constants, one at a time, and counts how many the tests notice (MUTANT_ARGS)
	.venv/bin/python -m tools.mutants $(MUTANT_ARGS)

licences: .venv/.ready  ## Lists the licences of all dependencies; fails for one that is not permissive
	.venv/bin/python -m tools.licences --extras plots,datasets,serve,mcp,encode,dask

coverage: .venv/.ready  ## Runs the tests with line coverage, printed and in htmlcov/
	.venv/bin/python -m pytest $(WHOLE_SUITE) --cov=kernelsearch --cov-report=term --cov-report=html $(PYTEST_ARGS)

lint: .venv/.ready  ## Checks style, format, layers and types
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports --no-logo
	.venv/bin/python -m mypy

docs: .venv/.ready  ## Builds the documentation as a site in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict

test-pyserini: .venv-pyserini/.ready  ## Runs the tests that compare with the full pyserini (installs torch)
	.venv-pyserini/bin/python -m pytest -m pyserini $(PYTEST_ARGS)

test-pyterrier: .venv-pyterrier/.ready  ## Runs the PyTerrier tests (without Terrier's own jars)
	.venv-pyterrier/bin/python -m pytest -m pyterrier $(PYTEST_ARGS)

test-lucene10:  ## Runs the tests on the newest pyserini, with Lucene 10 (needs Python 3.12 or newer: PYTHON312)
	@python=$$($(find_newer)); \
	if [ -z "$$python" ]; then \
	    echo "skipped: the newest pyserini needs Python 3.12 or newer, and none was found (name one with PYTHON312=...)"; \
	else \
	    $(MAKE) --no-print-directory .venv-lucene10/.ready PYTHON312="$$python" && \
	    .venv-lucene10/bin/python -m pytest $(WHOLE_SUITE) $(PYTEST_ARGS); \
	fi

bench: .venv/.ready .venv-bench/.ready  ## Measures each path beside its peers and writes docs/speed.md (BENCH_ARGS="--documents 2000")
	.venv/bin/python -m tools.bench.speed --peers .venv-bench/bin/python --page docs/speed.md $(BENCH_ARGS)

bench-bridge: .venv/.ready .venv-pyserini/.ready  ## Measures the Lucene bridge against pyserini (BENCH_ARGS="--quick")
	.venv/bin/python -m tools.bench.bridge --pyserini .venv-pyserini/bin/python $(BENCH_ARGS)

bench-dropin: .venv-pyterrier/.ready indexes/demo  ## Measures the overhead of the adapters, and looks for leaks with 10,000 queries from 8 threads
	PYTHONPATH=. .venv-pyterrier/bin/python -m tools.bench.dropin --index indexes/demo --topics kernelsearch/demo/data/topics.tsv $(BENCH_ARGS)

indexes/demo: | .venv/.ready
	.venv/bin/python -m kernelsearch.index --input kernelsearch/demo/data/corpus.jsonl --index $@

bridge: .venv/.ready  ## Compiles the Java helper (needs a JDK)
	.venv/bin/python -m tools.build_bridge

freeze:  ## Pins the installed versions of all environments in constraints/
	@for name in default:.venv pyserini-full:.venv-pyserini pyterrier:.venv-pyterrier lucene10:.venv-lucene10 bench:.venv-bench; do \
	    if [ -x $${name#*:}/bin/python ]; then \
	        $${name#*:}/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' | LC_ALL=C sort -f > constraints/$${name%%:*}.txt; \
	    fi; \
	done

clean:  ## Removes the environments, the caches and the demo's files
	rm -rf .venv .venv-pyserini .venv-pyterrier .venv-lucene10 .venv-bench build dist *.egg-info .coverage htmlcov site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf indexes/demo runs/demo
	find kernelsearch tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# pyserini is installed last and without its dependencies: only Anserini's jar is needed, and they would install torch.
.venv/.ready: setup.cfg pyproject.toml constraints/default.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "kernelsearch needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1); name another one with PYTHON=..." >&2; \
	    exit 1; }
	$(PYTHON) -m venv .venv
	.venv/bin/python $(INSTALL) -c constraints/default.txt -e '.[dev]'
	.venv/bin/python $(INSTALL) -c constraints/default.txt --no-deps pyserini
	@touch $@

.venv-pyserini/.ready: setup.cfg pyproject.toml constraints/pyserini-full.txt
	$(PYTHON) -m venv .venv-pyserini
	.venv-pyserini/bin/python $(INSTALL) -c constraints/pyserini-full.txt -e '.[dev,pyserini]'
	@touch $@

.venv-pyterrier/.ready: setup.cfg pyproject.toml constraints/pyterrier.txt
	$(PYTHON) -m venv .venv-pyterrier
	.venv-pyterrier/bin/python $(INSTALL) -c constraints/pyterrier.txt -e '.[dev,pyterrier]'
	.venv-pyterrier/bin/python $(INSTALL) -c constraints/pyterrier.txt --no-deps pyserini
	@touch $@

# The libraries that are compared with, without kernelsearch.
.venv-bench/.ready: constraints/bench.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python $(INSTALL) -r constraints/bench.txt
	@touch $@

.venv-lucene10/.ready: setup.cfg pyproject.toml constraints/lucene10.txt
	$(PYTHON312) -m venv .venv-lucene10
	.venv-lucene10/bin/python $(INSTALL) -c constraints/lucene10.txt -e '.[dev]'
	.venv-lucene10/bin/python $(INSTALL) -c constraints/lucene10.txt --no-deps pyserini
	@touch $@
