# `make help` lists the targets. Each target builds the environment that it needs, once.

# The interpreter for the environments: any Python from 3.11 on.
PYTHON ?= python3
# Pytest's options, for example `make test PYTEST_ARGS="-k bm25 -x"`.
PYTEST_ARGS ?=
# Two processes; the tests of a file run in the same process, because they share the indexes that the file builds.
# The tests of a cluster, of the page, of the documentation's site and of long runs have targets of their own: workers and a
# browser need the cores, and the site takes longer than any test may.
WHOLE_SUITE = -n 2 --dist loadfile -m "not cluster and not page and not site and not soak"
# One thread of BLAS per process, since there are as many processes as cores; and Java's quick compiler alone, since tests call
# Java too seldom to gain from the other one. The targets of the other tests run with the defaults, as users do.
SUITE_ENVIRONMENT = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 KERNELSEARCH_JAVA_OPTIONS=-XX:TieredStopAtLevel=1
# Python stores the byte code of what it imports: without it, each of the processes that tests start compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

# The C code of the package, which an installation compiles.
LOOPS = $(wildcard kernelsearch/core/*.[ch])

# Without byte code the environment is a fifth smaller; Python compiles what it imports.
INSTALL = -m pip install --quiet --no-compile

# Installs into the environment $(1) the packages that $(2) pins, each verified by its hashes, then this checkout with the extras
# $(3). What another platform or Python needs besides is installed by the last command, pinned where $(2) has it. pyserini is
# among the pins, without its dependencies: only Anserini's jar is needed, and they would install torch.
comma := ,
define install_pinned
$(1)/bin/python -m tools.hashed_requirements --build-tools $(2) > $(1)/build-tools.txt
$(1)/bin/python $(INSTALL) --require-hashes -r $(1)/build-tools.txt
$(1)/bin/python -m tools.hashed_requirements $(2) > $(1)/requirements.txt
$(1)/bin/python $(INSTALL) --require-hashes --no-deps --no-build-isolation -r $(1)/requirements.txt
$(1)/bin/python $(INSTALL) --no-build-isolation -c $(2) -e '.[$(3)]'
endef

# A Python from 3.12 on, for the newest pyserini: PYTHON312, or the first that runs of the usual names and places.
NEWER = $(PYTHON312) python3.12 python3.13 python3.14 $(PYTHON) \
    $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.1[2-9]*/bin/python)
find_newer = for python in $(NEWER); do \
    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then echo $$python; break; fi; done

.PHONY: help demo docs test test-product fuzz mutants licences test-corrupt test-kill test-dask test-docs test-page test-openapi test-soak coverage lint test-pyserini test-pyterrier test-lucene10 bench bench-bridge bench-dropin bridge freeze clean

help:  ## Lists the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | awk -F '\t' '{printf "%-15s %s\n", $$1, $$2}'

demo: .venv/.ready  ## Indexes the bundled collection, runs every method on it and compares them
	.venv/bin/python -m kernelsearch.demo

test: .venv/.ready  ## Runs the tests, the examples in docstrings and the commands of the documentation
	$(SUITE_ENVIRONMENT) .venv/bin/python -m pytest $(WHOLE_SUITE) $(PYTEST_ARGS)

# A copy of the committed tree without papers/, installed beside the packages of .venv, so that no entry point names papers.
test-product: .venv/.ready  ## Deletes papers/ from a copy of the tree and runs the tests of the product there
	rm -rf build/product .venv-product
	mkdir -p build/product
	git archive HEAD | tar -x -C build/product
	cd build/product && rm -rf kernelsearch/papers tests/papers tools/papers && sed -i '/kernelsearch\.papers/d' setup.cfg
	cp kernelsearch/core/*.so build/product/kernelsearch/core/ 2>/dev/null || true
	$(PYTHON) -m venv --without-pip .venv-product
	.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	    > "$$(.venv-product/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth"
	.venv/bin/python -m pip --python .venv-product/bin/python install --quiet --no-deps --no-build-isolation -e build/product
	cd build/product && $(SUITE_ENVIRONMENT) ../../.venv-product/bin/python -m pytest $(WHOLE_SUITE) $(PYTEST_ARGS)

test-dask: .venv/.ready  ## Runs the tests that start a Dask cluster and kill its workers
	.venv/bin/python -m pytest -m cluster $(PYTEST_ARGS)

test-docs: .venv/.ready  ## Builds the site of the documentation and compares its pages with what they must contain
	.venv/bin/python -m pytest -m site $(PYTEST_ARGS)

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
	$(SUITE_ENVIRONMENT) .venv/bin/python -m tools.mutants $(MUTANT_ARGS)

licences: .venv/.ready  ## Lists the licences of all dependencies; fails for one that is not permissive
	.venv/bin/python -m tools.licences --extras plots,datasets,serve,mcp,encode,dask

coverage: .venv/.ready  ## Runs the tests with line coverage, printed and in htmlcov/
	$(SUITE_ENVIRONMENT) .venv/bin/python -m pytest $(WHOLE_SUITE) --cov=kernelsearch --cov-report=term --cov-report=html $(PYTEST_ARGS)

lint: .venv/.ready  ## Checks style, format, layers, types and the Dockerfile
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports --no-logo
	.venv/bin/python -m mypy
	.venv/bin/hadolint Dockerfile

docs: .venv/.ready  ## Builds the documentation as a site in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict
	@echo "python -m http.server -d site shows it; a browser that opens the files themselves has no search"

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
	    $(SUITE_ENVIRONMENT) .venv-lucene10/bin/python -m pytest $(WHOLE_SUITE) $(PYTEST_ARGS); \
	fi

bench: .venv/.ready .venv-bench/.ready .venv-pyserini/.bench  ## Measures each path beside its peers and writes docs/speed.md (BENCH_ARGS="--only service,vectors")
	.venv/bin/python -m tools.bench.speed --page docs/speed.md $(BENCH_ARGS)

bench-bridge: .venv/.ready .venv-pyserini/.ready  ## Measures the Lucene bridge against pyserini (BENCH_ARGS="--quick")
	.venv/bin/python -m tools.bench.bridge --pyserini .venv-pyserini/bin/python $(BENCH_ARGS)

bench-dropin: .venv-pyterrier/.ready indexes/demo  ## Measures the overhead of the adapters, and looks for leaks with 10,000 queries from 8 threads
	PYTHONPATH=. .venv-pyterrier/bin/python -m tools.bench.dropin --index indexes/demo --topics kernelsearch/demo/data/topics.tsv $(BENCH_ARGS)

indexes/demo: | .venv/.ready
	.venv/bin/python -m kernelsearch.index --input kernelsearch/demo/data/corpus.jsonl --index $@

bridge: .venv/.ready  ## Compiles the Java helper (needs a JDK)
	.venv/bin/python -m tools.build_bridge

freeze: .venv/.ready  ## Pins the installed versions of all environments in constraints/, with the hashes of their files
	.venv/bin/python -m tools.freeze

clean:  ## Removes the environments, the caches and the demo's files
	rm -rf .venv .venv-pyserini .venv-pyterrier .venv-lucene10 .venv-bench .venv-product build dist *.egg-info .coverage htmlcov site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf indexes/demo runs/demo
	find kernelsearch tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.ready: setup.cfg setup.py pyproject.toml $(LOOPS) constraints/default.txt constraints/hashes.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "kernelsearch needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1); name another one with PYTHON=..." >&2; \
	    exit 1; }
	$(PYTHON) -m venv .venv
	$(call install_pinned,.venv,constraints/default.txt,dev)
	@touch $@

.venv-pyserini/.ready: setup.cfg setup.py pyproject.toml $(LOOPS) constraints/pyserini-full.txt
	$(PYTHON) -m venv .venv-pyserini
	.venv-pyserini/bin/python $(INSTALL) -c constraints/pyserini-full.txt -e '.[dev,pyserini]'
	@touch $@

# Encoding is compared with sentence-transformers; what it needs is there already.
.venv-pyserini/.bench: .venv-pyserini/.ready
	.venv-pyserini/bin/python $(INSTALL) -c constraints/pyserini-full.txt --no-deps sentence-transformers
	@touch $@

.venv-pyterrier/.ready: setup.cfg setup.py pyproject.toml $(LOOPS) constraints/pyterrier.txt constraints/hashes.txt
	$(PYTHON) -m venv .venv-pyterrier
	$(call install_pinned,.venv-pyterrier,constraints/pyterrier.txt,dev$(comma)pyterrier)
	@touch $@

# The libraries that are compared with, without kernelsearch.
.venv-bench/.ready: constraints/bench.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python $(INSTALL) -r constraints/bench.txt
	@touch $@

.venv-lucene10/.ready: setup.cfg setup.py pyproject.toml $(LOOPS) constraints/lucene10.txt constraints/hashes.txt
	$(PYTHON312) -m venv .venv-lucene10
	$(call install_pinned,.venv-lucene10,constraints/lucene10.txt,dev)
	@touch $@
