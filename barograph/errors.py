"""Failures with a message for the user, of every package; `blame` says whose failure it was and decides about repeating
and exit codes. A class of its own has only an error that somebody catches by its kind; any other failure is one of the
first four.

BarographError (harness, or as it says)
├── ConfigurationError (configuration)   the user's to mend; nothing was started
│   └── ExperimentError                  the YAML or an option cannot be run
├── CapacityError (capacity)             no machines, disk or memory: elsewhere or later
├── InfrastructureError (infrastructure) a machine, a network or ssh failed
├── InUse (capacity)                     another run has it; `file` is gone when it has not
│   └── TestbedTaken                     another series holds the testbed
├── DiskFull (capacity)
├── BudgetSpent (capacity)               the next run could cost more than the rest
├── MachineLost (infrastructure)         nobody asked it to die
│   └── MachineRecalled                  its owner takes it away (a spot interruption)
├── NotReleased (infrastructure)         machines of a series could not be given back
├── NoFreshSamples (infrastructure)      measuring stopped while the machines live
├── OutcomeUnknown (infrastructure)      nobody says what became of a decision
├── ServiceRestarted (infrastructure)    the policy service ended during the run and began anew
├── RunInvalid (infrastructure)          something else than the variant placed, or the load was not the plan's
├── RunBroken (system_under_test)        Storm or the policy failed: a result
│   └── PolicyHung                       one call of it ended the calling process; the next one reports it
└── RunsFailed                           as the worst run of the series
Interrupted (KeyboardInterrupt)          somebody asked for the end
"""

from __future__ import annotations

import errno
import socket
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

BLAMES = ("configuration", "capacity", "infrastructure", "system_under_test", "harness")
EXIT_CODES = {"configuration": 2, "capacity": 3, "infrastructure": 4, "system_under_test": 5, "harness": 1}
INTERRUPTED_EXIT = 130
POSTGRESQL_DISK_FULL = "53100"
REGRESSION_EXIT = 6  # for a night that confirmed one: nobody's failure
SEVERITY = ("harness", "configuration", "capacity", "infrastructure", "system_under_test")  # the worst first

Say = Callable[[str], None]  # a line for a waiting user: printed, or recorded in the progress of a series


class BarographError(Exception):
    blame = "harness"

    def __init__(self, message: str = "", blame: str | None = None) -> None:
        """Set the message and `blame`: one of `BLAMES`; None: that of the class."""
        super().__init__(message)
        if blame is not None:
            self.blame = blame


class ConfigurationError(BarographError):
    blame = "configuration"


class CapacityError(BarographError):
    blame = "capacity"


class InfrastructureError(BarographError):
    blame = "infrastructure"


class ExperimentError(ConfigurationError):
    pass


class InUse(BarographError):
    blame = "capacity"

    def __init__(self, message: str, file: Path | None = None) -> None:
        """Set the message and the file that marks the use; None: no file does."""
        super().__init__(message)
        self.file = file


class TestbedTaken(InUse):
    __test__ = False  # pytest would collect it by its name


class DiskFull(BarographError):
    blame = "capacity"


class BudgetSpent(BarographError):
    blame = "capacity"


class MachineLost(BarographError):
    blame = "infrastructure"


class MachineRecalled(MachineLost):
    pass


class NotReleased(BarographError):
    blame = "infrastructure"


class NoFreshSamples(BarographError):
    blame = "infrastructure"


class OutcomeUnknown(BarographError):
    blame = "infrastructure"


class ServiceRestarted(BarographError):
    blame = "infrastructure"


class RunInvalid(BarographError):
    blame = "infrastructure"


class RunBroken(BarographError):
    blame = "system_under_test"


class PolicyHung(RunBroken):
    def __init__(self, policy: str, why: str) -> None:
        super().__init__(f"the policy {policy} failed: {why}")


class RunsFailed(BarographError):
    pass


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or a parent that is gone; not an `Exception`, so that nothing mistakes it for a failure."""


def blame_of(error: BaseException) -> str:
    """Return one of `BLAMES`; an error without one is ours."""
    if _full_disk(error):
        return "capacity"
    if _is_unresolved_name(error):
        return "infrastructure"
    blame = getattr(error, "blame", "harness")
    return blame if blame in BLAMES else "harness"


def _is_unresolved_name(error: BaseException) -> bool:
    return isinstance(getattr(error, "reason", error), socket.gaierror)  # urllib's errors have it as their reason


def _full_disk(error: BaseException) -> str:
    """Return which disk is full; empty for any other error. SQLAlchemy wraps the error of a database's driver."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return str(error.filename or error.strerror)
    cause = getattr(error, "orig", error)
    is_sqlite = isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    codes = (getattr(cause, "pgcode", None), getattr(cause, "sqlstate", None))  # psycopg2's, and the others'
    return "of Airflow's database" if is_sqlite or POSTGRESQL_DISK_FULL in codes else ""


def worst_exit(codes: Sequence[int]) -> int:
    """Return the exit code of several executions: an interruption, else the worst failure, else 0."""
    order = [INTERRUPTED_EXIT, *(EXIT_CODES[blame] for blame in SEVERITY), 0]
    return min(codes, key=order.index, default=0)


def message_of(error: BaseException) -> str:
    """Return the message in one line, never empty."""
    if place := _full_disk(error):
        return f"the disk is full ({place}): free some space, then run again to resume"
    text = " ".join(str(error).split())
    if _is_unresolved_name(error):
        return f"a host name does not resolve ({text}): check /etc/hosts and the DNS of this machine, then run again"
    if blame_of(error) == "harness" and not isinstance(error, BarographError):
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text or type(error).__name__
