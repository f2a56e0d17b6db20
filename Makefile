# One machine, Python 3.10 or newer and make: everything else is fetched, verified and cached.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.10; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
LOCKS := requirements/dev.lock requirements/java.lock requirements/set_up.py pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all unit check bench figures compose-test soak relock clean

help: ## show this list
	@echo "ingest: keep Delta tables equal to a live MySQL, and prove it."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## set up .venv with the locked packages (the others do it by themselves)

demo: $(READY) ## snapshot, live traffic, two kills on purpose, and the proof: lake = source
	@$(BIN)/ingest demo

test: check ## what CI runs: style, types, unit tests, and with Spark and the real stack those whose turn it is
	@$(BIN)/pytest tests -n 2 --dist loadfile --no-loadscope-reorder --in-turn

test-all: check ## the same with every slow test, not only those whose turn it is (two hours on two cores)
	@$(BIN)/pytest tests -n 2 --dist loadfile --no-loadscope-reorder

unit: $(READY) ## what needs no JVM and no stack: unit tests and the docs' (seconds)
	@$(BIN)/pytest tests/unit tests/docs -n 2 --durations=3

check: $(READY) ## style, types, and which room may import which (seconds)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/vermin --target=3.10- --no-tips --violations --quiet ingest tests bench connect requirements
	@$(BIN)/lint-imports --no-logo

bench: $(READY) ## measure, an hour: batches, and MERGEs, backlogs and freshness beside other ways to do the work
	@$(BIN)/python -m bench batches
	@$(BIN)/python -m bench many_tables
	@$(BIN)/python -m bench merges --tables 1 --rows 1000000 --changes 1000
	@$(BIN)/python -m bench merges --tables 100 --rows 50000 --changes 100 --rounds 3 --warm 1
	@$(BIN)/python -m bench drains
	@$(BIN)/python -m bench layout --keys recent --batches 50
	@$(BIN)/python -m bench freshness
	@$(BIN)/python -m bench end_to_end --rounds 1
	@$(BIN)/python -m bench starts

FIGURES := .venv/figures
figures: $(FIGURES)/.ready ## make docs/performance.md's tables and pictures of docs/results
	@PYTHONPATH=$(FIGURES) $(BIN)/python -m bench.figures

$(FIGURES)/.ready: requirements/figures.lock $(READY)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-input --upgrade \
		--target $(FIGURES) --require-hashes -r requirements/figures.lock
	@touch $@

IMAGES ?= public
compose-test: $(READY) ## docker-compose.yml really run, killed and audited; needs a Docker engine (IMAGES=stand-ins: without public images)
	@$(BIN)/python -m tests.compose --images $(IMAGES)

SOAK ?= soak
soak: $(READY) ## hours: every fault, a table poisoned in ten ways, the kill matrix and DDL histories (resumable), re-sends, an upgrade, real applications, mutants, hostile values by the million, random kills
	@mkdir -p $(SOAK)
	@$(BIN)/pytest tests -m long --timeout=0
	@$(BIN)/python -m tests.kills.faults
	@$(BIN)/python -m tests.poison
	@INGEST_MUTANTS=all INGEST_SPARK_HISTORIES=200 $(BIN)/pytest tests/conformance --timeout=0
	@INGEST_MUTANTS=all INGEST_MERGE_ENGINE=spark $(BIN)/pytest tests/conformance/test_scenarios.py \
		tests/conformance/test_mutants.py --timeout=0
	@for lane in model reader; do for length in 20 5000; do \
		$(BIN)/python -m tests.conformance.volume --lane $$lane --operations 1000000 --length $$length || exit 1; done; done
	@for lane in delta-rs deletion-vectors; do \
		$(BIN)/python -m tests.conformance.volume --lane $$lane --operations 150000 --length 5000 || exit 1; \
		$(BIN)/python -m tests.conformance.volume --lane $$lane --operations 50000 --length 20 || exit 1; done
	@$(BIN)/python -m tests.conformance.volume --lane spark --operations 20000 --length 500
	@$(BIN)/python -m tests.ddl.marathon --ledger $(SOAK)/ddl.jsonl
	@$(BIN)/python -m tests.ddl.columns
	@$(BIN)/python -m tests.ddl.spellings
	@$(BIN)/python -m tests.ddl.spelt_values
	@$(BIN)/python -m tests.kills.resends
	@$(BIN)/python -m tests.upgrades.lake --go-on
	@$(BIN)/python -m tests.applications --ledger $(SOAK)/applications.jsonl
	@$(BIN)/python -m tests.kills.matrix --ledger $(SOAK)/kills.jsonl
	@INGEST_LANE=spark INGEST_MERGE_ENGINE=spark $(BIN)/python -m tests.kills.matrix --ledger $(SOAK)/kills-on-spark.jsonl
	@for victim in driver store; do \
		$(BIN)/python -m tests.kills.matrix --store --only stream:$$victim --ledger $(SOAK)/kills-in-store.jsonl || exit 1; done
	@$(BIN)/python -m tests.kills.clustered --rounds 12 --ledger $(SOAK)/clustered.jsonl
	@$(BIN)/python -m tests.power.matrix
	@$(BIN)/python -m tests.outside.filters --draws 50
	@$(BIN)/python -m tests.spark.flows.lateness --seeds 50 --events 200000
	@$(BIN)/python -m tests.kills.outward --lines 1000000 --kills 60
	@$(BIN)/python -m tests.kills.corrections --changes 200000 --kills 12
	@$(BIN)/python -m bench soak

relock: $(READY) ## write the locks again after a change of versions
	@$(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q pyproject.toml --group dev -o requirements/dev.lock
	@$(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q --group readers -o requirements/readers.lock
	@$(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q --group state -o requirements/state.lock
	@$(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q --group redis -o requirements/redis.lock
	@$(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q --group kubernetes -o requirements/kubernetes.lock
	@$(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q --group figures -o requirements/figures.lock
	@$(BIN)/uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
		--no-annotate --no-header -q --group applications -o requirements/applications.lock
	@$(BIN)/python connect/relock.py
	@$(BIN)/python connect/log_store.py

clean: ## stop a stack of this folder; delete it, .venv and caches (not the shared artefact cache)
	@if [ -x $(BIN)/ingest ]; then $(BIN)/ingest local reset; $(BIN)/ingest local reset --home .ingest/demo; fi
	@rm -rf .venv .ingest .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(READY): $(LOCKS)
	@test -n "$(PYTHON)" || { echo "ingest needs Python 3.10 to 3.13 and found none; install one, or name it: make PYTHON=/path/to/python3 demo"; exit 2; }
	@$(PYTHON) requirements/set_up.py
	@touch $@
