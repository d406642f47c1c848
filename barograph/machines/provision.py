"""Open a series that can be run, take its lease and acquire its machines. Cleans up after itself: a failed setup has no
teardown.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from barograph.code.git import resolve_experiment
from barograph.errors import CapacityError, NotReleased, Say, TestbedTaken, message_of
from barograph.machines import holdings, series_lease
from barograph.machines.reaper import health_warning
from barograph.machines.series_lease import remove_cluster_files
from barograph.plan.experiment import Experiment, TestbedChoice, load, with_changes
from barograph.series.interruption import step
from barograph.series.progress import ProgressFile
from barograph.series.series import STOP_FILE, Series, open_series, series_of_dag_run
from barograph.series.variant_code import prepare_code
from barograph.settings import holder
from barograph.testbeds.checks import check, testbed_of, testbed_without_options
from barograph.testbeds.costs import Cost, cost_lines
from inventory import TESTBEDS
from inventory.files import replace_file
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.testbed import Testbed

log = logging.getLogger(__name__)


def require_free_testbed(experiment: Experiment) -> None:
    """Raise TestbedTaken where somebody uses it; a shared testbed is refused to nobody."""
    name = experiment.testbed.name
    if testbed_of(experiment.testbed).shared:
        return
    now = time.time()
    live = next((each for each in registry.read_all() if each.testbed == name and registry.is_live(each, now)), None)
    if live is not None:
        raise TestbedTaken(registry.in_use_message(live, now), registry.lease_file(live.lease_id))


_reserved: dict[Path, BaseFileLock] = {}  # the kernel ends them with this process


def reserve_testbed(experiment: Experiment) -> None:
    """Require a free testbed, and reserve it until this process ends: two commands started together would
    both find it free. For commands only; a DAG waits for the lease (`dags.wiring`).
    """
    require_free_testbed(experiment)
    testbed = experiment.testbed.name
    lock = registry.state_dir() / "leases" / f".{testbed}.lock"
    if testbed_of(experiment.testbed).shared or lock in _reserved:
        return
    user, file = lock.with_suffix(".user"), FileLock(lock, blocking=False)
    try:
        file.acquire()
    except Timeout:
        who = user.read_text() if user.exists() else "another process"
        raise TestbedTaken(
            f"testbed {testbed} is in use: {who} prepares a series on it, or reports on one; wait for it, or end that"
            " process"
        ) from None
    _reserved[lock] = file
    replace_file(user, f"process {os.getpid()} of {_owner()}")


def provision(series_dir: Path) -> str:
    """Acquire all machines of the series, or none; returns the lease's id."""
    with step(series_dir, first=_release_earlier) as series:
        experiment, progress = series.experiment, ProgressFile(series_dir)
        testbed = ready_testbed(experiment.testbed)
        progress.tell("phase", phase="provision", expected_s=20)
        lease = _take_lease(series, testbed)
        try:
            acquired = series_lease.acquire(series, testbed, lease)
        except BaseException as error:
            try:
                series_lease.release(series_dir, lease, testbed)
            except Exception as failure:  # noqa: BLE001 - a note of the original error, which matters more
                text = _left_message(lease, failure)
                error.add_note(text)
                progress.tell("message", text=text)
                log.warning("%s", text)
            raise
        log.info("series %s: %d machines under lease %s", series.series_id, len(acquired), lease.lease_id)
        return lease.lease_id


def _take_lease(series: Series, testbed: Testbed) -> Lease:
    """Take the lease. Raises TestbedTaken where another series has it, or left it."""
    lasts_s = series.experiment.lease_minutes * 60
    try:
        return registry.take(
            _owner(), series.series_id, testbed.name, lasts_s, site=testbed.site(), shared=testbed.shared,
            holder=holder(),
        )  # fmt: skip
    except CapacityError as error:
        rivals = [lease for lease in registry.read_all() if lease.testbed == testbed.name]
        raise TestbedTaken(message_of(error), registry.lease_file(rivals[0].lease_id) if rivals else None) from error


def _release_earlier(series_dir: Path) -> None:
    """Release the machines of a cleared setup task, which runs twice: they must not stay beside the new ones.

    Clearing interrupts the current run, which asks the series to stop; the user who clears wants it to go on.
    """
    earlier = _lease_on_record(series_dir)
    if earlier is not None:
        if not _is_ours(earlier):
            raise TestbedTaken(registry.in_use_message(earlier, time.time()), registry.lease_file(earlier.lease_id))
        release(series_dir)
    (series_dir / STOP_FILE).unlink(missing_ok=True)


def release(series_dir: Path, say: Say | None = None) -> None:
    """Give the machines back; nothing happens where that was done before.

    Raises NotReleased, which says what is left and how to end it, also where another living execution has them. `say`
    reports to a waiting caller; None: to the series' progress.
    """
    lease = _lease_on_record(series_dir)
    if lease is None:
        return
    if not _is_ours(lease):
        if lease.series_id == series_dir.name:
            minutes = max(1, round((lease.expires_s - time.time()) / 60))
            raise NotReleased(
                f"lease {lease.lease_id} on testbed {lease.testbed} is not released: its holder, {lease.holder}, is"
                f" alive and is not the one releasing it ({holder()}); its machines stay for at most {minutes} min;"
                " stop that holder, then run `barograph reap`"
            )
        log.warning("series %s: lease %s is of %s, not released", lease.series_id, lease.lease_id, lease.holder)
        return
    progress = ProgressFile(series_dir)
    progress.tell("phase", phase="release", expected_s=3)
    try:
        tell = say or (lambda text: progress.tell("message", text=text))
        series_lease.release(series_dir, lease, testbed_without_options(lease.testbed), tell)
        remove_cluster_files(lease.lease_id)
    except Exception as error:
        failure = NotReleased(_left_message(lease, error))
        progress.tell("step_failed", blame=failure.blame, message=message_of(failure))
        raise failure from error
    log.info("series %s: lease %s released", lease.series_id, lease.lease_id)


def release_own(series_dir: Path) -> None:
    """Release as `release` does, but keep machines of another living execution."""
    lease = _lease_on_record(series_dir)
    if lease is not None and _is_ours(lease):
        release(series_dir)


def _lease_on_record(series_dir: Path) -> Lease | None:
    """Return the lease of the series' machines; None where none were taken, or they were given back. A step that was
    killed before it noted its lease leaves it in the registry alone."""
    saved = series_lease.saved_lease(series_dir)
    lease = registry.read(saved.lease_id) if saved else None
    return lease or next((each for each in registry.read_all() if each.series_id == series_dir.name), None)


def _is_ours(lease: Lease) -> bool:
    """Return whether this execution has taken it, or its holder is dead."""
    return lease.holder == holder() or not registry.is_live(lease, time.time())


def _left_message(lease: Lease, error: BaseException) -> str:
    machines = ", ".join(registry.lease_machines(lease)) or "its machines"
    return (
        f"lease {lease.lease_id} on testbed {lease.testbed} could not be released, {machines} may still be up:"
        f" {message_of(error)}; `barograph reap` ends them, and the reaper's next pass tries to"
    )


def _owner() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def ready_testbed(choice: TestbedChoice) -> Testbed:
    """Return a testbed that can acquire: machines on this box mount the software, others get it built first."""
    testbed = testbed_of(choice)
    if testbed.place == "memory":
        return testbed
    from barograph.software import build_for_machines, mounts

    if testbed.place == "elsewhere":
        build_for_machines(log.info)
        return testbed
    return TESTBEDS[choice.name](mounts=mounts(log.info), options=choice.options.get(choice.name))


log = logging.getLogger(__name__)


def open_requested(name: str, changes: Mapping[str, Any], *, new: bool, again: bool = False) -> Path:
    """Validate the request and open its series. Nothing is started."""
    experiment = resolve_experiment(with_changes(load(name), changes))
    check(experiment)
    return open_checked(experiment, new=new, again=again).folder


def open_checked(
    experiment: Experiment,
    *,
    new: bool,
    again: bool = False,
    rebuild: bool = False,
    before_open: Callable[[], None] = lambda: None,
    build: Callable[[], None] = lambda: None,
    say: Say = log.info,
) -> Series:
    """Open a series of an experiment that `check` accepted. No machine is touched.

    `again`: a task that has opened it is repeated. `before_open` runs once the testbed is known to be free, and before
    the remaining runs are counted and priced. `build` builds what the runs need beside the code of variants; `rebuild`:
    that code is built again, even if it failed before.
    """
    if again and (repeated := series_of_dag_run(experiment)) is not None:
        release_own(repeated.folder)  # of this request before: it would wait for itself
        new = False
    require_free_testbed(experiment)
    before_open()
    cost = holdings.estimate_cost(experiment, new=new)
    for line in cost_remarks(cost):
        say(line)
    build()
    prepare_code(experiment, say, rebuild=rebuild)
    return open_series(experiment, new=new, again=again, estimate=cost.as_data() if cost else None)


def cost_remarks(cost: Cost | None) -> list[str]:
    """Return what it may cost, and whether the reaper runs; nothing where machines cost nothing."""
    if cost is None:
        return []
    warning = health_warning(time.time())
    return [*cost_lines(cost), *([warning] if warning else [])]
