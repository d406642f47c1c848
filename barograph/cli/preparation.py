"""Prepare a series from a terminal before its first machine: check it, build what it needs, and open it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rich.console import Console

from analysis import java
from analysis.storage import maven
from barograph.cli.terminal import line_printer
from barograph.code.git import resolve_experiment, uncommitted_remark
from barograph.errors import BarographError, Say
from barograph.machines.provision import open_checked, reserve_testbed
from barograph.plan.durations import series_s
from barograph.plan.experiment import Experiment, load, with_changes
from barograph.series.progress import hours
from barograph.series.results import results, send_waiting
from barograph.series.series import Series, series_document
from barograph.settings import process_environment
from barograph.software import BRIDGE, TOPOLOGIES, build_jar, fetch_libraries, storm_home
from barograph.testbeds.checks import check, place_of, remarks
from inventory.local import rootfs

SIMULATED_INSTEAD = "a model of Storm needs only Python: `make simulated`, or `barograph run NAME --testbed simulated`"


def require_fit_box() -> None:
    """Raise BarographError with everything of this box that prevents a run."""
    from inventory.local import preflight

    problems = preflight.check_box()
    if reasons := [*map(str, problems), *java_problems()]:
        blame = problems[0].blame if problems else "configuration"
        raise BarographError(f"{'; '.join(reasons)}; {SIMULATED_INSTEAD}", blame)


def java_problems() -> list[str]:
    """Return the missing programs for building and submitting, beside the testbed's own programs."""
    problems = []
    if shutil.which("mvn") is None:
        problems.append("mvn is not installed; apt-get install maven")
    if shutil.which("java") is None and not process_environment().get("JAVA_HOME"):
        problems.append("Java 17 is not installed; apt-get install openjdk-17-jdk-headless")
    return problems


def software_parts() -> Mapping[str, Callable[[Say], object]]:
    """Return the builder of each part, in the order of building; a part that exists takes no time."""
    return {
        "root filesystem of the machines": lambda tell: rootfs.build(rootfs.cache_dir(), tell),
        "topologies (Java)": lambda tell: build_jar(TOPOLOGIES, tell),
        "scheduler bridge (Java)": lambda tell: build_jar(BRIDGE, tell),
        "Storm home": storm_home,
        "Python packages of masters": fetch_libraries,
        "Spark's reader of Avro": lambda tell: maven.avro_jar(rootfs.cache_dir(), tell),
    }


def prepare_software(say: Say) -> None:
    """Build every missing part; print what took more than a second."""
    for name, make in software_parts().items():
        begin_s = time.monotonic()
        make(say)
        took_s = time.monotonic() - begin_s
        if took_s > 1:
            say(f"{name}: ready after {took_s:.0f} s")


def prepare(name: str, changes: Mapping[str, Any], *, new: bool, console: Console, rebuild: bool = False) -> Series:
    """Validate the experiment with these changes and open its series."""
    return prepare_series(with_changes(load(name), changes), new=new, console=console, rebuild=rebuild)


def prepare_series(
    experiment: Experiment,
    *,
    new: bool,
    console: Console,
    rebuild: bool = False,
    before_open: Callable[[], None] = lambda: None,
) -> Series:
    """Check the experiment and this box, build the software, and open the series; no machine is touched. `rebuild`,
    `before_open`: see `open_checked`."""
    say = line_printer(console)
    experiment = resolve_experiment(experiment)
    place = place_of(experiment.testbed)
    if place == "this_box":
        require_fit_box()
    java.require()
    from barograph.machines.reaper import leases_over, require_all_released, sweep

    rows = sweep(dry_run=False, only=(experiment.testbed.name,))
    require_all_released(rows)
    for line in [f"reaped {row}" for row in rows] + [
        f"warning: {line}" for line in leases_over(but=experiment.testbed.name)
    ]:
        say(line)
    check(experiment)
    reserve_testbed(experiment)
    results().require()
    send_waiting(say)
    for remark in all_remarks(experiment):
        say(remark)
    build = partial(prepare_software, say) if place != "memory" else lambda: None
    series = open_checked(experiment, new=new, rebuild=rebuild, before_open=before_open, build=build, say=say)
    is_resumed = series_document(series.folder)["resumed"]
    word, remainder = "resuming" if is_resumed else "new", series.missing_runs()
    time_s = hours(series_s(experiment, remainder))
    say(f"{word} series {series.folder}: {remainder} of {len(series.plan())} runs to do, about {time_s}")
    return series


def all_remarks(experiment: Experiment) -> tuple[str, ...]:
    """Return remarks on an experiment, and on uncommitted changes of its code."""
    remark = uncommitted_remark(experiment)
    return (*remarks(experiment), *([] if remark is None else [remark]))
