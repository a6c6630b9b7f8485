# Needs Python 3.11 or later, a C compiler and make; all else comes into .venv. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV    := .venv
BIN     := $(VENV)/bin
MINUTES ?= 10
WORKERS ?= auto
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_WARN_SCRIPT_LOCATION := 1
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

PIP     := $(BIN)/python -m pip --quiet install --constraint constraints/dev.txt
NATIVE  := $(wildcard _native/*.pyx _native/*.pxd _native/*.h)
PINNED  := pyproject.toml constraints/dev.txt
DAY      = $(if $(LINES),--lines $(LINES)) $(if $(SEED),--seed $(SEED))

.PHONY: help run run-cluster run-pipeline run-pipeline-cluster test test-all test-soak test-matrix docs check bench kafka zookeeper postgres spark-cluster soak build dev check-wheel guarantees clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## the main job: word count over real text (INPUT=file or folder)
	@$(BIN)/python examples/word_count.py $(if $(INPUT),"$(INPUT)")
	@echo 'Next: `. $(BIN)/activate`, then `python -m engine run examples/hello.py`, or docs/TUTORIAL.md'

run-cluster: dev ## a word count of a Kafka topic on one core, then on a Spark cluster of two workers (LINES=n)
	@scripts/install-system-packages kafka spark
	@$(BIN)/python -m tests.examples.words_on_cluster $(if $(LINES),--lines $(LINES))

run-pipeline: $(VENV)/.spark $(VENV)/.built ## access logs -> engine -> Spark -> a report (LINES=n SEED=n)
	@scripts/install-system-packages java
	@$(BIN)/python examples/log_etl $(DAY)

run-pipeline-cluster: dev ## the same from a Kafka broker, on a Spark cluster of two workers
	@scripts/install-system-packages kafka spark
	@$(BIN)/python -m tests.examples.on_cluster $(DAY)

test: test-setup ## the tests, in minutes (ARGS=... goes to pytest, WORKERS=n)
	@scripts/run-tests test $(BIN)/python "$(WORKERS)" $(ARGS)

test-all: test-setup ## the same and the deep ones: kills, outages, long campaigns
	@scripts/run-tests test-all $(BIN)/python "$(WORKERS)" $(ARGS)

test-soak: test-setup ## the kills and outages that test-all leaves out, because others like them are in it
	@scripts/run-tests test-soak $(BIN)/python "$(WORKERS)" $(ARGS)

# The system's packages and Python's come at the same time. Without them, tests are skipped, but not in CI.
.PHONY: test-setup
test-setup:
	@scripts/install-system-packages tests & packages=$$!; \
	$(MAKE) --no-print-directory dev; \
	wait $$packages || [ "$${CI:-}" != true ]

docs: dev ## the site of the guides and the API reference, in build/site
	@scripts/build-site $(BIN)/python
	@echo 'Open build/site/index.html'

check: dev ## ruff, mypy --strict, layers, face, guarantees, docs, examples
	@scripts/check $(BIN)/python

bench: dev ## the benchmarks, with peers where they are installed (ARGS=...)
	@$(BIN)/python -m bench $(ARGS)

kafka: dev ## a Kafka broker to try things out with, until Ctrl-C (PORT=n)
	@scripts/install-system-packages kafka
	@$(BIN)/python -m tests.servers kafka $(if $(PORT),--port $(PORT))

zookeeper: dev ## a ZooKeeper, likewise (PORT=n)
	@scripts/install-system-packages zookeeper
	@$(BIN)/python -m tests.servers zookeeper $(if $(PORT),--port $(PORT))

postgres: dev ## a PostgreSQL, likewise (PORT=n)
	@scripts/install-system-packages postgres
	@$(BIN)/python -m tests.servers postgres $(if $(PORT),--port $(PORT))

.PHONY: sanitize
sanitize: dev ## the native tests and random topologies, with the sanitizers of gcc (SECS=60)
	@scripts/sanitize $(BIN)/python $(SECS)

test-matrix: dev ## the tests of spark_bridge on other versions of Spark (SPARK="4.3.0 ...")
	@scripts/install-system-packages tests
	@scripts/test-matrix $(BIN)/python $(SPARK)

spark-cluster: dev ## a standalone cluster of Spark with two workers, likewise (PORT=n)
	@scripts/install-system-packages spark
	@$(BIN)/python -m tests.servers spark-cluster $(if $(PORT),--port $(PORT))

soak: dev ## long random faults (MINUTES=n)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES)

.PHONY: wheel
wheel: $(VENV)/.tools ## a wheel in dist/ for this Python and system, which installs without a compiler
	@$(PIP) build
	@rm -f dist/stormcell-*
	@mkdir -p build
	@$(BIN)/python -m build --no-isolation --outdir dist . >build/wheel.log 2>&1 || { tail -n 30 build/wheel.log; exit 1; }
	@ls dist/stormcell-*.whl

check-wheel: dev ## sdist and wheel work in a bare environment, outside the checkout
	@scripts/check-wheel $(BIN)/python

guarantees: dev ## which test proves which item of docs/SEMANTICS.md
	@$(BIN)/python -m tests.guarantees

build: $(VENV)/.built ## the environment and the compiled modules

dev: $(VENV)/.dev $(VENV)/.built ## the same, with what the checks and tests need
	@:

clean: ## all that was built or cached here
	@rm -rf $(VENV) .venv-* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks
	@find _native engine spark_bridge tests bench examples scripts -name __pycache__ -prune -exec rm -rf {} +
	@find _native bench \( -name '*.so' -o -name '*.pyd' -o -name '*.html' \) -delete

# An environment whose interpreter is gone is made anew.
$(VENV)/.tools: constraints/dev.txt
	@if ! $(BIN)/python -c '' 2>/dev/null; then \
	    python=$$(scripts/find-python); \
	    echo "Making $(VENV) with $$($$python --version)"; \
	    rm -rf $(VENV); \
	    "$$python" -m venv $(VENV); \
	fi
	@$(PIP) setuptools Cython
	@touch $@

# Without build isolation: the pinned build tools. pip does not compile: it would throw away what the next build can keep.
$(VENV)/.installed: $(VENV)/.tools $(PINNED) setup.py
	@echo "Installing stormcell from this folder"
	@STORMCELL_BUILD=skip $(PIP) --no-build-isolation --editable '.[uvloop]'
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(NATIVE)
	@echo "Compiling _native"
	@$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

$(VENV)/.spark: $(VENV)/.installed
	@echo "Installing pyspark, which is 500 MB"
	@STORMCELL_BUILD=skip $(PIP) --no-build-isolation --editable '.[uvloop,spark]'
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "Installing what checks and tests need"
	@STORMCELL_BUILD=skip $(PIP) --no-build-isolation --editable '.[dev,dev-spark]'
	@touch $@ $(VENV)/.spark
