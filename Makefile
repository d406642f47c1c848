# Two commands do everything on a fresh machine: `make demo` and `make test`. Where it can carry no machines: `make simulated`.
SHELL := /bin/bash
SUDO := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo --preserve-env=HOME,PATH)
BIN := .venv/bin
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# $(call part,name,folders and options,niceness beside other parts): each line begins with the name, and .barograph/junit has
# the time of each test. LONG=1: also the tests that others cover in less time.
JUNIT := .barograph/junit
part = @set -o pipefail; $(if $(MAKELEVEL:0=),nice -n $(or $(3),5)) $(SUDO) env $(if $(LONG),BAROGRAPH_LONG_TESTS=1) \
	$(BIN)/python -m $(if $(COVERED),coverage run -m )pytest --junitxml=$(JUNIT)/$(1).xml $(2) 2>&1 | sed -u 's/^/$(1): /'

# With the programs of the packages that set-up declares and no others, as tests/support/programs.py has it.
declared = PATH=$(CURDIR)/$(BIN):$(CURDIR)/.barograph/path

.PHONY: help demo simulated test night cloud machines testbeds cluster experiments analyses airflow unit integration spark browser e2e coverage lint java bench setup ui clean lock
help:  ## what there is
	@grep -E '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# What was built with sudo is root's, and neither Maven nor `make clean` of the user could replace it; nor could a simulated run
# write beside the results of a demo.
BUILT := .venv .barograph topologies/target scheduler_plugins/nimbus_bridge/target
LOCKS := topologies/.build.lock scheduler_plugins/nimbus_bridge/.build.lock
give_back = [ "$$(id -u)" -eq 0 ] || for built in $(BUILT) $(LOCKS) results; do \
	[ ! -e $$built ] || [ -z "$$(find $$built -not -uid $$(id -u) -print -quit)" ] || sudo chown -R $$(id -u):$$(id -g) $$built; done

bootstrap:
	@$(give_back)
	@.ci/bootstrap
.PHONY: bootstrap

setup: bootstrap  ## install and build everything an experiment needs
	@$(SUDO) $(BIN)/barograph setup; status=$$?; $(give_back); exit $$status

demo: setup  ## star from 4 to 5 machines, Storm's default and Stela, one short run each; ends with a report
	@$(SUDO) $(BIN)/barograph run stela/star --demo --new; status=$$?; $(give_back); exit $$status

simulated:  ## the same experiment in a model of Storm: no machines, no root; ends with a report
	@.ci/bootstrap --python-only
	@$(BIN)/barograph run stela/star --testbed simulated --new

# Parts side by side, as many as there are cores (and 2 GB for each), the longest first: those with machines wait most of the time, and stand
# between those that compute. Whole experiments measure: they come last, alone. Everything is run, whatever fails.
CHAINS := $(shell awk -v cores=$$(nproc) '/^MemAvailable/ {n = int($$2 / 2e6); print (n < 1) ? 1 : (n < cores) ? n : cores}' /proc/meminfo)
SIDE_BY_SIDE := lint cluster analyses testbeds airflow cloud unit java

night: ## everything, and the tests that others cover in less time
	@$(MAKE) --no-print-directory test LONG=1

test: setup  ## everything: linters, Java and Python tests, a real experiment on Storm
	@$(SUDO) rm -rf $(JUNIT)
	@status=0; $(MAKE) --no-print-directory --jobs=$(CHAINS) --keep-going $(SIDE_BY_SIDE) || status=1; \
		$(MAKE) --no-print-directory experiments || status=1; $(BIN)/python .ci/timings.py $(JUNIT); exit $$status

# Tests with the marks `integration` and `e2e` are in these folders alone: tests/conftest.py.
WITH_MACHINES := tests/contract tests/integration
TESTBEDS := tests/contract tests/integration/test_local_testbed.py
PARTS := -m "integration and not cloud and not e2e"

cloud: bootstrap  ## EC2 on this box: its parts
	$(call part,cloud,$(WITH_MACHINES) -m "cloud and not e2e",0)

machines: testbeds cluster  ## the parts on other emulated machines: real ssh, Ansible, ZooKeeper, Storm

testbeds: bootstrap  ## of machines: testbeds, and what a cluster on one of them may be relied on for
	$(call part,testbeds,$(TESTBEDS) $(PARTS),0)

cluster: bootstrap  ## of machines: Storm on them, and how software comes to them
	$(call part,cluster,tests/integration $(addprefix --ignore=,$(TESTBEDS)) $(PARTS),0)

experiments: bootstrap  ## star on the local testbed; LONG=1: whole experiments, also on machines rented from EC2 on this box
	$(call part,experiments,$(WITH_MACHINES) -m e2e,0)

analyses: bootstrap  ## the tests with Spark or a browser, in one process: they share a session and the golden series
	$(call part,analyses,--ignore=tests/dags -m "(spark or browser) and not integration and not e2e")

airflow: bootstrap  ## commands, and whole DAGs in Airflow, on the fake and simulated testbeds
	$(call part,airflow,tests/dags,0)

unit: bootstrap  ## every other Python test that needs no emulated machines, two at a time
	$(call part,unit,--ignore=tests/dags -n 2 --dist loadfile -m "not spark and not browser and not integration and not e2e")

spark: bootstrap  ## of analyses, those with a Spark session
	$(call part,spark,--ignore=tests/dags -m "spark and not browser and not integration and not e2e")

browser: bootstrap  ## of analyses, those of pages, in the system's Chromium
	$(call part,browser,-m "browser and not e2e")

integration: bootstrap  ## cloud and machines without whole experiments
	$(call part,integration,-m "integration and not e2e")

e2e: bootstrap  ## whole experiments on emulated machines
	$(call part,e2e,-m e2e)

# Of the parts without machines: a line that only an experiment on Storm passes through counts as not covered.
COVERAGE := .barograph/coverage
comma := ,
coverage: bootstrap  ## branch coverage of analyses, airflow and unit, with the processes they start
	@rm -rf $(COVERAGE) && mkdir -p $(COVERAGE)
	@status=0; for part in unit analyses airflow; do \
		$(MAKE) --no-print-directory $$part COVERED=1 || status=1; done; \
		$(BIN)/coverage combine -q && $(BIN)/coverage report --skip-covered --sort=miss | tail -n 60; exit $$status

lint: bootstrap  ## ruff, mypy, import-linter, ansible-lint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(declared) $(BIN)/ansible-lint --offline -q playbooks

java: bootstrap  ## Java unit and contract tests
	@$(declared) mvn -B -q -f topologies/pom.xml verify
	@$(declared) mvn -B -q -f scheduler_plugins/nimbus_bridge/pom.xml verify

bench: setup  ## ratios side by side on this machine: what measuring costs; raw lines to tables beside polars and DuckDB; how analyses, decisions (Stela, METIS, greedy), rounds of the service (Henge) and the simulator grow; two hours simulated; LONG=1: 10 GB, 10,000 runs, a million tasks, two days
	@mvn -B -q -f topologies/pom.xml test-compile org.codehaus.mojo:exec-maven-plugin:3.5.1:exec -Dexec.executable=java -Dexec.classpathScope=test \
		-Dexec.args="-cp %classpath -Dlog4j2.level=error barograph.topologies.measure.MeasuringCost"
	@$(BIN)/python -m bench.speed.ingest_bench --mb 100,1000$(if $(LONG),$(comma)10000)
	@$(BIN)/python -m bench.speed.runs_bench --runs 100,1000$(if $(LONG),$(comma)10000) --cluster
	@$(BIN)/python -m bench.speed.stela_decision_time
	@$(BIN)/python -m bench.speed.service_load --sizes 40x20$(if $(LONG),$(comma)400x200)
	@$(BIN)/python -m bench.simulator.tuple_by_tuple
	@$(BIN)/python -m bench.simulator.page_load_by_theory
	@$(BIN)/python -m bench.simulator.star_by_events
	@$(BIN)/python -m bench.speed.simulator_bench $(if $(LONG),,--most-tasks 64000)
	@$(BIN)/python -m bench.speed.partition_bench --tasks 80,10000,100000$(if $(LONG),$(comma)1000000)
	@$(BIN)/python -m bench.speed.long_runs $(if $(LONG),--analyse,--hours 2)

ui: setup  ## Airflow on loopback, with a password that it prints
	@$(SUDO) $(BIN)/barograph ui

lock: bootstrap  ## pin requirements.txt anew from pyproject.toml
	@.barograph/uv/bin/uv pip compile -q pyproject.toml --extra dev --generate-hashes --universal --python-version 3.11 -o requirements.txt
	@.barograph/uv/bin/uv pip compile -q .ci/alone.in --no-deps --generate-hashes --universal --python-version 3.11 -o .ci/alone.txt

clean:  ## forget what was built here (results and machine caches stay)
	@$(give_back)
	@rm -rf $(BUILT)
