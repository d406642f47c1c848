"""Which page a DAG run has: its report, how far it is, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dags.costs import usd
from dags.nights.tonight import Entry, Tonight
from dags.plugin.seen import Made, SeriesSeen
from dags.terminal.story import Story, hours, minutes
from dags.terminal.view import WORDS

AGAIN_S = 5
LOOKS_AGAIN = f"This page looks again every {AGAIN_S} s."


@dataclass(frozen=True)
class Go:
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


def unopened(made: Made) -> Page:
    """Of a DAG run that has not opened anything."""
    return Page("No report", _meta(made), _why_unopened(made), again_s=AGAIN_S if _may_open(made) else None)


def _may_open(made: Made) -> bool:
    return made.task is not None and made.active and made.task_state not in ("failed", "upstream_failed")


def _why_unopened(made: Made) -> tuple[str, ...]:
    if made.task is None:
        return (f"Runs of {made.dag_id} measure nothing, so they have no report.",)
    if _may_open(made):
        waits = "is waiting for its turn" if made.state == "queued" else "has not opened its series yet"
        return (f"This run {waits}.", LOOKS_AGAIN)
    return (
        f"This run ended before it opened a series: its task {made.task} is {made.task_state or 'not done'}.",
        "Its log says why; often an answer in the trigger form cannot be run, or another series has the testbed.",
    )


def elsewhere(made: Made, root: str) -> Page:
    """Of a series that these results do not have."""
    where = f"What it made is {made.opened}. These pages show {root}: start Airflow with the BAROGRAPH_RESULTS of then."
    return Page("No report here", _meta(made), ("This run put its results in another place.", where))


def removed(made: Made, name: str) -> Page:
    return Page("No report any more", _meta(made), (f"The folder {name} of the results was removed, or damaged.",))


def of_series(made: Made, seen: SeriesSeen, now_s: float) -> Go | Page:
    finished = seen.story is None or seen.story.report is not None
    if seen.report and seen.fresh and (finished or not made.active):
        return Go(seen.report)
    if made.active:
        return _under_way(made, seen, now_s)
    return _without_report(made, seen)


def _under_way(made: Made, seen: SeriesSeen, now_s: float) -> Page:
    story = seen.story
    facts = () if story is None else _facts(story, now_s)
    return Page(
        seen.title,
        _meta(made, seen.name),
        ("This run is under way.", LOOKS_AGAIN),
        facts,
        () if story is None else story.throughput,
        *_done(story),
        _last_notes(story),
        _report_links(seen, "The report of the runs until now"),
        AGAIN_S,
    )


def _facts(story: Story, now_s: float) -> tuple[tuple[str, str], ...]:
    since_s = now_s if story.phase_since_s is None else story.phase_since_s
    newest = story.throughput[-1] if story.throughput else None
    facts = [
        ("phase", f"{WORDS.get(story.phase, story.phase)}, for {minutes(max(0.0, now_s - since_s))}"),
        ("run", story.run_id or "–"),
        ("throughput", "–" if newest is None else f"{newest:.0f} tuples/s"),
        ("runs", f"{len(story.done)} of {story.runs} done, about {hours(story.time_left_s(now_s))} left"),
    ]
    if story.money is not None:
        facts.append(("money", f"{usd(story.money[0])} of {usd(story.money[1])}"))
    return tuple(facts)


def _without_report(made: Made, seen: SeriesSeen) -> Page:
    done = 0 if seen.story is None else sum(status == "complete" for _, status in seen.story.done)
    kept = f"Complete and kept: {done} run{'s' if done > 1 else ''}." if done else "No run is complete."
    return Page(
        seen.title,
        _meta(made, seen.name),
        (
            "This run ended without a report.",
            *_failed(made),
            f"{kept} The same request again goes on with this series.",
        ),
        (),
        (),
        *_done(seen.story),
        tuple(_failure(line) for line in seen.failures) or _last_notes(seen.story),
        _report_links(seen, "The report of an earlier run of this series"),
    )


def _failed(made: Made) -> tuple[str, ...]:
    if not made.failed:
        return ()
    word, whose = ("Task", "its log says") if len(made.failed) == 1 else ("Tasks", "their logs say")
    return (f"{word} {', '.join(made.failed)} failed; {whose} why.",)


def _failure(line: Mapping[str, Any]) -> str:
    where = f"{line['run_id']}: " if line.get("run_id") else ""
    return f"{where}{line['blame']}: {line['message']}"


def _done(story: Story | None) -> tuple[tuple[str, ...], tuple[tuple[str | Link, ...], ...]]:
    return (("run", "status"), story.done) if story is not None and story.done else ((), ())


def _last_notes(story: Story | None) -> tuple[str, ...]:
    return () if story is None else story.notes[-12:]


def _report_links(seen: SeriesSeen, text: str) -> tuple[Link, ...]:
    return (Link(seen.report, text),) if seen.report else ()


def of_night(
    made: Made, suite: str, report: str | None, tonight: Tonight | None, reports: Collection[str]
) -> Go | Page:
    """`report`: its page below the results; `tonight`: the night, until it is on record; `reports`: those of series."""
    if report is not None:
        return Go(report)
    title, meta = f"Night {made.opened} of {suite}", _meta(made)
    again_s = AGAIN_S if made.active else None
    if tonight is not None:
        rows = tuple(_of_entry(entry, reports) for entry in tonight.experiments)
        return Page(
            title, meta, _night_sentences(made), headings=("experiment", "status", "why"), rows=rows, again_s=again_s
        )
    if made.active:
        return Page(title, meta, ("The night's page is being written.", LOOKS_AGAIN), again_s=again_s)
    return Page(title, meta, ("This night has no page in these results.",))


def _of_entry(entry: Entry, reports: Collection[str]) -> tuple[str | Link, ...]:
    report = f"{entry.series}/report.html"
    named: str | Link = Link(report, entry.experiment) if report in reports else entry.experiment
    return named, entry.status, entry.reason or "–"


def _night_sentences(made: Made) -> tuple[str, ...]:
    if made.active:
        return ("The night is under way.", LOOKS_AGAIN)
    return ("This run ended before its night was put on record; the suite's next night does that.",)


def _meta(made: Made, *more: str) -> str:
    return " · ".join([*more, f"DAG run {made.run_id}", made.state, "Barograph"])


def sparks(values: Sequence[float | None], width: float, height: float) -> list[str]:
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
