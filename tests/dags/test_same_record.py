"""A DAG maps the steps that `barograph run` does one after the other: what they leave is the same."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph.airflow_environment import environment
from barograph.settings import ROOT
from tests.dags.fake_runs import alone, leases, progress, series_of

pytestmark = pytest.mark.timeout(1200)  # a busy box is slow
CHANGES = {"testbed": "fake", "repetitions": 1, "seed": 7}
DAG = """
import json, sys
from dags.experiments import stela_star
print("state:", stela_star.test(run_conf=json.loads(sys.argv[1])).state)
"""
COMMAND = """
import json, os, sys
from barograph.campaign import execution
from barograph.plan.experiment import load, with_changes
from barograph.series.series import open_series
from tests.dags.no_analysis import arrange
arrange()
series = open_series(with_changes(load("stela/star"), json.loads(sys.argv[1])))
sys.exit(execution.main([str(series.folder), sys.argv[2]]))
"""


def record(world: dict[str, str]) -> dict[str, Any]:
    """What is left of the only series, without what is another whenever it is measured."""
    (series,) = series_of(world)
    runs = {path.parent.name: json.loads(path.read_text()) for path in sorted(series.glob("runs/*/run.json"))}
    phases = [line["phase"] for line in progress(series) if line["kind"] == "phase"]
    return {
        "phases": [phase for phase in phases if phase != "start"],
        "files": sorted(path.relative_to(series).as_posix() for path in series.glob("runs/*/*")),
        "runs": {name: (run["status"], run["order"], sorted(run), run["spec"]) for name, run in runs.items()},
        "events": {
            path.parent.name: [json.loads(line)["kind"] for line in path.read_text().splitlines()]
            for path in sorted(series.glob("runs/*/events.jsonl"))
        },
        "page": (series / "report.html").read_text(),
    }


def test_a_dag_and_a_command_leave_the_same_record(unanalysed: dict[str, str], tmp_path: Path) -> None:
    asked = json.dumps(CHANGES)
    by_dag = {**environment(Path(unanalysed["BAROGRAPH_HOME"]) / "airflow", unanalysed), **alone("stela.star")}
    done = subprocess.run([sys.executable, "-c", DAG, asked], cwd=ROOT, env=by_dag, capture_output=True, text=True)
    assert "state: success" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    by_command = {**unanalysed, "BAROGRAPH_RESULTS": str(tmp_path / "others")}
    argv = [sys.executable, "-c", COMMAND, asked, str(os.getpid())]
    done = subprocess.run(argv, cwd=ROOT, env=by_command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert record(unanalysed) == record(by_command)
    assert record(by_command)["phases"][-2:] == ["release", "analyse"] and leases(unanalysed) == []
