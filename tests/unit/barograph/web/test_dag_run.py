"""The tab of a DAG run: the report, how far it is, or why there is none."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.nights.night_state import Night, NightEntry
from barograph.plan.blocks import plan_runs
from barograph.plan.experiment import load, with_changes
from barograph.web import pages, run_page
from barograph.web.run_page import DagRunFacts, Page, Redirection, page_of_dag_run, result_folder

BEGUN = 1_795_000_000.0
RUN = DagRunFacts("stela.star", "manual__1", "running", BEGUN, None, True, None)
NAME = "stela/star/20261118-110640-a1b2c3d4"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def series(root: Path) -> Path:
    """Two runs to do; the first is done, the second is under way."""
    folder = root / NAME
    (folder / "runs").mkdir(parents=True)
    experiment = with_changes(load("stela/star"), {"testbed": "fake", "repetitions": 1})
    runs = [run.run_id for run in plan_runs(experiment)]
    document = {"v": 1, "series_id": folder.name, "experiment": "stela/star", "spec": experiment.as_data(),
                "runs": runs, "opened_s": BEGUN}  # fmt: skip
    (folder / "series.json").write_text(json.dumps(document))
    told(folder, BEGUN - 900, kind="run_failed", run_id="stela-r1", blame="harness", message="of before", again=False)
    told(folder, BEGUN + 1, kind="phase", phase="deploy", expected_s=45)
    told(folder, BEGUN + 2, kind="run_started", run_id=runs[0])
    told(folder, BEGUN + 90, kind="run_ended", run_id=runs[0], status="complete")
    told(folder, BEGUN + 91, kind="run_started", run_id=runs[1])
    told(folder, BEGUN + 92, kind="phase", run_id=runs[1], phase="warm_up", expected_s=45)
    told(folder, BEGUN + 93, kind="throughput", run_id=runs[1], per_s=None)
    for second, rate in enumerate((200.0, 210.0), 94):
        told(
            folder,
            BEGUN + second,
            kind="throughput",
            run_id=runs[1],
            per_s=rate,
            by_topology={"a": 9.6, "b": rate - 10},
        )
    return folder


def told(folder: Path, t: float, **line: Any) -> None:
    with (folder / "progress.jsonl").open("a") as file:
        file.write(json.dumps({"t": t, **line}) + "\n")


def opened(series: Path, **changes: Any) -> DagRunFacts:
    return replace(RUN, result=str(series), **changes)


def with_report(series: Path, name: str = "report.html", written_s: float = BEGUN + 200) -> None:
    (series / name).write_text("<p>report")
    os.utime(series / name, (written_s, written_s))


def page_of(root: Path, made: DagRunFacts) -> Page:
    page = page_of_dag_run(root, made)
    assert isinstance(page, Page)
    return page


def test_a_run_under_way_shows_how_far_it_is_and_looks_again(root: Path, series: Path) -> None:
    page = page_of(root, opened(series))
    assert page.reload_s == run_page.RELOAD_S
    facts = dict(page.facts)
    assert facts["runs"].startswith("1 of 2 done") and facts["throughput"] == "210 tuples/s (a 10, b 200)"
    assert facts["phase"].startswith("warming up until steady")
    assert len(page.rows) == 1 and page.rows[0][1] == "complete"
    html = pages.run_html(page)
    assert 'http-equiv="refresh" content="5"' in html and "<polyline" in html and "of before" not in html


def test_the_report_once_there_is_one(root: Path, series: Path) -> None:
    with_report(series)
    assert page_of_dag_run(root, opened(series, state="success", ended_s=BEGUN + 210)) == Redirection(
        f"{NAME}/report.html"
    )


def test_a_comparison_shows_its_answer(root: Path, series: Path) -> None:
    with_report(series)
    with_report(series, "comparison.html")
    assert page_of_dag_run(root, opened(series, state="success", ended_s=BEGUN + 210)) == Redirection(
        f"{NAME}/comparison.html"
    )


def test_a_report_between_two_blocks_is_offered_and_the_last_one_is_shown(root: Path, series: Path) -> None:
    with_report(series)
    page = page_of(root, opened(series))
    assert [link.name for link in page.links] == [f"{NAME}/report.html"]
    told(series, BEGUN + 201, kind="report", path=str(series / "report.html"))
    assert page_of_dag_run(root, opened(series)) == Redirection(f"{NAME}/report.html")


def test_a_report_of_before_is_not_shown_as_this_runs(root: Path, series: Path) -> None:
    with_report(series, written_s=BEGUN - 3600)
    told(
        series,
        BEGUN + 100,
        kind="run_failed",
        run_id="stela-r1",
        blame="infrastructure",
        message="m2 is gone",
        again=False,
    )
    page = page_of(root, opened(series, state="failed", ended_s=BEGUN + 110))
    assert page.sentences[0] == "This run ended without a report." and page.reload_s is None
    assert page.notes == ("stela-r1: infrastructure: m2 is gone",)
    assert page.links[0].text == "The report of an earlier run of this series"


def test_the_tasks_that_failed_are_named(root: Path, series: Path) -> None:
    page = page_of(root, opened(series, state="failed", ended_s=BEGUN + 110, failed=("analyse",)))
    assert page.sentences[1] == "Task analyse failed; its log says why."
    assert page.sentences[2] == "Complete and kept: 1 run. The same request again goes on with this series."


def test_the_first_step_that_failed_is_the_reason_and_not_what_followed(root: Path, series: Path) -> None:
    told(series, BEGUN + 98, kind="step_failed")  # a damaged line
    told(series, BEGUN + 99, kind="step_failed", blame="capacity", message="testbed local is in use")
    told(series, BEGUN + 100, kind="step_failed", blame="harness", message="the series has no record yet")
    page = page_of(root, opened(series, state="failed", ended_s=BEGUN + 110))
    assert page.notes == ("capacity: testbed local is in use",)


def test_what_a_later_run_of_the_series_did_is_not_this_runs(root: Path, series: Path) -> None:
    told(series, BEGUN + 999, kind="run_failed", run_id="stela-r1", blame="harness", message="of later", again=False)
    page = page_of(root, opened(series, state="failed", ended_s=BEGUN + 110))
    assert "of later" not in pages.run_html(page)


@pytest.mark.parametrize(
    ("made", "said", "again"),
    [
        (replace(RUN, measures=False), "measure nothing", False),
        (replace(RUN, state="queued"), "waiting for its turn", True),
        (RUN, "has not opened its series yet", True),
        (replace(RUN, state="failed", failed=("open_series",)), "Task open_series failed", False),
        (replace(RUN, failed=("open_series",)), "before it opened a series", False),
        (replace(RUN, result="/elsewhere/stela/star/s1"), "in another place", False),
        (replace(RUN, result="{root}/stela/star/gone"), "was removed", False),
    ],
)  # fmt: skip
def test_why_there_is_none(root: Path, made: DagRunFacts, said: str, again: bool) -> None:
    made = replace(made, result=made.result.replace("{root}", str(root)) if made.result else None)
    page = page_of(root, made)
    assert said in " ".join(page.sentences) and (page.reload_s is not None) is again
    assert said in pages.run_html(page)


def test_an_answer_of_a_task_leads_nowhere_outside(root: Path) -> None:
    """Whoever may write an XCom chooses it."""
    assert result_folder(root, replace(RUN, result="/etc")) is None
    assert result_folder(root, replace(RUN, result=f"{root}/../..")) is None
    assert result_folder(root, replace(RUN, result=str(root / NAME))) == NAME


NIGHT = DagRunFacts("nightly.quick", "scheduled__1", "running", BEGUN, None, True, "20261118-020000")
TONIGHT = Night(
    "20261118-020000", "quick", "fake", BEGUN, BEGUN + 3600, None, None, None, "f",
    experiments=(NightEntry("stela/star", "f", "complete", "", NAME), NightEntry("stela/linear", "f", "begun")),
)  # fmt: skip


def test_a_night_under_way_and_its_page(root: Path, series: Path) -> None:
    with_report(series)
    reports = {f"{NAME}/report.html"}
    page = run_page.page_of_night(NIGHT, "quick", None, TONIGHT, reports)
    assert isinstance(page, Page) and page.reload_s
    assert [row[1] for row in page.rows] == ["complete", "begun"]
    assert f'href="files/{NAME}/report.html"' in pages.run_html(page)
    done = root / "nightly" / "quick" / "nights"
    done.mkdir(parents=True)
    (done / "20261118-020000.html").write_text("<p>night")
    assert page_of_dag_run(root, NIGHT) == Redirection("nightly/quick/nights/20261118-020000.html")


def test_a_night_that_left_nothing(root: Path) -> None:
    assert "has no page" in page_of(root, replace(NIGHT, state="failed")).sentences[0]
    assert result_folder(root, NIGHT) == "nightly/quick"


def test_names_in_pages_are_escaped(root: Path) -> None:
    page = page_of(root, replace(RUN, run_id="<script>x()</script>", result="/elsewhere/<b>"))
    assert "<script>" not in pages.run_html(page) and "<b>" not in pages.run_html(page)
    assert pages.href("a b/ü.html") == "files/a%20b/%C3%BC.html"
