"""What each command does, called with the parsed options.

Imports are inside the functions: a mistyped option must not wait for Airflow or Spark.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def run(options: argparse.Namespace) -> int:
    from barograph.cli.run import is_suite, run_suite
    from barograph.cli.run import run as run_experiment

    changes = {
        "policies": options.policies,
        "repetitions": options.repetitions,
        "testbed": options.testbed,
        "options": testbed_options(options.option),
        "demo": options.demo or None,
    }
    if is_suite(options.experiment):
        _refuse_rebuild(options)
        return run_suite(options.experiment, changes, new=options.new, console=_console())
    return run_experiment(options.experiment[0], changes, new=options.new, console=_console(), rebuild=options.rebuild)


def _refuse_rebuild(options: argparse.Namespace) -> None:
    from barograph.errors import ExperimentError

    if options.rebuild:
        raise ExperimentError("--rebuild is for one experiment; name one, and run the others after it")


def compare(options: argparse.Namespace) -> int:
    """Is B better than A."""
    from barograph.cli.compare import compare as compare_sides
    from barograph.compare.request import comparison_request

    asked = comparison_request({**vars(options), "options": testbed_options(options.option)})
    return compare_sides(asked, _console(), new=options.new, rebuild=options.rebuild)


def testbed_options(pairs: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    """`--option KEY=VALUE`, each key once. Raises ExperimentError."""
    from barograph.errors import ExperimentError

    keys = [key for key, _ in pairs]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ExperimentError(f"--option gives {', '.join(twice)} twice; give each once, a list as [a, b]")
    return {key: yaml_value(value) for key, value in pairs} or None


def report(options: argparse.Namespace) -> int:
    """Analyse a series again from its raw records, or only bring the index of all results up to date."""
    if options.index or options.series is None:
        return _index(options)
    from barograph.cli.claims import show_claims
    from barograph.cli.compare import show_comparison
    from barograph.cli.dag_process import signals_as_interrupt
    from barograph.compare.record import is_comparison
    from barograph.series.results import analyse_again
    from barograph.series.series import find_series

    series_dir = find_series(options.series)
    with signals_as_interrupt():
        path = analyse_again(series_dir, _say)
    show_claims(series_dir, _console())
    if is_comparison(series_dir):
        show_comparison(series_dir, _console())
    _say(f"report: {path}")
    return 0


def _index(options: argparse.Namespace) -> int:
    from barograph.errors import ExperimentError
    from barograph.series.results import results, write_index

    if options.series is not None or not options.index:
        given = "a series and --index" if options.index else "neither a series nor --index"
        raise ExperimentError(f"report has {given}; give a series to analyse it again, or --index alone for the index")
    results().require()
    _say(f"index: {write_index()}")
    return 0


def nightly(options: argparse.Namespace) -> int:
    """One night of a suite."""
    from barograph.cli.nightly import NightRequest
    from barograph.cli.nightly import nightly as measure

    asked = NightRequest(
        options.suite, tuple(options.experiments or ()), options.deadline, options.dry_run, options.report_only
    )
    return measure(asked, _console())


def bisect(options: argparse.Namespace) -> int:
    """Which commit made a number worse."""
    from barograph.cli.bisect import bisect as search
    from barograph.compare.difference import VariantMetric
    from barograph.nights.bisection import BisectionRequest

    asked = BisectionRequest(
        options.experiment, VariantMetric(options.variant, options.metric, options.event), options.good, options.bad,
        everything=options.all, blocks=options.repetitions, goal=options.goal, testbed=options.testbed,
        options=testbed_options(options.option),
    )  # fmt: skip
    return search(asked, _console(), new=options.new)


def claims(options: argparse.Namespace) -> int:
    """What the papers state, and the newest verdict of each claim."""
    from barograph.cli.claims import ledger_json, show_ledger
    from barograph.series.results import results

    results().refresh(digest=True)
    if options.json:
        _say(ledger_json())
    else:
        show_ledger(_console())
    return 0


def sql(options: argparse.Namespace) -> int:
    """The tables of all analysed series, asked in Spark SQL; or what there is to ask, without Spark."""
    from analysis.errors import QueryError
    from barograph.cli import sql as cli_sql

    if options.tables or options.describe:
        for line in cli_sql.table_description(options.describe) if options.describe else cli_sql.table_list():
            _say(line)
        return 0
    if options.query is None:
        raise QueryError('give a query: barograph sql "select …"; --tables and --describe TABLE say what there is')
    asked = cli_sql.SqlRequest(
        options.query, options.series, options.experiment, options.format, options.to, options.limit
    )
    return cli_sql.run_query(asked, _note)


def bundle(options: argparse.Namespace) -> int:
    """A series or a run with all that it takes to make its numbers and figures again."""
    from barograph.cli.bundle import bundle as bundle_series

    return bundle_series(options.series, options.to, without_raw=options.without == "raw", tell=_say)


def read(options: argparse.Namespace) -> int:
    """Other people's logs as a series of ours, ready for `report`."""
    from analysis.ingest.readers import read as read_logs
    from barograph.series.results import finish, results
    from barograph.settings import results_root

    given = {key: yaml_value(value) for key, value in options.option}
    files = [Path(file) for file in options.files]
    results().require()
    series_dir = read_logs(options.format, files, results_root(), name=options.name, given=given)
    results().begin(series_dir)
    finish(series_dir, _say)
    _say(f"series: {series_dir}")
    _say(f"to analyse it: barograph report {series_dir}")
    return 0


def ablate(options: argparse.Namespace) -> int:
    """Which difference between Stela's paper and its authors' code matters, on what a series observed."""
    from barograph.cli.ablate import as_json, lines_of_series, table_lines
    from barograph.series.series import find_series

    lines = lines_of_series(find_series(options.series))
    if options.json:
        _say(as_json(lines))
    else:
        for line in table_lines(lines, _console().width):
            _say(line)
    return 0


def ui(options: argparse.Namespace) -> int:
    from barograph.cli.ui import serve

    return serve(options.port, _say)


def reap(options: argparse.Namespace) -> int:
    from barograph.cli.reap import reap as reap_all
    from barograph.cli.reap import show_status

    if options.status:
        return show_status(_say)
    return reap_all(dry_run=options.dry_run, everywhere=options.everywhere, console=_console())


def setup(_options: argparse.Namespace) -> int:
    """Build everything an experiment needs; what is there already is only looked at."""
    from barograph.cli.run import require_fit_box, software_parts

    require_fit_box(_say)
    whole_s = time.monotonic()
    for name, make in software_parts().items():
        begin_s = time.monotonic()
        make(_say)
        _say(f"{name}: {time.monotonic() - begin_s:.1f} s")
    _say(f"ready in {time.monotonic() - whole_s:.1f} s")
    return 0


def check(options: argparse.Namespace) -> int:
    """Whether experiments can run where they are to, and what they may cost; without a name, all that this box runs."""
    from barograph.cli.check import check_one, experiments_of_this_box
    from barograph.cli.run import select_experiments

    changes = {
        "repetitions": options.repetitions,
        "testbed": options.testbed,
        "options": testbed_options(options.option),
    }
    for name in (
        select_experiments(options.experiment) if options.experiment else experiments_of_this_box(changes, _say)
    ):
        check_one(name, changes, _say)
    return 0


def replay(options: argparse.Namespace) -> int:
    """What a policy would have decided in each round of a recorded run."""
    from scheduler_plugins.replay import replay as replay_log

    parameters = {key: yaml_value(value) for key, value in options.parameter}
    rounds = replay_log(options.decisions, options.policy, parameters)
    for one in rounds:
        if not one.same or one.refused or one.now.get("reason"):
            word = f"refused ({one.refused})" if one.refused else "same" if one.same else "differs"
            _say(f"{one.t:.1f} {one.event_id or '-'} {word}: {one.now.get('reason') or 'nothing to do'}")
    _say(f"{len(rounds)} rounds, {sum(not one.same for one in rounds)} decided differently by {options.policy}")
    return 0


def list_experiments(_options: argparse.Namespace) -> int:
    """Experiments with their variants, and how many series each has."""
    from barograph.plan.experiment import load, names
    from barograph.series.results import results
    from barograph.settings import results_root

    results().refresh()
    for name in names():
        experiment = load(name)
        count = len(list((results_root() / name).glob("*/series.json")))
        variants = ", ".join(variant.name for variant in experiment.variants)
        _say(f"{name}: {experiment.title} ({variants}; {experiment.repetitions} repetitions; {count} series here)")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _console() -> Console:
    from rich.console import Console

    return Console(file=sys.stdout)


def yaml_value(text: str) -> Any:
    """What KEY=VALUE means, as in a YAML file: numbers, words, lists. Raises ExperimentError where it is no YAML."""
    import yaml

    from barograph.errors import ExperimentError

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise ExperimentError(
            f"value {text!r} is not YAML: {said}; quote it, or give a number, a word or [a, list]"
        ) from error


def decisions_file(text: str) -> Path:
    """A decision log, or a run's folder that has one."""
    path = Path(text)
    return path / "decisions.jsonl" if path.is_dir() else path
