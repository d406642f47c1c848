"""`barograph run`: check, prepare, start the DAG in a child, show it, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from dags import money
from dags.checks import check, remarks
from dags.costs import Cost, lines_of, usd
from dags.duration import series_s
from dags.errors import INTERRUPTED_EXIT, RunsFailed
from dags.experiment import Experiment, load
from dags.request import requested
from dags.results import results, send_waiting
from dags.series import Series, open_series, series_document
from dags.sources.prepare import prepare as prepare_code
from dags.sources.refs import resolved
from dags.terminal.story import Story, begin, hours
from dags.terminal.supervise import Supervised, hangup_is_ctrl_c
from dags.terminal.view import View, view_for
from dags.testbeds import IN_MEMORY


def run(name: str, changes: Mapping[str, Any], *, new: bool, console: Console, rebuild: bool = False) -> int:
    """The exit code. Raises errors with `blame` where nothing was started."""
    return carry_out(prepare(name, changes, new=new, console=console, rebuild=rebuild), console)


@dataclass(frozen=True)
class Ending:
    """What an execution says at its end: the answer, once there is a report, and how to go on after an interruption."""

    show: Callable[[Path, Console], None]
    again: str


def carry_out(series: Series, console: Console, ending: Ending | None = None) -> int:
    """The exit code: 0, or that of an interruption. Raises RunsFailed."""
    last = ending or Ending(_show_report, f"barograph run {series.experiment.name}, with the same options")
    supervised: Supervised | None = None
    with hangup_is_ctrl_c(), view_for(console, begin(series.left(), series.experiment)) as view:
        try:
            supervised = Supervised(series.folder)
            code = supervised.follow(view)
        except KeyboardInterrupt:
            view.say("interrupted: keeping what was measured, releasing machines (once more to hurry)")
            return _interrupted(series, supervised, view, last)
    return _epilogue(series, view.story, code, console, last)


def prepare(name: str, changes: Mapping[str, Any], *, new: bool, console: Console, rebuild: bool = False) -> Series:
    """What is asked for, validated, with its series opened."""
    return make_ready(requested(load(name), changes), new=new, console=console, rebuild=rebuild)


def make_ready(experiment: Experiment, *, new: bool, console: Console, rebuild: bool = False) -> Series:
    """Everything that can be said before machines are touched, then the software, then the series.

    `rebuild`: also code of variants that was built, or failed to build, before.
    """
    from dags.steps.provision import refuse_if_taken
    from dags.terminal.airflow_home import prepare as prepare_airflow
    from dags.terminal.box import prepare_all, require_fit_box

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    experiment = resolved(experiment)
    local = experiment.testbed.name == "local"
    if local:
        require_fit_box(say)
    for line in _swept(experiment.testbed.name):
        say(line)
    check(experiment)
    refuse_if_taken(experiment)
    results().require()
    send_waiting(say)
    for remark in remarks(experiment):
        say(remark)
    cost = money.foreseen(experiment, new=new)
    for line in money_lines(cost):
        say(line)
    if experiment.testbed.name not in IN_MEMORY:
        prepare_all(say)
    else:
        from dags.places import airflow_home

        prepare_airflow(airflow_home())
    prepare_code(experiment, say, rebuild=rebuild)
    series = open_series(experiment, new=new, estimate=cost.as_data() if cost else None)
    resumed = series_document(series.folder)["resumed"]
    begun, left = "resuming" if resumed else "new", series.left()
    time_s = hours(series_s(experiment, left))
    say(f"{begun} series {series.folder}: {left} of {len(series.plan())} runs to do, about {time_s}")
    return series


def _swept(testbed: str) -> list[str]:
    """Raises NotReaped only where this experiment's testbed is not free of remains: others must not keep it."""
    from dags.steps.reap import look, require_all

    rows = look(dry_run=False)
    require_all(tuple(row for row in rows if row.testbed == testbed))
    return [f"reaped {row}" if row.error is None else f"warning: not reaped: {row}: {row.error}" for row in rows]


def money_lines(cost: Cost | None) -> list[str]:
    """What it may cost, and whether what ends forgotten machines is awake; nothing where machines cost nothing."""
    if cost is None:
        return []
    from dags.reaper_health import warning

    asleep = warning(time.time())
    return [*lines_of(cost), *([asleep] if asleep else [])]


def _say_money(series: Series, say: Callable[[str], None]) -> None:
    """The bill: what was used beside what was estimated."""
    from analysis.record import SeriesPaths, read_json

    estimates = read_json(SeriesPaths(series.folder).series_json).get("estimates", [])
    stand = money.stand(series)
    if not estimates or "used_usd" not in stand:
        return
    last = estimates[-1]
    before = last["spent_before_usd"]
    say(
        f"money: {usd(stand['used_usd'])} used for {stand['machine_hours']:.2f} machine-hours; estimated were about"
        f" {usd(before + last['expected_usd'])}, at most {usd(before + last['longest_usd'])}, of a budget of"
        f" {usd(stand['budget_usd'])}"
    )


def _interrupted(series: Series, supervised: Supervised | None, view: View, ending: Ending) -> int:
    by_itself = supervised.end(view) if supervised is not None else True
    if not by_itself:
        from dags.steps.provision import release

        release(series.folder)
    view.say(f"{len(series.complete())} of {len(series.plan())} runs are complete in {series.folder}")
    _say_money(series, view.say)
    # With every run there, the same command again would begin a new series.
    view.say(f"to resume: {ending.again}" if series.left() else f"to analyse it: barograph report {series.folder}")
    return INTERRUPTED_EXIT


def _show_report(series_dir: Path, console: Console) -> None:
    from dags.terminal.verdicts import show_verdicts

    show_verdicts(series_dir, console)


def _epilogue(series: Series, story: Story, code: int, console: Console, ending: Ending) -> int:
    if story.report:
        ending.show(series.folder, console)
        console.print(f"report: {story.report}", markup=False, highlight=False, soft_wrap=True)
    _say_money(series, lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True))
    if code == INTERRUPTED_EXIT:
        return code
    if code != 0:
        blame, message = story.failure or ("harness", f"the DAG's process ended with {code}")
        raise RunsFailed(f"{message}; log: {series.folder / 'harness.log'}", blame)
    return 0
