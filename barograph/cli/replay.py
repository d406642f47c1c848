"""`barograph replay`: the decisions that a policy would have made in each round of a recorded run; with `--simulate`
also their effects. `barograph ablate`: the decisions of Stela's variants on the observations of a series' runs.
"""

from __future__ import annotations

import argparse
import json
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from analysis import java
from analysis.errors import StorageConfigurationError, StorageError
from analysis.numerals import number
from analysis.record.files import RunPaths, SeriesPaths, read_json_or_none
from analysis.record.simulated import is_simulated, is_simulated_series
from barograph.cli.arguments import jobs_of, key_value, testbed_options, yaml_value
from barograph.cli.terminal import line_printer, note, say, signals_as_interrupt, stderr_for_libraries, stdout_console
from barograph.counterfactual.outcomes import compare, decision_words, error_words
from barograph.counterfactual.simulation import find_run, recording_of
from barograph.errors import ExperimentError
from barograph.series.interruption import limited
from barograph.series.results import list_in_index, results_of
from barograph.series.series import find_series
from scheduler_plugins.replay import replay

if TYPE_CHECKING:
    from analysis.metrics.scale_decisions import AblationRow
    from barograph.counterfactual.outcomes import OutcomeComparison, RunOutcome
    from barograph.counterfactual.simulation import Recording, Simulated


SHOWN_DECISIONS = 5  # of a hold; JSON has all of them
COLUMNS = {
    "before": "throughput_before",
    "after": "throughput_after",
    "gain": "gain_percent",
    "down": "downtime_s",
    "lost": "lost_after",
    "conv.": "convergence_sp_s",
    "restarts": "workers_restarted",
    "moved": "executors_moved",
}
LEGEND = (
    "before, after: tuples/s; gain: %; down: seconds without throughput; lost: tuples; conv.: seconds (SP), >"
    " where it did not converge; restarts: workers; moved: executors"
)


def add_replay_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("run", metavar="RUN", help="the folder of a run, SERIES/RUN, or (without --simulate) a decisions.jsonl")
    add("--policy", action="append", default=[], metavar="NAME",
        help="a policy of docs/policies.md, or with --simulate also a variant of the run's experiment;"
        " with --simulate several may be given, and without it all that answer the run's events are"
        " simulated")  # fmt: skip
    add("--parameter", type=key_value, action="append", default=[], metavar="KEY=VALUE",
        help="a parameter of the policy")  # fmt: skip
    add("--simulate", action="store_true",
        help="simulate the run on with each policy, from the same start and with the same events, and"
        " compare outcomes: on the terminal, and on a page beside the runs of its series")  # fmt: skip
    add("--option", type=key_value, action="append", default=[], metavar="KEY=VALUE",
        help="with --simulate: an option of the testbed simulated, such as costs='{start_cpu_s: 2}'")  # fmt: skip
    add("--jobs", type=int, metavar="N", help="with --simulate: policies at once; default: the cores")
    add("--json", action="store_true", help="with --simulate: print JSON, for other programs, and write no page")


def execute_replay(options: argparse.Namespace) -> int:
    parameters = {key: yaml_value(value) for key, value in options.parameter}
    if options.simulate:
        return simulate_policies(options, parameters)
    if options.json or options.option or options.jobs is not None:
        raise ExperimentError("--json, --option and --jobs are for --simulate; add it, or leave them out")
    if len(options.policy) != 1:
        policies = ", ".join(options.policy) or "missing"
        raise ExperimentError(f"--policy is {policies}; allowed without --simulate: one policy of docs/policies.md")
    path = decisions_file(options.run)
    policy = options.policy[0]
    rounds = replay(path, policy, parameters)
    for one in rounds:
        if not one.same or one.refused or one.now.get("reason"):
            word = f"refused ({one.refused})" if one.refused else "same" if one.same else "differs"
            say(f"{one.t:.1f} {one.event_id or '-'} {word}: {one.now.get('reason') or 'nothing to do'}")
    if is_simulated(_run_document(path.parent)):
        say("note: the run was simulated: its rounds, rates and times are a model's")
    say(f"{len(rounds)} rounds, {sum(not one.same for one in rounds)} decided differently by {policy}")
    return 0


def decisions_file(said: str) -> Path:
    """Return the decision log itself, or that of the run. Raises ExperimentError."""
    path = Path(said)
    if path.is_file() or path.suffix == ".jsonl":
        return path
    log = RunPaths(path).decisions
    return log if log.is_file() else RunPaths(find_run(said)).decisions


def _run_document(run: Path) -> Mapping[str, Any]:
    """Return the run's document, empty for a decision log without its run."""
    return read_json_or_none(RunPaths(run).run_json) or {}


def simulate_policies(options: argparse.Namespace, parameters: Mapping[str, Any]) -> int:
    from barograph.counterfactual.simulation import simulated, variants_for

    jobs = jobs_of(options)
    testbed = testbed_options(options.option)
    java.require()
    with signals_as_interrupt(), limited("analyse"), recording_of(options.run) as recording:
        variants, left_out = variants_for(recording, options.policy, parameters)
        if is_simulated(_run_document(recording.run)):
            note("the recorded run was simulated itself: how far the simulator is from Storm is not known from it")
        with stderr_for_libraries(), simulated(recording, variants, testbed, jobs, note) as simulations:
            comparison = compare(recording, simulations, left_out)
            if options.json:
                say(json.dumps(comparison.as_data(), indent=1, ensure_ascii=False))
                return 0
            show(comparison, stdout_console())  # before the page, which may fail: the numbers are computed
            page = _write_page(recording, simulations, comparison)
    if page is not None:
        say(f"page: {page}")
        if _keep(page):
            list_in_index(recording.home, note)
    return 0


def _write_page(recording: Recording, found: Simulated, comparison: OutcomeComparison) -> Path | None:
    """Write the page and return its path, None where it cannot be written, such as beside results of others: the
    terminal has the numbers."""
    from barograph.counterfactual import page

    try:
        return page.write(recording, found, comparison, time.time())
    except OSError as error:
        note(f"no page beside the runs of {recording.home}: {error.strerror or error}")
        return None


def _keep(page: Path) -> bool:
    """Store the page in the bucket too, where results go to one, and return whether it worked. The page goes last, so
    that none lacks its files."""

    files = {*(path for path in page.parent.rglob("*") if path.is_file())} - {page}
    try:
        for file in (*sorted(files), page):
            results_of(page.parent).keep(file)
    except (StorageError, StorageConfigurationError) as error:
        note(f"the page is here and not in the bucket: {error}")
        return False
    return True


def show(comparison: OutcomeComparison, console: Console) -> None:
    print_line = line_printer(console)
    print_line(f"{comparison.experiment} {comparison.run}: simulated once a policy from the recorded start")
    for run in comparison.runs[1:]:
        if run.differing_start:
            print_line(
                f"note: with {run.name} {run.differing_start} tasks began at other slots than in the recorded run"
            )
    for event_id, what in comparison.events.items():
        print_line(f"\n{event_id}: {what}")
        for run in comparison.runs:
            late_s = run.late_s[event_id]
            if abs(late_s) >= 1:
                print_line(f"note: with {run.name} it came {late_s:+.1f} s from where it was recorded")
        table = Table(box=None, pad_edge=False)
        table.add_column("simulated with", no_wrap=True)
        for head in COLUMNS:
            table.add_column(head, justify="right", no_wrap=True)
        for each in comparison.runs:
            outcome = each.events[event_id]
            rounded = {name: None if (value := outcome.metrics[name]) is None else round(value, 1)
                       for name in COLUMNS.values()}  # fmt: skip
            cells = (f"{'> ' if name in outcome.censored else ''}{number(value)}" for name, value in rounded.items())
            table.add_row(_run_words(each), *cells)
        console.print(table)
        print_line(LEGEND)
        for line in _decision_lines(comparison, event_id):
            print_line(line)
        if error := error_words(comparison, event_id):
            print_line(error)
    for name, why in comparison.not_simulated.items():
        print_line(f"not simulated: {name}: {why}")


def _run_words(run: RunOutcome) -> str:
    return f"{run.name} (recorded)" if run.source == "recorded" else run.name


def _decision_lines(comparison: OutcomeComparison, event_id: str) -> Iterator[str]:
    for run in comparison.runs:
        decisions = run.events[event_id].decisions
        if not decisions:
            yield f"  {_run_words(run)}: no decision"
        for each in decisions[:SHOWN_DECISIONS]:
            origin = ", by itself" if each.own else ""
            yield f"  {_run_words(run)}, after {each.decided_s:.1f} s{origin}: {decision_words(each)} ({each.reason})"
        if len(decisions) > SHOWN_DECISIONS:
            yield f"  {_run_words(run)}: and {len(decisions) - SHOWN_DECISIONS} more decisions; --json has all"


VERSION = 1
INDENT = "    "


def add_ablate_arguments(ablate: argparse.ArgumentParser) -> None:
    add = ablate.add_argument
    add("series", help="the series' folder or id, or an experiment for its newest")
    add("--json", action="store_true", help="print JSON, for other programs")


def execute_ablate(options: argparse.Namespace) -> int:
    from analysis.metrics.scale_decisions import unread_rounds, unread_sentence

    folder = find_series(options.series)
    lines, unread = lines_of_series(folder), unread_rounds(SeriesPaths(folder))
    if options.json:
        say(as_json(lines, unread))
        return 0
    for line in table_lines(lines, stdout_console().width):
        say(line)
    if is_simulated_series(folder):
        say("note: these runs were simulated, not measured (docs/simulator.md)")
    if unread:
        say(f"note: {unread_sentence(unread)}")
    return 0


def lines_of_series(series_dir: Path) -> list[AblationRow]:
    """Return the rows of a series. Raises ExperimentError without an analysis, or without a scale event in any run."""
    from analysis.metrics import scale_decisions

    paths = SeriesPaths(series_dir)
    if not paths.table("runs").exists():
        raise ExperimentError(f"{series_dir} has no tables yet; make them with: barograph report {series_dir}")
    rows = scale_decisions.ablation_rows(paths)
    if not rows:
        raise ExperimentError(
            f"no complete run of {series_dir} has a scale event in its decision log; give another series"
        )
    return rows


def table_lines(lines: Sequence[AblationRow], width: int) -> Iterator[str]:
    """Yield a table of variants for each event, each with its answers under it, folded to `width`."""
    names = max(len(line.variant) for line in lines)
    for event_id, mine in groupby(lines, key=lambda line: line.event_id):
        yield f"event {event_id}"
        for line in mine:
            yield f"  {line.variant.ljust(names)}  {line.verdict}"
            # Most variants are named after their change.
            change = [] if line.changed in line.variant else [f"with {line.changed}"]
            for text in (*change, *line.answers):
                yield from textwrap.wrap(text, width, initial_indent=INDENT, subsequent_indent=f"{INDENT}  ")


def as_json(lines: Sequence[AblationRow], unread: Mapping[str, int] = MappingProxyType({})) -> str:
    """Return the rows as JSON. `unread`: by run, the number of lines that could not be read."""
    rows = [{**asdict(line), "verdict": line.verdict} for line in lines]
    return json.dumps({"v": VERSION, "ablation": rows, "unread": dict(unread)}, indent=1, ensure_ascii=False)
