"""`barograph nightly SUITE`: one night from its first machine to what it found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from dags.errors import INTERRUPTED_EXIT, REGRESSION_EXIT, DagError, Interrupted, blame_of, message_of
from dags.nights import hold, night, outcome, told, tonight
from dags.nights.deadline import until_s
from dags.nights.suite import Choice, Suite, load, only
from dags.nights.tonight import Tonight
from dags.nights.webhook import post, warning
from dags.terminal.run import carry_out, prepare
from dags.terminal.story import hours
from dags.terminal.supervise import hangup_is_ctrl_c

Say = Callable[[str], None]


class NothingOnRecord(DagError):
    """There is no night to report on."""

    blame = "configuration"


@dataclass(frozen=True)
class Asked:
    """`experiments`: a part of the suite; empty: all of it."""

    suite: str
    experiments: tuple[str, ...] = ()
    deadline: str | None = None
    dry_run: bool = False
    report_only: bool = False


def nightly(asked: Asked, console: Console) -> int:
    """The exit code: 0 nothing new, 6 a newly confirmed regression, 130 an interruption, else the worst failure's."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    suite = load(asked.suite)
    if asked.experiments:
        suite = only(suite, asked.experiments)
    if asked.report_only:
        return report(suite, say)
    if deaf := warning():
        say(deaf)
    now_s = time.time()
    end_s = until_s(asked.deadline, suite.deadline_hours, now_s)
    if asked.dry_run:
        return foretell(suite, end_s, now_s, say)
    return measure(suite, end_s, console, say)


def measure(suite: Suite, end_s: float, console: Console, say: Say) -> int:
    """A whole night; whatever ends it, what was measured is put on record."""
    begun_s = time.time()
    under_way = night.open_night(suite, end_s, begun_s)
    say(f"night {under_way.id} of suite {suite.name} on {suite.testbed}, until {_clock(end_s)}")
    with hangup_is_ctrl_c():
        try:
            for choice in suite.experiments:
                under_way = one(suite, under_way, choice, console, say)
        except KeyboardInterrupt:
            say("interrupted: what was measured goes on record")
        finally:
            record = night.closed(suite.name, tonight.of_id(suite.name, under_way.id), time.time())
        return finish(suite, record, begun_s, say)


def one(suite: Suite, under_way: Tonight, choice: Choice, console: Console, say: Say) -> Tonight:
    """One experiment, as a new series; its failure is its own, an interruption is the night's."""
    name = choice.experiment
    if why := night.why_not(suite, under_way, choice, time.time()):
        say(f"{name}: {why}")
        return night.not_begun(under_way, name, why)
    try:
        series = prepare(name, suite.changes(choice), new=True, console=console)
        under_way = night.begun(under_way, series)
        code = carry_out(series, console)
    except Exception as error:  # noqa: BLE001 - the record says whose failure it was, and the next experiment goes on
        say(f"{name}: {blame_of(error).replace('_', ' ')}: {message_of(error)}")
        return night.ended(under_way, name, error)
    except (KeyboardInterrupt, Interrupted) as error:
        night.ended(under_way, name, error)
        raise
    under_way = night.concluded(under_way, name)
    if code == INTERRUPTED_EXIT:  # also where all of it had been measured
        raise KeyboardInterrupt
    return under_way


def finish(suite: Suite, record: dict[str, Any], begun_s: float, say: Say) -> int:
    """Evaluate, write the pages, tell. The record is safe already."""
    found, index, message = told.published(suite, record, begun_s, say)
    for line in told.lines(found, record):
        say(line)
    if said := post(message):
        say(said)
    say(f"night {record['id']}: {record['status']}; pages: {index}")
    return outcome.exit_code([each["status"] for each in record["experiments"]], len(found.alarms))


def foretell(suite: Suite, end_s: float, now_s: float, say: Say) -> int:
    """What a night would do now; nothing is started."""
    say(f"suite {suite.name} on {suite.testbed}: {suite.title}; until {_clock(end_s)}")
    at_s = now_s
    for each in night.foreseen(suite):
        fits = at_s + each.seconds <= end_s
        when = f"{_clock(at_s)}–{_clock(at_s + each.seconds)}" if fits else "not begun: past the deadline"
        say(f"{each.choice.experiment}: {each.runs} runs, about {hours(each.seconds)}, {when}")
        at_s += each.seconds * fits
    say(f"about {hours(at_s - now_s)} in all; {suite.schedule or 'no'} schedule (UTC) under Airflow")
    if held := hold.on_record(suite.name, suite.testbed, now_s):
        say(f"now it would be refused: night {held.night} of suite {held.suite} is under way on {held.testbed}")
    return 0


def report(suite: Suite, say: Say) -> int:
    """The pages again, from the nights on record; 6 where the newest night confirmed a regression."""
    found, index = told.reviewed(suite)
    if found.last is None:
        raise NothingOnRecord(
            f"suite {suite.name} has no night on record in {tonight.folder_of(suite.name)};"
            f" measure one with barograph nightly {suite.name}"
        )
    for finding in found.all:
        say(told.line_of(finding))
    say(f"{len(found.history.nights)} nights; pages: {index}")
    return REGRESSION_EXIT if found.alarms else 0


def _clock(at_s: float) -> str:
    return time.strftime("%H:%M", time.localtime(at_s))
