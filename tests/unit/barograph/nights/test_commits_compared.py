"""What a search does of each commit: built, asked, compared with GOOD by a series of its own on fakes, and judged.

The analysis is by hand; tests/dags/test_bisect_on_fakes.py has Airflow and Spark too.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from analysis.compare.question import read_question
from analysis.compare.result import RESULT
from analysis.record.files import read_json
from barograph.campaign.steps import do_run
from barograph.cli import bisect as command
from barograph.compare import record, stopping
from barograph.compare.difference import VariantMetric
from barograph.compare.stopping import InterimAnswer
from barograph.nights import bisection
from barograph.nights.bisection import Bisection, BisectionRequest, FirstBad
from barograph.series.series import Series, read_series
from barograph.settings import results_root
from tests.support.repositories import Repository, with_plugins

ABOUT = VariantMetric("stela", "throughput_after", "e1")
FILE = "scheduler_plugins/policies/stela.py"
pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = with_plugins(tmp_path / "here")
    monkeypatch.setattr("barograph.code.git.ROOT", made.folder)
    monkeypatch.setattr("barograph.airflow_environment.prepare", lambda _home: False)
    monkeypatch.setattr(stopping, "run_interim_analysis", lambda _folder: InterimAnswer(True, "narrow enough", ""))
    return made


def commit(here: Repository, subject: str, last_line: str = "") -> str:
    text = (here.folder / FILE).read_text()
    return here.commit({FILE: f"{text}# {subject}\n{last_line}"}, subject)


def carried_out(slow: str) -> Callable[[Series, Console, object], int]:
    """All runs on fakes, and what the analysis would say if that commit lost a fifth of the throughput."""

    def carry_out(series: Series, _console: Console, _ending: object) -> int:
        while do_run(series.folder) is not None:
            pass
        value = -20.0 if read_question(series.folder).b.commit == slow else 1.0
        row = {
            "pair": "stela", "metric": ABOUT.metric, "event": ABOUT.event, "unit": "%", "blocks": 3,
            "difference": value, "low": value - 2, "high": value + 2, "verdict": "worse" if value < 0 else "undecided",
        }  # fmt: skip
        (series.folder / RESULT).write_text(json.dumps({"rows": [row]}))
        return 0

    return carry_out


def test_each_commit_is_compared_with_good_and_what_cannot_be_is_passed_over(
    here: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = here.git("rev-parse", "HEAD")
    well = commit(here, "well")
    broken = commit(here, "broken", "raise RuntimeError('half merged')\n")
    mended = (here.folder / FILE).read_text().replace("raise RuntimeError('half merged')\n", "")
    slow = here.commit({FILE: mended}, "slow")
    monkeypatch.setattr(command, "carry_out", carried_out(slow))
    asked, console = (
        BisectionRequest("stela/star", ABOUT, good, "main", blocks=4, testbed="fake"),
        Console(file=io.StringIO()),
    )
    assert command.bisect(asked, console, repository=here.folder) == 0
    search = bisection.newest_bisection(command.check_request(asked, here.folder))
    assert search is not None and search.reference is not None and search.reference.value == -20.0
    probes = {probe.commit: probe for probe in search.probes}
    assert {name: probe.verdict for name, probe in probes.items()} == {well: "good", broken: "skip"}
    assert "half merged" in probes[broken].reason and probes[broken].series == ""
    found = search.next()
    assert isinstance(found, FirstBad) and [each.subject for each in search.commits[found.first : found.last + 1]] == [
        "broken", "slow",
    ]  # fmt: skip
    _require_own_series(search, probes[well].series)


def _require_own_series(search: Bisection, well: str) -> None:
    """Stopped as soon as the one metric that is looked at can tell; the halves are those of the reference."""
    folders = [results_root() / name for name in (search.reference_series, well)]
    halves = [read_json(folder / "comparison.json")["bisecting"]["half_width"] for folder in folders]
    assert halves == [5.0, 10.0] and search.pending is None
    for folder in folders:
        series, enough = read_series(folder), record.sufficiency(folder)
        assert len(series.complete()) == 6 and enough is not None and enough["why"] == "certain"
