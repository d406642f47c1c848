"""`barograph nightly SUITE`: measure one night of a suite, put it on record, and print its findings."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from barograph.cli.arguments import comma_separated
from barograph.cli.execution import carry_out
from barograph.cli.preparation import prepare
from barograph.cli.terminal import line_printer, signals_as_interrupt, stdout_console
from barograph.errors import INTERRUPTED_EXIT, REGRESSION_EXIT, ConfigurationError, Say, blame_of, message_of
from barograph.nights import findings, night_state, outcome, procedure
from barograph.nights.findings import post, webhook_warning
from barograph.nights.night_state import Night
from barograph.nights.suite import Choice, Suite, deadline_s, load_suite, subset
from barograph.series.progress import hours


def add_nightly_arguments(nightly: argparse.ArgumentParser) -> None:
    add = nightly.add_argument
    add("suite", help="the name of a file in dags/suites; a wrong name lists them")
    add("--experiments", type=comma_separated, metavar="A,B", help="only these experiments of the suite")
    add("--deadline", metavar="TIME", help="when the night ends: 07:00, 6h or 90min, instead of the suite's own")
    add("--dry-run", action="store_true", help="show what would be measured when; start nothing")
    add("--report-only", action="store_true", help="write the pages again, from the nights on record")


def execute_nightly(options: argparse.Namespace) -> int:
    return nightly(
        options.suite, stdout_console(), experiments=options.experiments or (), deadline=options.deadline,
        dry_run=options.dry_run, report_only=options.report_only,
    )  # fmt: skip


def nightly(
    name: str, console: Console, *, experiments: Sequence[str] = (), deadline: str | None = None, dry_run: bool = False,
    report_only: bool = False,
) -> int:  # fmt: skip
    """Measure a night and return the exit code: 0 nothing new, 6 a newly confirmed regression, 130 an interruption,
    else the worst failure's."""
    say = line_printer(console)
    suite = load_suite(name)
    if experiments:
        suite = subset(suite, experiments)
    if report_only:
        return report_nights(suite, say)
    if warning := webhook_warning():
        say(warning)
    now_s = time.time()
    end_s = deadline_s(deadline, suite.deadline_hours, now_s)
    if dry_run:
        return show_forecast(suite, end_s, now_s, say)
    return measure_night(suite, end_s, console, say)


def measure_night(suite: Suite, end_s: float, console: Console, say: Say) -> int:
    """Measure a whole night; however it ends, its measurements go on record."""
    begun_s = time.time()
    night = procedure.open_night(suite, end_s, begun_s)
    say(f"night {night.id} of suite {suite.name} on {suite.testbed}, until {_clock(end_s)}")
    with signals_as_interrupt():
        try:
            for choice in suite.experiments:
                night = measure_experiment(suite, night, choice, console, say)
        except KeyboardInterrupt:
            say("interrupted: what was measured goes on record")
        finally:
            record = procedure.close_night(suite.name, night_state.night_of_id(suite.name, night.id), time.time())
        return finish_night(suite, record, begun_s, say)


def measure_experiment(suite: Suite, night: Night, choice: Choice, console: Console, say: Say) -> Night:
    """Measure one experiment as a new series; its failure does not end the night, an interruption does."""
    name = choice.experiment
    if why := procedure.why_not(suite, night, choice, time.time()):
        say(f"{name}: {why}")
        return procedure.skip_entry(night, name, why)
    try:
        series = prepare(name, suite.changes(choice), new=True, console=console)
        night = procedure.begin_entry(night, series)
        code = carry_out(series, console)
    except Exception as error:  # noqa: BLE001 - the record has the blame, and the next experiment goes on
        say(f"{name}: {blame_of(error).replace('_', ' ')}: {message_of(error)}")
        return procedure.end_entry(night, name, error)
    except KeyboardInterrupt as error:
        procedure.end_entry(night, name, error)
        raise
    night = procedure.conclude_entry(night, name)
    if code == INTERRUPTED_EXIT:  # even if everything was measured by then
        raise KeyboardInterrupt
    return night


def finish_night(suite: Suite, record: dict[str, Any], begun_s: float, say: Say) -> int:
    """Evaluate the night, which is already on record, write the pages, and send the message."""
    result, index, message = findings.publish(suite, record, begun_s, say)
    for line in findings.finding_lines(result, record):
        say(line)
    if remark := post(message):
        say(remark)
    say(f"night {record['id']}: {record['status']}; pages: {index}")
    return outcome.exit_code([each["status"] for each in record["experiments"]], len(result.alarms))


def show_forecast(suite: Suite, end_s: float, now_s: float, say: Say) -> int:
    """Print the forecast of a night that begins now; nothing is started."""
    say(f"suite {suite.name} on {suite.testbed}: {suite.title}; until {_clock(end_s)}")
    at_s = now_s
    for each in procedure.forecasts(suite):
        fits = at_s + each.seconds <= end_s
        when = f"{_clock(at_s)}–{_clock(at_s + each.seconds)}" if fits else "not begun: past the deadline"
        say(f"{each.choice.experiment}: {each.runs} runs, about {hours(each.seconds)}, {when}")
        at_s += each.seconds * fits
    say(f"about {hours(at_s - now_s)} in all; {suite.schedule or 'no'} schedule (UTC) under Airflow")
    if holder := night_state.current_reservation(suite.name, suite.testbed, now_s):
        say(f"now it would be refused: night {holder.night} of suite {holder.suite} is under way on {holder.testbed}")
    return 0


def report_nights(suite: Suite, say: Say) -> int:
    """Write the pages again, from the nights on record; return 6 where the newest night confirmed a regression."""
    result, index = findings.write_pages(suite)
    if result.last is None:
        raise ConfigurationError(
            f"suite {suite.name} has no night on record in {night_state.nights_folder(suite.name)};"
            f" measure one with barograph nightly {suite.name}"
        )
    for finding in result.all:
        say(findings.finding_line(finding))
    say(f"{len(result.history.nights)} nights; pages: {index}")
    return REGRESSION_EXIT if result.alarms else 0


def _clock(at_s: float) -> str:
    return time.strftime("%H:%M", time.localtime(at_s))
