"""A DAG for each suite: what hangs on what; and whole nights by real Airflow, simulated and on the fake testbed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph.airflow_environment import environment, settings
from barograph.nights import suite as suites
from barograph.settings import ROOT
from tests.dags.fake_runs import alone

HEAVY = ("pyspark", "ansible_runner", "paramiko", "boto3", "matplotlib", "scipy")
PROBE = """
import json, sys, time
import airflow.sdk
begin = time.process_time()
import dags.nightly as nightly
took = time.process_time() - begin
def task(t):
    return {"up": sorted(t.upstream_task_ids), "rule": t.trigger_rule.value, "setup": t.is_setup,
            "teardown": t.is_teardown, "pool": t.pool}
def dag(d):
    return {"params": {k: d.params.get_param(k).schema for k in d.params}, "max_active_runs": d.max_active_runs,
            "catchup": d.catchup, "schedule": d.schedule, "tasks": {t.task_id: task(t) for t in d.tasks}}
print(json.dumps({"took_s": took, "modules": sorted(sys.modules),
                  "dags": {d.dag_id: dag(d) for d in nightly.build_all().values()}}))
"""
NIGHT = """
import sys
from pathlib import Path
from barograph.nights import suite
folder = Path(sys.argv[1])
suite.load_suite.__defaults__ = suite.suite_names.__defaults__ = (folder,)
from dags.nightly import build
print("state", build(suite.load_suite("try")).test(run_conf={"deadline_hours": float(sys.argv[2])}).state)
"""
SUITE = """
title: One that is measured, and one that takes longer than the night
schedule: null
testbed: %s
deadline_hours: 10
experiments:
  - {experiment: small/star, variants: [stela], repetitions: 1}
  - {experiment: long/ten_jobs, variants: [ds2], repetitions: 1000}
"""
pytestmark = pytest.mark.timeout(1200)  # the only limit on what ends by itself: a busy box is slow


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a fresh process sees of the DAG file."""
    env = {**os.environ, **settings(tmp_path_factory.mktemp("airflow"))}
    done = subprocess.run([sys.executable, "-c", PROBE], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_suite_has_a_dag_that_is_light(wired: dict[str, Any]) -> None:
    assert sorted(wired["dags"]) == [f"nightly.{name}" for name in suites.suite_names()]
    assert [module for module in HEAVY if module in wired["modules"]] == []
    assert wired["took_s"] < 3.0


@pytest.mark.parametrize("name", suites.suite_names())
def test_one_night_at_a_time_by_the_suites_own_cron(name: str, wired: dict[str, Any]) -> None:
    dag, suite = wired["dags"][f"nightly.{name}"], suites.load_suite(name)
    assert (dag["max_active_runs"], dag["catchup"], dag["schedule"]) == (1, False, suite.schedule)
    assert dag["params"]["experiments"]["items"]["enum"] == [choice.experiment for choice in suite.experiments]
    assert dag["params"]["deadline_hours"]["maximum"] == 24


@pytest.mark.parametrize("name", suites.suite_names())
def test_machines_are_a_setup_with_its_teardown(name: str, wired: dict[str, Any]) -> None:
    tasks, suite = wired["dags"][f"nightly.{name}"]["tasks"], suites.load_suite(name)
    for choice in suite.experiments:
        group = choice.experiment.replace("/", "_")
        assert tasks[f"{group}.provision"]["setup"] and tasks[f"{group}.release"]["teardown"]


@pytest.mark.parametrize("name", suites.suite_names())
def test_one_after_the_other_whatever_became_of_the_one_before(name: str, wired: dict[str, Any]) -> None:
    tasks = wired["dags"][f"nightly.{name}"]["tasks"]
    before = "open_night"
    for choice in suites.load_suite(name).experiments:
        group = choice.experiment.replace("/", "_")
        assert tasks[f"{group}.begin"]["rule"] == "all_done" and before in tasks[f"{group}.begin"]["up"]
        assert tasks[f"{group}.conclude"]["rule"] == "all_done"
        assert f"{group}.report" in tasks[f"{group}.conclude"]["up"], "the watcher does not wait for what it watches"
        before = f"{group}.conclude"
    assert tasks["close_night"]["rule"] == "all_done" and before in tasks["close_night"]["up"]


@pytest.mark.parametrize("name", suites.suite_names())
def test_what_is_found_is_seen_after_it_was_told(name: str, wired: dict[str, Any]) -> None:
    tasks = wired["dags"][f"nightly.{name}"]["tasks"]
    assert tasks["fail_on_regression"]["up"] == ["post_findings"] and tasks["post_findings"]["up"] == ["close_night"]
    assert {"open_night", "close_night", "post_findings", "fail_on_regression"} <= set(tasks["watcher"]["up"])
    assert tasks["watcher"]["rule"] == "one_failed"
    assert tasks["release_testbed"]["teardown"], "also where somebody ends the DAG run"


def night(
    home: Path, tmp_path: Path, testbed: str, hours: float = 10.0, **more: str
) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The state of the DAG run, the record, and the environment that it ran in."""
    (tmp_path / "suites").mkdir(exist_ok=True)
    (tmp_path / "suites" / "try.yaml").write_text(SUITE % testbed)
    own = {"HOME": home, "STATE": tmp_path / "state", "RESULTS": tmp_path / "results"}
    env = {**os.environ, **{f"BAROGRAPH_{name}": str(path) for name, path in own.items()}}
    env = environment(home / "airflow", {**env, "BAROGRAPH_SPARK_MASTER": "local[1]", "BAROGRAPH_WEBHOOK": "", **more})
    env |= alone("nightly.try")
    argv = [sys.executable, "-c", NIGHT, str(tmp_path / "suites"), str(hours)]
    done = subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True)
    said = [line for line in done.stdout.splitlines() if line.startswith("state ")]
    assert said, done.stdout[-3000:] + done.stderr[-3000:]
    records = sorted((tmp_path / "results" / "nightly" / "try" / "nights").glob("*.json"))
    assert records, done.stdout[-3000:] + done.stderr[-3000:]
    return said[-1].removeprefix("state "), json.loads(records[-1].read_text()), env


@pytest.mark.spark
def test_a_whole_night_through_airflow(home: Path, spark_variables: dict[str, str], tmp_path: Path) -> None:
    """Of a suite on the simulated testbed, whose runs and analysis are all real."""
    state, record, env = night(home, tmp_path, "simulated", **spark_variables)
    assert state.endswith("success"), record
    assert [each["status"] for each in record["experiments"]] == ["complete", "deadline"]
    assert record["status"] == "partial" and "takes about" in record["experiments"][1]["reason"]
    values = record["experiments"][0]["variants"]["stela"]["throughput_after"]["e1"]["values"]
    assert len(values) == 1 and values[0] > 0
    results = Path(env["BAROGRAPH_RESULTS"])
    series = results / record["experiments"][0]["series"]
    run = json.loads((series / "runs" / "stela-r1" / "run.json").read_text())
    assert run["status"] == "complete" and run["harness_facts"]["simulated"]["costs"]
    assert "Simulated, not measured: " in (series / "report.html").read_text()
    assert list(results.glob("long/ten_jobs/*")) == []
    (page,) = (results / "nightly" / "try" / "nights").glob("*.html")
    for file in (page, page.parents[1] / "index.html"):
        assert "Simulated, not measured: " in file.read_text()
    state_dir = Path(env["BAROGRAPH_STATE"])
    assert [*state_dir.glob("leases/*.json"), *state_dir.glob("nights/*.json")] == []


# Shorter: the second experiment of the whole night.
@pytest.mark.long
def test_a_deadline_skips_and_is_no_failure(home: Path, tmp_path: Path) -> None:
    state, record, env = night(home, tmp_path, "fake", hours=0.02)
    assert [each["status"] for each in record["experiments"]] == ["deadline", "deadline"]
    assert record["status"] == "failed" and state.endswith("success"), "nothing was measured, and nobody failed"
    results = Path(env["BAROGRAPH_RESULTS"])
    assert list(results.glob("small/*/*")) == [] and (results / "nightly" / "try" / "index.html").is_file()
