# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
SUDO := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo --preserve-env=HOME,PATH)
BIN := .venv/bin
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# Side by side, each line says whose it is.
told = set -o pipefail; $(2) 2>&1 | sed -u 's/^/$(1): /'
# `make test LONG=1`: also the tests that others cover in less time.
tests = $(SUDO) $(if $(LONG),env BAROGRAPH_LONG_TESTS=1) $(BIN)/python -m pytest tests -m $(1)

# With the programs of the packages that set-up declares and no others, as tests/support/programs.py has it.
declared = PATH=$(CURDIR)/$(BIN):$(CURDIR)/.barograph/path

.PHONY: help demo test machines experiments analyses integration spark unit browser e2e lint java bench setup ui clean lock
help:  ## what there is
	@grep -E '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

bootstrap:
	@.ci/bootstrap
.PHONY: bootstrap

setup: bootstrap  ## install and build everything an experiment needs
	@$(SUDO) $(BIN)/barograph setup

demo: setup  ## star from 4 to 5 machines, Storm's default and Stela, one short run each; ends with a report
	@$(SUDO) $(BIN)/barograph run stela/star --demo --new

# Two chains side by side, for what has machines waits most of the time. In each everything is run, whatever fails.
# Whole experiments come last: they measure, so no other machines are up then, and the local testbed's get their cores
# before all else on the box.
each = status=0; for part in $(1); do $(MAKE) --no-print-directory $$part || status=1; done; exit $$status

test: setup  ## everything: linters, Java and Python tests, real experiments through Airflow; LONG=1: the long ones too
	@$(MAKE) --no-print-directory --jobs=2 --keep-going on-machines beside

on-machines:
	@$(call each,machines lint java experiments)

beside:
	@$(call each,analyses unit)
.PHONY: on-machines beside

machines: bootstrap  ## the parts on emulated machines and whole experiments on rented ones, one after the other
	@$(call told,machines,$(call tests,"integration or cloud"))

experiments: bootstrap  ## whole experiments on the local testbed
	@$(call told,experiments,$(call tests,"e2e and not cloud"))

analyses: bootstrap  ## the tests with Spark or a browser, in one process: they share a session and the golden series
	@$(call told,analyses,$(call tests,"(spark or browser) and not integration and not e2e"))

spark: bootstrap  ## of these, those with a Spark session
	@$(call told,spark,$(call tests,"spark and not integration and not e2e and not browser"))

browser: bootstrap  ## of these, those of pages, in the system's Chromium
	@$(call told,browser,$(call tests,"browser and not e2e"))

unit: bootstrap  ## every other Python test that needs no emulated machines
	@$(call told,unit,$(call tests,"not spark and not integration and not e2e and not browser"))

integration: bootstrap  ## the parts on emulated machines: real ssh, Ansible, ZooKeeper, Storm
	@$(call told,integration,$(call tests,"integration and not e2e"))

e2e: bootstrap  ## whole experiments on emulated machines
	@$(call told,e2e,$(call tests,e2e))

lint: bootstrap  ## ruff, mypy, import-linter, ansible-lint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(declared) $(BIN)/ansible-lint --offline -q playbooks

java: bootstrap  ## Java unit and contract tests
	@$(declared) mvn -B -q -f topologies/pom.xml verify
	@$(declared) mvn -B -q -f scheduler_plugins/nimbus_bridge/pom.xml verify

bench: setup  ## ratios taken side by side on this machine: what measuring costs; raw lines to tables beside polars and DuckDB; Stela's decision
	@mvn -B -q -f topologies/pom.xml test-compile org.codehaus.mojo:exec-maven-plugin:3.5.1:exec -Dexec.executable=java -Dexec.classpathScope=test \
		-Dexec.args="-cp %classpath -Dlog4j2.level=error barograph.topologies.measure.MeasuringCost"
	@$(BIN)/python -m tests.calibration.ingest_bench --mb 1000
	@$(BIN)/python -m tests.calibration.stela_decision_time

ui: setup  ## Airflow on loopback, with a password that it prints
	@$(SUDO) $(BIN)/barograph ui

lock: bootstrap  ## pin requirements.txt anew from pyproject.toml
	@.barograph/uv/bin/uv pip compile -q pyproject.toml --extra dev --generate-hashes --universal --python-version 3.11 -o requirements.txt
	@.barograph/uv/bin/uv pip compile -q .ci/alone.in --no-deps --generate-hashes --universal --python-version 3.11 -o .ci/alone.txt

clean:  ## forget what was built here (results and machine caches stay)
	@rm -rf .venv .barograph topologies/target scheduler_plugins/nimbus_bridge/target
