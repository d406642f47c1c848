"""One series from a terminal: check and prepare it, carry its DAG out in a child process, and show what it measured."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis import java
from analysis.record.files import SeriesPaths
from barograph.cli.dag_process import DagProcess, signals_as_interrupt, signals_held
from barograph.cli.terminal import line_printer
from barograph.cli.view import View, view_for
from barograph.code.refs import resolve_experiment, uncommitted_remark
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, BarographError, NotReleased, RunsFailed, Say, message_of
from barograph.machines import holdings
from barograph.machines.series_lease import saved_lease
from barograph.plan.durations import series_s
from barograph.plan.experiment import Experiment, load, with_changes
from barograph.plan.simulation import is_simulated
from barograph.series import hold
from barograph.series.results import results, send_waiting, store
from barograph.series.series import Series, open_series, series_document
from barograph.series.status import SeriesStatus, hours, initial_status
from barograph.series.variant_code import prepare_code
from barograph.settings import airflow_home, process_environment
from barograph.software import BRIDGE, TOPOLOGIES, build_jar, fetch_libraries, storm_home
from barograph.testbeds.checks import check, place_of, remarks
from barograph.testbeds.costs import Cost, cost_lines, usd
from inventory.leases import registry

SIMULATED_INSTEAD = "a model of Storm needs only Python: `make simulated`, or `barograph run NAME --testbed simulated`"


def require_fit_box(say: Say) -> None:
    """Print the limits of this machine. Raises BarographError with everything that prevents a run."""
    from inventory.local import preflight

    problems = preflight.check_box()
    fatal = [problem for problem in problems if problem.fatal]
    missing = java_problems()
    if fatal or missing:
        reasons = [str(problem) for problem in fatal] + missing
        blame = fatal[0].blame if fatal else "configuration"
        raise BarographError(f"{'; '.join(reasons)}; {SIMULATED_INSTEAD}", blame)
    for problem in problems:
        say(f"note: {problem}")


def java_problems() -> list[str]:
    """What building and submitting need beside the testbed's own programs."""
    problems = []
    if shutil.which("mvn") is None:
        problems.append("mvn is not installed; apt-get install maven")
    if shutil.which("java") is None and not process_environment().get("JAVA_HOME"):
        problems.append("Java 17 is not installed; apt-get install openjdk-17-jdk-headless")
    return problems


def software_parts() -> Mapping[str, Callable[[Say], object]]:
    """What builds each part, in the order of building; a part that is there already takes no time."""
    return {
        "root filesystem of the machines": _root_filesystem,
        "topologies (Java)": lambda tell: build_jar(TOPOLOGIES, tell),
        "scheduler bridge (Java)": lambda tell: build_jar(BRIDGE, tell),
        "Storm home": storm_home,
        "Python packages of masters": fetch_libraries,
        "Spark's reader of Avro": _avro_jar,
        "Airflow's database": _airflow,
    }


def prepare_software(say: Say) -> None:
    """Make every part that is not there; says what took more than a second."""
    for name, make in software_parts().items():
        begin_s = time.monotonic()
        make(say)
        took_s = time.monotonic() - begin_s
        if took_s > 1:
            say(f"{name}: ready after {took_s:.0f} s")


def _root_filesystem(say: Say) -> object:
    from inventory.local.rootfs import build, cache_dir

    return build(cache_dir(), say)


def _avro_jar(say: Say) -> object:
    from analysis.ingest import avro_jar
    from inventory.local.rootfs import cache_dir

    return avro_jar.jar(cache_dir(), say)


def _airflow(say: Say) -> object:
    from barograph.airflow_environment import prepare, ready

    if not ready(airflow_home()):
        say("Airflow: making its database")
    return prepare(airflow_home())


@dataclass(frozen=True)
class Ending:
    """What an execution prints at its end.

    With a report: `show` prints its tables, and `answer` is the last line, where it is not empty. After an
    interruption: `resume` is the command that goes on.
    """

    show: Callable[[Path, Console], None]
    resume: str
    answer: Callable[[Path], str] = lambda _: ""


def carry_out(series: Series, console: Console, ending: Ending | None = None) -> int:
    """The exit code: 0, or that of an interruption. Raises RunsFailed."""
    resume = f"barograph run {series.experiment.name}, with the same options"
    last = ending or Ending(_show_claims, resume, headline)
    child: DagProcess | None = None
    with signals_as_interrupt(), view_for(console, initial_status(series.missing_runs(), series.experiment)) as view:
        try:
            with signals_held():
                child = DagProcess(series.folder)
            code = child.follow(view)
        except KeyboardInterrupt:
            view.say("interrupted: keeping what was measured, releasing machines (once more to hurry)")
            return _end_interrupted(series, child, view, last)
        except Exception:
            if child is None:  # else it has the series
                _clean_up(series, None, view.say)
            raise
        if code != 0:
            _clean_up(series, child, view.say)
    return _finish(series, view.status, code, console, last)


def _clean_up(series: Series, child: DagProcess | None, say: Say) -> None:
    """What a child that was killed, or failed before it could, has left; nothing where it left nothing."""
    from barograph.machines.provision import release

    try:
        release(series.folder, say)
    except NotReleased as left:
        held_by = "" if child is None else _held_by(child, series.folder)
        say(held_by or message_of(left))
    current = hold.read(series.folder)
    if current is not None and not current.is_anothers(time.time()):
        store(series.folder, say)


def _held_by(child: DagProcess, series_dir: Path) -> str:
    """Of a child that lives on, though it was killed: it waits in the kernel. Empty where it has no lease any more."""
    saved = saved_lease(series_dir)
    lease = registry.read(saved.lease_id) if saved else None
    if lease is None or lease.holder.pid != child.pid or lease.ending:
        return ""
    return (
        f"lease {lease.lease_id} on testbed {lease.testbed} is not released: its holder, {lease.holder}, does not end,"
        f" whatever signal it gets (see `ps {child.pid}`); once it has ended, `barograph reap` ends its machines"
    )


def prepare(name: str, changes: Mapping[str, Any], *, new: bool, console: Console, rebuild: bool = False) -> Series:
    """Validate the experiment with these changes and open its series."""
    return prepare_series(with_changes(load(name), changes), new=new, console=console, rebuild=rebuild)


def prepare_series(experiment: Experiment, *, new: bool, console: Console, rebuild: bool = False) -> Series:
    """Check the experiment, build the software, and open the series; no machine is touched.

    `rebuild`: build the code of variants again, even what failed before.
    """
    from barograph.airflow_environment import prepare as prepare_airflow
    from barograph.machines.provision import reserve_testbed

    say = line_printer(console)
    experiment = resolve_experiment(experiment)
    place = place_of(experiment.testbed)
    if place == "this_box":
        require_fit_box(say)
    java.require()
    for line in _reap_first(experiment.testbed.name):
        say(line)
    check(experiment)
    reserve_testbed(experiment)
    results().require()
    send_waiting(say)
    for remark in all_remarks(experiment):
        say(remark)
    cost = holdings.estimate_cost(experiment, new=new)
    for line in cost_remarks(cost):
        say(line)
    if place != "memory":
        prepare_software(say)
    elif not is_simulated(experiment):  # whose runs need no DAG here
        prepare_airflow(airflow_home())
    prepare_code(experiment, say, rebuild=rebuild)
    series = open_series(experiment, new=new, estimate=cost.as_data() if cost else None)
    resumed = series_document(series.folder)["resumed"]
    word, left = "resuming" if resumed else "new", series.missing_runs()
    time_s = hours(series_s(experiment, left))
    say(f"{word} series {series.folder}: {left} of {len(series.plan())} runs to do, about {time_s}")
    return series


def _reap_first(testbed: str) -> list[str]:
    """Raises NotReaped where this testbed is not free of remains. Others are not waited for, only named."""
    from barograph.machines.reaper import leases_over, require_all_released, sweep

    rows = sweep(dry_run=False, only=(testbed,))
    require_all_released(rows)
    return [f"reaped {row}" for row in rows] + [f"warning: {line}" for line in leases_over(but=testbed)]


def all_remarks(experiment: Experiment) -> tuple[str, ...]:
    """Remarks on an experiment, and on changes of its code that are not committed."""
    changed = uncommitted_remark(experiment)
    return (*remarks(experiment), *([] if changed is None else [changed]))


def cost_remarks(cost: Cost | None) -> list[str]:
    """What it may cost, and whether what ends forgotten machines is awake; nothing where machines cost nothing."""
    if cost is None:
        return []
    from barograph.machines.reaper import health_warning

    warning = health_warning(time.time())
    return [*cost_lines(cost), *([warning] if warning else [])]


def _say_cost(series: Series, say: Say) -> None:
    """Print the cost beside its estimate."""
    from analysis.record.files import read_json

    estimates = read_json(SeriesPaths(series.folder).series_json).get("estimates", [])
    usage = holdings.usage_so_far(series)
    if not estimates or "used_usd" not in usage:
        return
    last = estimates[-1]
    before = last["spent_before_usd"]
    say(
        f"money: {usd(usage['used_usd'])} used for {usage['machine_hours']:.2f} machine-hours; estimated were about"
        f" {usd(before + last['expected_usd'])}, at most {usd(before + last['longest_usd'])}, of a budget of"
        f" {usd(usage['budget_usd'])}"
    )


def _end_interrupted(series: Series, child: DagProcess | None, view: View, ending: Ending) -> int:
    try:
        if child is not None:
            child.end(view)
    finally:
        _clean_up(series, child, view.say)
    view.say(f"{len(series.complete())} of {len(series.plan())} runs are complete in {series.folder}")
    _say_cost(series, view.say)
    # With every run there the same command would make the report too, but asks for the testbed first.
    view.say(
        f"to resume: {ending.resume}" if series.missing_runs() else f"to analyse it: barograph report {series.folder}"
    )
    return INTERRUPTED_EXIT


def _show_claims(series_dir: Path, console: Console) -> None:
    from barograph.cli.claims import show_claims

    show_claims(series_dir, console)


def headline(series_dir: Path) -> str:
    """The sentence that the series' report begins with; empty where there is none."""
    from analysis.report.index_page import headline_of

    return headline_of(SeriesPaths(series_dir))


def _finish(series: Series, status: SeriesStatus, code: int, console: Console, ending: Ending) -> int:
    say = line_printer(console)
    if status.report:
        ending.show(series.folder, console)
    _say_cost(series, say)
    if status.report:
        if answer := ending.answer(series.folder):
            say(answer)
        say(f"report: {status.report}")
    if code == INTERRUPTED_EXIT:
        return code
    if code != 0:
        blame, message = status.failure or _death(code)
        raise RunsFailed(f"{message}; log: {series.folder / 'harness.log'}", blame)
    return 0


def _death(code: int) -> tuple[str, str]:
    """Blame and message of a child that ended without a word."""
    said_by_code = {number: blame for blame, number in EXIT_CODES.items() if blame != "harness"}
    if code in said_by_code:
        return said_by_code[code], "the DAG's process could not begin, or not say why it failed"
    if code == -signal.SIGKILL:
        return "infrastructure", "the DAG's process was killed (SIGKILL; the kernel does that where memory is short)"
    return "harness", f"the DAG's process ended with {signal.Signals(-code).name if code < 0 else code}"
