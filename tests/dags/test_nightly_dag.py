"""A whole night by real Airflow, simulated; what hangs on what in its DAG: test_dag_integrity.py."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph.airflow_environment import environment
from barograph.settings import ROOT
from tests.dags.fake_runs import alone

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
