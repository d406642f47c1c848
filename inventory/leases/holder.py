"""Holders of leases, series and nights, and whether they live.

A holder is a process, or, with pid 0, work that lives in several processes one after the other: the tasks of a DAG.
Whether a process lives can be seen in its own `system`, the boot of a kernel and one of its process namespaces; there
its death counts at once. From anywhere else (another host, another container), and of work without a process, only the
heartbeat is known: the holder writes the time (epoch seconds) beside what it holds, every HEARTBEAT_S while it works,
and counts as dead HEARTBEAT_BOUND_S after the last. Between two tasks of a DAG only the reaper DAG beats, so the bound
is longer than Airflow takes to notice a task whose worker died and to try it again. A heartbeat that is as far in the
future counts as little: the clock was set back since, and a living holder has written it anew by then.
"""

import os
from dataclasses import dataclass
from pathlib import Path

HEARTBEAT_S = 30.0
HEARTBEAT_BOUND_S = 1200.0
PROC = Path("/proc")


@dataclass(frozen=True)
class Holder:
    """A holder. `born` names the process's birth (boot id and clock ticks), so that a reused pid does not count; with
    pid 0, the work. `run` names the run of a DAG: one process, or one DAG, may have several side by side (a backfill).
    """

    pid: int
    born: str
    system: str = ""
    run: str = ""

    def __str__(self) -> str:
        return (f"process {self.pid}" if self.pid else f"DAG {self.born}") + (f", run {self.run}" if self.run else "")

    @property
    def is_visible(self) -> bool:
        """Return True if its process can be seen from here."""
        return self.pid != 0 and self.system == this_system() and not _is_hidden(self.pid)

    @property
    def is_dead(self) -> bool:
        """Return True if its process is seen to be gone."""
        return self.is_visible and (self.born == "" or process_start(self.pid) != self.born)

    def is_alive(self, heartbeat_s: float, now_s: float) -> bool:
        """Judge by its process where that can be seen, else by its heartbeat; a run of a DAG by both, for the process
        outlives it."""
        return not self.is_dead and ((self.is_visible and not self.run) or is_recent(heartbeat_s, now_s))

    @property
    def dag_run(self) -> tuple[str, str] | None:
        """Return the DAG and its run; None for a process alone."""
        if self.pid == 0:
            return self.born, self.run
        dag, _, run = self.run.partition(" ")
        return (dag, run) if run else None


def is_recent(heartbeat_s: float, now_s: float) -> bool:
    return abs(now_s - heartbeat_s) <= HEARTBEAT_BOUND_S


def process_holder(pid: int) -> Holder:
    """Return the holder for a process of this system; `born` is empty where there is none."""
    return Holder(pid, process_start(pid), this_system())


def this_system() -> str:
    """Return the kernel's boot and this process's pid namespace: containers of one host differ in it."""
    return f"{_boot()}/{Path('/proc/self/ns/pid').readlink()}"


def process_start(pid: int) -> str:
    """Return the process's birth: boot id and clock ticks since boot; empty if it does not exist, or is hidden."""
    try:
        after_name = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
    # A zombie holds nothing: it is dead and only waits for its parent.
    return "" if after_name[0] in "ZX" else f"{_boot()}/{after_name[19]}"


def _is_hidden(pid: int) -> bool:
    """Return True if there is such a process that /proc does not show: it may be mounted to hide other users'."""
    if os.access(PROC / str(pid) / "stat", os.R_OK):
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
