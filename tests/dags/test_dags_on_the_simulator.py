"""The DAGs of an experiment and of a comparison on the simulated testbed, from the form's answers to the report.

That of a night: test_nightly_dag.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.record.files import read_json
from barograph.airflow_environment import environment
from barograph.settings import ROOT
from tests.dags.fake_runs import alone, statuses

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]  # a busy box is slow
FORM = """
import importlib, json, sys
module, name, answers = sys.argv[1:]
dag = getattr(importlib.import_module(f"dags.{module}"), name)
print("state:", dag.test(run_conf=json.loads(answers)).state)
"""
SAID = "Simulated, not measured: "


def from_the_form(world: dict[str, str], module: str, name: str, **answers: object) -> str:
    """What the DAG run said; each field that is not answered has its default."""
    env = {**environment(Path(world["BAROGRAPH_HOME"]) / "airflow", world), **alone(name.replace("small_", "small."))}
    given = json.dumps({"testbed": "simulated", "variants": ["stela"], **answers})
    argv = [sys.executable, "-c", FORM, module, name, given]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert "state: success" in said, said[-5000:]
    assert [*Path(world["BAROGRAPH_STATE"]).glob("leases/*.json")] == []
    return said


def test_an_experiment(world: dict[str, str]) -> None:
    from_the_form(world, "experiments", "small_star", repetitions=2, options={"seed": 7})
    (series,) = Path(world["BAROGRAPH_RESULTS"]).glob("small/star/*")
    assert statuses(series) == {"stela-r1": "complete", "stela-r2": "complete"}
    facts = read_json(series / "runs" / "stela-r2" / "run.json")["harness_facts"]
    assert facts["simulated"]["seed"] == 7 and facts["simulated"]["costs"]
    assert SAID in (series / "report.html").read_text()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="commits are compared")
def test_a_comparison(world: dict[str, str]) -> None:
    """Of a commit with itself: the same seeds give the same runs on both sides, to the last digit."""
    from_the_form(world, "compare_branches", "compare_branches", a="HEAD", b="HEAD", experiment="small/star")
    (series,) = Path(world["BAROGRAPH_RESULTS"]).glob("compare/small_star/*")
    assert set(statuses(series).values()) == {"complete"} and len(statuses(series)) == 6
    result = read_json(series / "comparison_result.json")
    assert result["simulated"] and {row["verdict"] for row in result["rows"]} == {"no verdict"}
    known = [row for row in result["rows"] if row["a"] is not None]
    assert known and all(row["a"] == row["b"] for row in known)
    assert SAID in (series / "comparison.html").read_text()
