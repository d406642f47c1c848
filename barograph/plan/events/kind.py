"""The contract of an event kind: the declarations of one file, and the actions of a run to perform it. Pure.

A kind is a frozen dataclass in this folder whose fields are the keys of the experiment's YAML, and a line in `KINDS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field

from barograph.plan.events.courses import Course

LONGEST_S = 7 * 86_400  # of anything in an experiment: no lease is longer
Seconds = Annotated[float, Field(strict=True, gt=0, le=LONGEST_S)]
MachineNumber = Annotated[int, Field(strict=True, ge=1, le=250)]
EventTime = Literal["steady"] | Seconds
"""`steady`, or seconds: after the first tuple for the first event, after the zero of the one before for the others."""

# The longest that each play may take, in seconds: its scripts' own waits, and twice the rest
# on the slowest machines measured.
PLAYS_S: Mapping[str, float] = {
    "deploy": 1800,  # packages of a first boot (10 min) and apt's lock (5 min); Storm goes over the user's own way out
    "extend": 1200,  # as deploy, and the master has Storm already
    "switch": 300,  # two jars; Nimbus and the service have 90 s to answer
    "reset": 180,  # Nimbus has 30 s to forget the topology, workers 15 s to end, supervisors 60 s to register
    "submit": 300,  # a jar; Flux is a JVM of its own on a fraction of a core, and has 120 s
    "join": 120,  # Nimbus has 60 s to know them
    "leave": 120,
    "revive": 120,
    "kill": 90,  # Nimbus has 30 s
    "collect": 600,  # the record of two days from many machines
    "stop": 120,
}

# The longest that a step of an event may take.
REGISTER_S = 60.0
APPLY_S = 90.0  # until the policy has decided
DRAIN_S = 60.0
FRESH_SAMPLES_S = 45.0  # a worker that began just before needs 30 s of work, whose lines may be 10 s late
FAILOVER_S = 180.0  # Storm needs up to two minutes to notice a dead machine and place its tasks again
SCALE_ATTEMPTS = 3  # an operation that was aborted is repeated (SP III-B)
# From a decision until its outcome is known: the policy service gives up 75 s after Nimbus has received it, and
# the run ends where Nimbus is silent for 60 s; a Nimbus that takes over has the 75 s anew.
OUTCOME_S = 75.0 + 60.0 + 75.0 + 5.0
LONGEST_SCALE_S = (
    FRESH_SAMPLES_S + (SCALE_ATTEMPTS - 1) * FAILOVER_S + SCALE_ATTEMPTS * (APPLY_S + OUTCOME_S)
)  # all attempts
RESTART_S = 120.0  # of a crashed machine: boot and first connection
GIVE_BACK_S = 600.0  # of machines that leave; EC2 takes the longest to let them go

HORIZON_FIELD = "durations.horizon_s"
EVENT_LINE = "event_performed"  # kind of the line in events.jsonl at the zero of an event that has no line of its own


DisturbanceKind = Literal["cpu_load", "slow_cpu", "memory_limit", "lan_cut", "partition", "sample_loss"]


@dataclass(frozen=True)
class Disturbance:
    """A disturbance of a machine that goes on running.

    `cpu_load`: another process that would use `amount` cores by itself. `slow_cpu`: it has the share `amount` of its
    cores. `memory_limit`: it has `amount` MB. `lan_cut`: it is off the experiment LAN. `partition`: its messages to the
    other machines there are lost. `sample_loss`: its messages to the others' control addresses are lost.
    """

    kind: DisturbanceKind
    amount: float | None = None


@dataclass(frozen=True)
class EventTimes:
    """The times of an event, in epoch seconds; before `begin_s` one sees the event, not its outcome."""

    zero_s: float
    begin_s: float | None  # None: the topology did not work again in time, for `reason`
    reason: str = ""


@dataclass(frozen=True)
class RunningWorker:
    """A worker that can be killed at once; `kill` raises ExperimentError where it has ended by itself."""

    slot: str
    kill: Callable[[], None]


@dataclass(frozen=True)
class PlanSoFar:
    """The state of the plan at an event. The policy chooses which machines leave, so `names` may have some that
    left."""

    place: int  # of the event in `events`
    working: int  # machines in the cluster and up
    names: tuple[str, ...]  # of all machines that joined and are not down for good
    limit_s: float  # what the event starts is over by then, counted from its zero
    limit_field: str  # the field that sets this limit
    lasting: frozenset[tuple[str, str]] = frozenset()  # (kind, machine) of disturbances that last until the run ends
    topologies: tuple[str, ...] = ()  # of the experiment, by their names in Storm
    running: tuple[str, ...] = ()  # of these, the ones that are there
    is_held: bool = False  # by a hold that lasts until the run ends
    rest_s: float = math.inf  # from the event's zero until the run ends, at most


class RunActions(Protocol):
    """The actions of a run for an event of its plan. Errors carry `blame`."""

    @property
    def joining(self) -> tuple[str, ...]:
        """Return the names of the machines that join at this event."""

    def now(self) -> float: ...

    def phase(self, name: str, expected_s: float = 0.0, planned_s: float = 0.0) -> AbstractContextManager[object]:
        """Time the block as a phase of the run; its words are in `PlannedEvent.phases`. `planned_s`: the part that the
        plan asks for; the rest is the harness's."""

    def zero(
        self, line: str = EVENT_LINE, *, at_s: float | None = None, **facts: object
    ) -> AbstractContextManager[float]:
        """Set the event's zero (epoch seconds), now or just before. After the block, events.jsonl gets this line."""

    def note(self, line: str, **facts: object) -> None:
        """Write another line into events.jsonl."""

    def wait_until(self, t: float) -> None:
        """Wait until that time (epoch seconds); raises errors that occur meanwhile."""

    def require_present(self, machine: str) -> None:
        """Raise ExperimentError where the policy has released this machine."""

    def add_machines(self, machines: Sequence[str]) -> None:
        """Boot the machines if they are not up, and add them to the cluster; returns when Nimbus knows them."""

    def scale(self, kind: str, joined: Sequence[str] = (), leave: int = 0) -> tuple[EventTimes, tuple[str, ...]]:
        """Ask the policy until its answer is applied; return the times and the machines that it released."""

    def decide_every(self, seconds: float | None) -> None:
        """Let the policy act by itself from now on, at this interval, and ask for machines within the experiment's
        limits; None: no longer. Then its last decision is carried out, and its last request refused."""

    def remove_machines(self, machines: Sequence[str]) -> None:
        """Remove the machines from the cluster once no task is on them."""

    def change_rate(self, factor: float) -> None:
        """Let the spouts emit `factor` times the rate of the submission from now on."""

    def begin_course(self, course: Course, topology: str | None, source: str | None) -> float:
        """Let the rate of these sources (None: of all) follow this course from its zero on, regardless of other events,
        until another one begins; returns the zero, when it has come."""

    def trace_file(self, sha256: str) -> Path:
        """Return the series' copy of a trace. Raises ExperimentError where it has changed."""

    def crash(self, machine: str) -> None:
        """Cut the machine's power; its disk stays."""

    def restart(self, machine: str) -> None:
        """Boot a crashed machine; returns when Nimbus knows it."""

    def disturb(self, machines: Sequence[str], disturbance: Disturbance, *, lose: bool) -> None:
        """Disturb the machines from now on, at most until the run ends. `lose`: Nimbus may miss them meanwhile."""

    def end_disturbance(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        """End the disturbance; returns when Nimbus knows the machines."""

    def worker_on(self, machine: str) -> AbstractContextManager[RunningWorker]:
        """Yield the worker with the lowest port there; raises ExperimentError where none runs."""

    def submit(self, topology: str) -> None:
        """Submit the experiment's topology of that name; returns when Nimbus has accepted it."""

    def kill(self, topology: str) -> None:
        """Kill the topology; returns when Nimbus has forgotten it."""

    def wait_until_running(self, topology: str, zero_s: float) -> EventTimes:
        """Wait until its first tuple reached a sink; `begin_s` is None where the event's horizon comes before."""

    def wait_until_recovered(self, zero_s: float, since_s: float, down: str | None = None) -> EventTimes:
        """Wait until every task runs again and has sent samples since `since_s`, with `down` no longer known to Nimbus.

        A topology that needs longer than the event's horizon is a result: `begin_s` is None then.
        """


@dataclass(frozen=True)
class PlannedEvent(ABC):
    """A kind of event; a subclass is a frozen dataclass whose constants below say what differs from these."""

    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before

    asks_policy: ClassVar[bool] = False  # the policy decides; `Policy.events` says which kinds it answers
    is_hold: ClassVar[bool] = False  # the policy acts by itself
    crashes_machines: ClassVar[bool] = False  # needs a testbed with inventory's SupportsFaults
    phases: ClassVar[Mapping[str, str]] = {}  # phases of a run that belong to this kind, in words for people

    @property
    @abstractmethod
    def kind(self) -> str:
        """Return its key in `KINDS`; a field in each kind."""

    @property
    def disturbances(self) -> Sequence[tuple[tuple[str, ...], Disturbance]]:
        """Return the disturbances of machines; they need a testbed with inventory's SupportsDisturbances."""
        return ()

    @property
    def joins(self) -> int:
        """Return the number of machines that join the cluster."""
        return 0

    @property
    def leaves(self) -> int:
        """Return the number of machines that leave the cluster."""
        return 0

    @property
    def down_for_good(self) -> tuple[str, ...]:
        """Return machines that stay in the cluster and never work again."""
        return ()

    @property
    def arrives(self) -> tuple[str, ...]:
        """Return the topologies that are submitted."""
        return ()

    @property
    def departs(self) -> tuple[str, ...]:
        """Return the topologies that are killed."""
        return ()

    @property
    def planned_s(self) -> float:
        """Return the seconds that the plan gives the event itself, before the watch that follows."""
        return 0.0

    @property
    @abstractmethod
    def longest_s(self) -> float:
        """Return the longest, without boots and without the watch that follows."""

    @abstractmethod
    def words(self) -> str:
        """Return a text for people, such as `scale out by 1 machine`."""

    def errors(self, plan: PlanSoFar) -> Iterator[str]:  # noqa: ARG002 - most kinds are possible everywhere
        """Yield the reasons why the event is impossible at this place; each names field, value and what is allowed."""
        yield from ()

    @abstractmethod
    def perform(self, run: RunActions) -> EventTimes: ...


WATCHED_S = 60.0  # after an event of some length, at least


def how_long(for_s: float | None, otherwise: str = "until the run ends") -> str:
    return otherwise if for_s is None else f"for {for_s:g} s"


def length_errors(for_s: float | None, plan: PlanSoFar) -> Iterator[str]:
    """Yield errors of a length: the watch follows the disturbance, so an event at a fixed time must come after both."""
    if for_s is None:
        return
    field, most_s, limit = f"events.{plan.place}.for_s", plan.limit_s - WATCHED_S, f"{plan.limit_field}"
    if most_s <= 0:
        yield f"{field} is {for_s:g}; allowed: none, for {limit} ({plan.limit_s:g}) leaves no {WATCHED_S:g} s after it"
    elif for_s > most_s:
        limit_text = f"at most {most_s:g}, {WATCHED_S:g} s less than {limit}"
        yield f"{field} is {for_s:g}; allowed: {limit_text}, for what comes after it is measured"
