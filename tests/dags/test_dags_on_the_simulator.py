"""The DAGs of an experiment and of a comparison on the simulated testbed, from the form's answers to the report.

That of a night: test_nightly_dag.py."""

import json
from pathlib import Path

import pytest

from analysis.record.files import read_json
from barograph.settings import ROOT
from tests.dags.fake_runs import alone, leases, statuses
from tests.dags.test_compare_on_fakes import compared, from_the_form, python

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]  # a busy box is slow
FORM = """
import json, sys
from dags.experiments import small_star
print("state:", small_star.test(run_conf=json.loads(sys.argv[1])).state)
"""
SAID = "Simulated, not measured: "


# Shorter: a night, which has an experiment's steps, and test_same_record.py.
@pytest.mark.long
def test_an_experiment(airflow: dict[str, str]) -> None:
    answers = {"testbed": "simulated", "variants": ["stela"], "repetitions": 2, "options": {"seed": 7}}
    done = python({**airflow, **alone("small.star")}, "-c", FORM, json.dumps(answers))
    assert "state: success" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    (series,) = Path(airflow["BAROGRAPH_RESULTS"]).glob("small/star/*")
    assert statuses(series) == {"stela-r1": "complete", "stela-r2": "complete"}
    facts = read_json(series / "runs" / "stela-r2" / "run.json")["harness_facts"]
    assert facts["simulated"]["seed"] == 7 and facts["simulated"]["costs"]
    assert SAID in (series / "report.html").read_text()
    assert leases(airflow) == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="commits are compared")
def test_a_comparison(airflow: dict[str, str], tmp_path: Path) -> None:
    """Of a commit with itself: the same seeds give the same runs on both sides, up to the order of Spark's sums."""
    done = from_the_form(airflow, tmp_path, {"testbed": "simulated"})
    assert "state: success" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    (series,) = compared(airflow)
    assert set(statuses(series).values()) == {"complete"} and len(statuses(series)) == 6
    result = read_json(series / "comparison_result.json")
    assert result["simulated"] and {row["verdict"] for row in result["rows"]} == {"no verdict"}
    known = [row for row in result["rows"] if row["a"] is not None]
    differences = {
        row["metric"]: (row["a"], row["b"]) for row in known if row["a"] != pytest.approx(row["b"], rel=1e-12)
    }
    assert known and not differences
    assert SAID in (series / "comparison.html").read_text()
    assert leases(airflow) == []
