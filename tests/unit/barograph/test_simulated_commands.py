"""`barograph compare`, `bisect` and `nightly` on the simulated testbed, whole: real commits, runs and analyses."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from barograph.cli import bisect
from barograph.compare.difference import VariantMetric
from barograph.nights.bisection import BisectionRequest
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


def test_the_commit_that_moves_is_found(here: Repository) -> None:
    about = VariantMetric("stela", "downtime_s", "e1")
    request = BisectionRequest(EXPERIMENT, about, "still", "main", blocks=3, testbed="simulated")
    console = Console(file=io.StringIO(), width=200)
    assert bisect.bisect(request, console, repository=here.folder) == 0
    said = console.file.getvalue()  # type: ignore[attr-defined] # the StringIO above
    assert f"first bad commit {here.git('rev-parse', 'main')[:10]} “as it is again”" in said
    (page,) = results_root().glob("bisect/*/index.html")
    assert TRUST in page.read_text()
