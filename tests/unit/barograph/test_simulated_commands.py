"""`barograph compare`, `bisect` and `nightly` on the simulated testbed, whole: real commits, runs and analyses."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analysis.compare.result import PAGE, RESULT
from analysis.record.files import read_json
from barograph import cli
from barograph.cli import bisect, nightly
from barograph.compare.difference import VariantMetric
from barograph.nights.bisection import BisectionRequest
from barograph.nights.suite import Choice, Suite
from barograph.settings import results_root
from tests.support.repositories import Repository, with_plugins
from tests.unit.barograph.run.test_code_of_simulated_runs import POLICIES, STILL

EXPERIMENT = "small/star"
TRUST = "Simulated, not measured: no machine and no Storm ran. "  # what is said of its errors: report/test_simulated.py
# The same through Airflow: tests/dags/test_dags_on_the_simulator.py, test_nightly_dag.py; commits of simulated runs:
# run/test_code_of_simulated_runs.py; the search: nights/test_bisection.py; commands on a stubbed analysis: nights/.
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.usefixtures("own_folders")]


@pytest.fixture(autouse=True)
def one_jvm(spark_variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For the processes that these commands start."""
    for name, value in {**spark_variables, "BAROGRAPH_SPARK_MASTER": "local[1]", "BAROGRAPH_WEBHOOK": ""}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """`still`, in which nothing moves at a scale-out, and `main` after it, which is this work tree's."""
    made = with_plugins(tmp_path / "here")
    as_it_is = (made.folder / POLICIES).read_text()
    made.commit({POLICIES: as_it_is + STILL}, "nothing moves")
    made.git("branch", "still")
    made.commit({POLICIES: as_it_is}, "as it is again")
    monkeypatch.setattr("barograph.code.git.ROOT", made.folder)
    return made


def of(rows: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    (row,) = (row for row in rows if row["metric"] == metric)
    return row


def test_two_commits_are_compared(here: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["compare", "still", "main", "--experiment", EXPERIMENT, "--variants", "stela", "--testbed", "simulated"]
    assert cli.main(argv) == 0, capsys.readouterr()
    said = capsys.readouterr().out
    (series,) = results_root().glob("compare/small_star/*")
    result = read_json(series / RESULT)
    assert result["simulated"] and result["sentence"].startswith(
        "The model gives of main against still, over 3 seeds: "
    )
    assert result["sentence"] in said
    downtime = of(result["rows"], "downtime_s")
    assert downtime["a"] == 0.0 < downtime["b"] and downtime["verdict"] == "no verdict", "who moves stands still"
    assert (
        of(result["rows"], "throughput_before")["lowest"] == 0.0 == of(result["rows"], "throughput_before")["highest"]
    )
    assert TRUST in (series / PAGE).read_text()


def test_the_commit_that_moves_is_found(here: Repository) -> None:
    about = VariantMetric("stela", "downtime_s", "e1")
    request = BisectionRequest(EXPERIMENT, about, "still", "main", blocks=3, testbed="simulated")
    console = Console(file=io.StringIO(), width=200)
    assert bisect.bisect(request, console, repository=here.folder) == 0
    said = console.file.getvalue()  # type: ignore[attr-defined] # the StringIO above
    assert f"first bad commit {here.git('rev-parse', 'main')[:10]} “as it is again”" in said
    (page,) = results_root().glob("bisect/*/index.html")
    assert TRUST in page.read_text()


def test_a_night(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = Suite("try", "A small star", None, "simulated", 1.0, (Choice(EXPERIMENT, ("stela",)),))
    monkeypatch.setattr(nightly, "load_suite", lambda _name: suite)
    assert cli.main(["nightly", "try"]) == 0
    (record,) = map(read_json, results_root().glob("nightly/try/nights/*.json"))
    (measured,) = record["experiments"]
    assert (record["testbed"], measured["status"], measured["reason"]) == ("simulated", "complete", "")
    values = measured["variants"]["stela"]["throughput_before"]["e1"]["values"]
    assert len(values) == 1 and values[0] > 0.0
    (page,) = results_root().glob("nightly/try/nights/*.html")
    assert TRUST in page.read_text()
