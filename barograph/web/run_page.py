"""The page of a DAG run: a redirection to its report, how far it is, or why there is no report.

Pure, except for the two functions at the end, which look for the run's series or night below the results.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.nights import night_state
from barograph.nights.night_state import Night, NightEntry
from barograph.plan.costs import usd
from barograph.series.status import PHASE_WORDS, SeriesStatus, hours, minutes
from barograph.web import result_files
from barograph.web.dag_run import DagRunFacts, SeriesProgress, series_progress
from barograph.web.result_files import NIGHTS

RELOAD_S = 5
RELOAD_SENTENCE = f"This page looks again every {RELOAD_S} s."


@dataclass(frozen=True)
class Redirection:
    """To a file below the results."""

    name: str


@dataclass(frozen=True)
class Link:
    name: str  # of a file below the results
    text: str


@dataclass(frozen=True)
class Page:
    title: str
    meta: str
    sentences: tuple[str, ...]
    facts: tuple[tuple[str, str], ...] = ()
    throughput: tuple[float | None, ...] = ()
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str | Link, ...], ...] = ()
    notes: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    again_s: int | None = None


def page_without_series(made: DagRunFacts) -> Page:
    """Of a DAG run that has not opened anything."""
    return Page("No report", _meta(made), _why_no_series(made), again_s=RELOAD_S if _may_open_series(made) else None)


def _may_open_series(made: DagRunFacts) -> bool:
    return made.task is not None and made.active and made.task_state not in ("failed", "upstream_failed")


def _why_no_series(made: DagRunFacts) -> tuple[str, ...]:
    if made.task is None:
        return (f"Runs of {made.dag_id} measure nothing, so they have no report.",)
    if _may_open_series(made):
        waits = "is waiting for its turn" if made.state == "queued" else "has not opened its series yet"
        return (f"This run {waits}.", RELOAD_SENTENCE)
    return (
        f"This run ended before it opened a series: its task {made.task} is {made.task_state or 'not done'}.",
        "Its log says why; often an answer in the trigger form cannot be run, or another series has the testbed.",
    )


def page_of_other_results(made: DagRunFacts, root: str) -> Page:
    """Of a series that these results do not have."""
    where = f"What it made is {made.opened}. These pages show {root}: start Airflow with the BAROGRAPH_RESULTS of then."
    return Page("No report here", _meta(made), ("This run put its results in another place.", where))


def page_of_missing_series(made: DagRunFacts, name: str) -> Page:
    return Page("No report any more", _meta(made), (f"The folder {name} of the results was removed, or damaged.",))


def page_of_series(made: DagRunFacts, seen: SeriesProgress, now_s: float) -> Redirection | Page:
    finished = seen.story is None or seen.story.report is not None
    if seen.report and seen.fresh and (finished or not made.active):
        return Redirection(seen.report)
    if made.active:
        return _progress_page(made, seen, now_s)
    return _failure_page(made, seen)


def _progress_page(made: DagRunFacts, seen: SeriesProgress, now_s: float) -> Page:
    story = seen.story
    facts = () if story is None else _progress_facts(story, now_s)
    return Page(
        seen.title,
        _meta(made, seen.name),
        ("This run is under way.", RELOAD_SENTENCE),
        facts,
        () if story is None else story.throughput,
        *_run_table(story),
        _last_notes(story),
        _report_links(seen, "The report of the runs until now"),
        RELOAD_S,
    )


def _progress_facts(story: SeriesStatus, now_s: float) -> tuple[tuple[str, str], ...]:
    since_s = now_s if story.phase_since_s is None else story.phase_since_s
    newest = story.throughput[-1] if story.throughput else None
    facts = [
        ("phase", f"{PHASE_WORDS.get(story.phase, story.phase)}, for {minutes(max(0.0, now_s - since_s))}"),
        ("run", story.run_id or "–"),
        ("throughput", "–" if newest is None else f"{newest:.0f} tuples/s"),
        ("runs", f"{len(story.done)} of {story.runs} done, about {hours(story.time_left_s(now_s))} left"),
    ]
    if story.money is not None:
        facts.append(("money", f"{usd(story.money[0])} of {usd(story.money[1])}"))
    return tuple(facts)


def _failure_page(made: DagRunFacts, seen: SeriesProgress) -> Page:
    done = 0 if seen.story is None else sum(status == "complete" for _, status in seen.story.done)
    kept = f"Complete and kept: {done} run{'s' if done > 1 else ''}." if done else "No run is complete."
    return Page(
        seen.title,
        _meta(made, seen.name),
        (
            "This run ended without a report.",
            *_failed_tasks(made),
            f"{kept} The same request again goes on with this series.",
        ),
        (),
        (),
        *_run_table(seen.story),
        tuple(_failure_line(line) for line in seen.failures) or _last_notes(seen.story),
        _report_links(seen, "The report of an earlier run of this series"),
    )


def _failed_tasks(made: DagRunFacts) -> tuple[str, ...]:
    if not made.failed:
        return ()
    word, whose = ("Task", "its log says") if len(made.failed) == 1 else ("Tasks", "their logs say")
    return (f"{word} {', '.join(made.failed)} failed; {whose} why.",)


def _failure_line(line: Mapping[str, Any]) -> str:
    where = f"{line['run_id']}: " if line.get("run_id") else ""
    return f"{where}{line['blame']}: {line['message']}"


def _run_table(story: SeriesStatus | None) -> tuple[tuple[str, ...], tuple[tuple[str | Link, ...], ...]]:
    return (("run", "status"), story.done) if story is not None and story.done else ((), ())


def _last_notes(story: SeriesStatus | None) -> tuple[str, ...]:
    return () if story is None else story.notes[-12:]


def _report_links(seen: SeriesProgress, text: str) -> tuple[Link, ...]:
    return (Link(seen.report, text),) if seen.report else ()


def page_of_night(
    made: DagRunFacts, suite: str, report: str | None, tonight: Night | None, reports: Collection[str]
) -> Redirection | Page:
    """`report`: its page below the results; `tonight`: the night, until it is on record; `reports`: those of series."""
    if report is not None:
        return Redirection(report)
    title, meta = f"Night {made.opened} of {suite}", _meta(made)
    again_s = RELOAD_S if made.active else None
    if tonight is not None:
        rows = tuple(_entry_row(entry, reports) for entry in tonight.experiments)
        return Page(
            title, meta, _night_sentences(made), headings=("experiment", "status", "why"), rows=rows, again_s=again_s
        )
    if made.active:
        return Page(title, meta, ("The night's page is being written.", RELOAD_SENTENCE), again_s=again_s)
    return Page(title, meta, ("This night has no page in these results.",))


def _entry_row(entry: NightEntry, reports: Collection[str]) -> tuple[str | Link, ...]:
    report = f"{entry.series}/report.html"
    named: str | Link = Link(report, entry.experiment) if report in reports else entry.experiment
    return named, entry.status, entry.reason or "–"


def _night_sentences(made: DagRunFacts) -> tuple[str, ...]:
    if made.active:
        return ("The night is under way.", RELOAD_SENTENCE)
    return ("This run ended before its night was put on record; the suite's next night does that.",)


def _meta(made: DagRunFacts, *more: str) -> str:
    return " · ".join([*more, f"DAG run {made.run_id}", made.state, "Barograph"])


def sparkline_points(values: Sequence[float | None], width: float, height: float) -> list[str]:
    """Points of polylines through the values, scaled from 0 to the largest; a new line after each gap."""
    top = max((value for value in values if value is not None), default=0.0) or 1.0
    step = width / max(1, len(values) - 1)
    lines: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            lines[-1].append(f"{place * step:.1f},{height - value / top * height:.1f}")
    return [" ".join(line) for line in lines if line]


NIGHT_DAGS = "nightly."


def result_folder(root: Path, made: DagRunFacts) -> str | None:
    """The folder below the results that the run is about: of its series, or of its suite; None: there is none."""
    if made.opened is None:
        return None
    if made.dag_id.startswith(NIGHT_DAGS):
        return f"{NIGHTS}/{_suite(made)}"
    return result_files.name_of_folder(root, made.opened)


def page_of_dag_run(root: Path, made: DagRunFacts) -> Redirection | Page:
    if made.opened is None:
        return page_without_series(made)
    if made.dag_id.startswith(NIGHT_DAGS):
        return _page_of_night_run(root, made, made.opened)
    name = result_files.name_of_folder(root, made.opened)
    if name is None:
        return page_of_other_results(made, str(root))
    seen = series_progress(root, name, made)
    return page_of_missing_series(made, name) if seen is None else page_of_series(made, seen, time.time())


def _suite(made: DagRunFacts) -> str:
    return made.dag_id.removeprefix(NIGHT_DAGS)


def _page_of_night_run(root: Path, made: DagRunFacts, night: str) -> Redirection | Page:
    suite = _suite(made)
    page = f"{NIGHTS}/{suite}/nights/{night}.html"
    under_way = night_state.read_night(suite)
    if under_way is not None and under_way.id != night:
        under_way = None
    entries = under_way.experiments if under_way else ()
    named = (f"{entry.series}/report.html" for entry in entries if entry.series)
    reports = {report for report in named if result_files.find_file(root, report)}
    return page_of_night(made, suite, page if result_files.find_file(root, page) else None, under_way, reports)
