"""Who holds a lease, a series or a night, and whether it still lives.

A holder is a process, or, with pid 0, work that lives in several processes one after the other: the tasks of a DAG.
Whether a process lives can be seen in its own `system`, the boot of a kernel and one of its process namespaces; there
its death counts at once. From anywhere else (another host, another container), and of work without a process, only the
heartbeat is known: the holder writes the time (epoch seconds) beside what it holds, every HEARTBEAT_S while it works,
and counts as dead HEARTBEAT_BOUND_S after the last. Between two tasks of a DAG nobody beats, so the bound is longer
than Airflow takes to notice a task whose worker died and to try it again.
"""

from dataclasses import dataclass
from pathlib import Path

HEARTBEAT_S = 30.0
HEARTBEAT_BOUND_S = 1200.0


@dataclass(frozen=True)
class Holder:
    """`born` names the process's birth (boot id and clock ticks), so a reused pid is no holder; with pid 0, the work.

    `system` is empty in records of before it was noted: those are of this one.
    """

    pid: int
    born: str
    system: str = ""

    def __str__(self) -> str:
        return f"process {self.pid}" if self.pid else f"DAG {self.born}"

    @property
    def is_visible(self) -> bool:
        """Whether its process can be seen from here."""
        return self.pid != 0 and self.system in ("", this_system())

    def is_alive(self, heartbeat_s: float, now_s: float) -> bool:
        """By its process where that can be seen, else by its heartbeat."""
        if self.is_visible:
            return self.born != "" and process_start(self.pid) == self.born
        return now_s - heartbeat_s <= HEARTBEAT_BOUND_S


def process_holder(pid: int) -> Holder:
    """A process of this system; `born` is empty where there is none."""
    return Holder(pid, process_start(pid), this_system())


def this_system() -> str:
    """The kernel's boot, and the namespace in which this process's ids count: containers of one host differ in it."""
    return f"{_boot()}/{Path('/proc/self/ns/pid').readlink()}"


def process_start(pid: int) -> str:
    """When the process was born: boot id and clock ticks since boot; empty if there is no such process."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # A zombie holds nothing: it is dead and only waits for its parent.
    return "" if after_name[0] in "ZX" else f"{_boot()}/{after_name[19]}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
