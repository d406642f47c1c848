"""The state of a run (`GET /state`): the policy service makes it, the harness reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ServiceDecision:
    decision_id: str
    t: float
    event_id: str | None
    reason: str
    applied: bool  # the bridge has said so for each topology
    applied_t: float | None  # with `applied` false: it failed for one topology at least
    message: str
    release: tuple[str, ...] = ()  # machines that may leave once this is applied
    expired: bool = False  # Nimbus never reported its outcome
    arrived: bool = True  # Nimbus has it; one that did not arrive may be withdrawn
    slots: tuple[str, ...] | None = None  # whose workers restart for it; None: any may
    own: bool = False  # the policy acted by itself, in a hold
    applied_to: tuple[str, ...] = ()  # topology ids

    def restarts(self, slot: str, t: float, until_s: float) -> bool:
        """Return whether a worker that begins in this slot then does so for this decision, `until_s` after it was
        applied."""
        applied_s = math.inf if self.applied_t is None else self.applied_t
        return self.t <= t <= applied_s + until_s and (self.slots is None or slot in self.slots)


@dataclass(frozen=True)
class PolicyRequest:
    """A machine request of the policy, and its outcome."""

    request_id: str
    kind: str  # acquire, release
    number: int
    machines: tuple[str, ...]  # to leave; of `acquire` those that joined, once it is done
    t: float
    reason: str = ""  # the policy's
    decision_id: str | None = None
    outcome: str = "under_way"  # done, refused, failed
    why: str = ""
    ended_t: float | None = None
    times: int = 1  # vain requests in a row for the same reason
    ready: bool = False  # it should be carried out now


@dataclass(frozen=True)
class WorkerRestart:
    """A new process in a slot, or of spouts; these were gone meanwhile."""

    t: float
    slot: str
    spouts: tuple[int, ...] = ()  # their tasks
    topology: str = ""


@dataclass(frozen=True)
class LostTasks:
    """Tasks that lost their slots on these machines, without a rebalance under way."""

    t: float
    tasks: int
    machines: tuple[str, ...]
    topology: str = ""


@dataclass(frozen=True)
class Move:
    """Tasks that changed their slots without a rebalance, in the round after `t`: these slots' workers restart for
    it."""

    t: float
    slots: tuple[str, ...]


@dataclass(frozen=True)
class TupleCounts:
    """Tuples a second, a row each `step_s` seconds, oldest first; columns of equal length; None where unmeasured."""

    t: tuple[float, ...] = ()  # ends of rows
    throughput: tuple[float | None, ...] = ()  # where the topology's is measured
    sinks: tuple[float | None, ...] = ()
    due: tuple[float | None, ...] = ()  # at spouts
    queues: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # waiting tuples by component
    step_s: int = 1


@dataclass(frozen=True)
class TopologyStatus:
    name: str  # in Storm
    series: TupleCounts
    running: bool = True  # Nimbus had it in the newest round
    rebalancing: bool = False
    tasks_placed: int = 0
    tasks_total: int = 0
    placed_among: tuple[str, ...] = ()  # machines that Nimbus knew when it first had the topology to place
    unplaceable: bool = False  # the policy was asked, and found no slot for it
    unplaced_why: str | None = None  # the reason of Storm's own scheduler for executors without a slot
    samples_age_s: float | None = None  # None: a worker has not sent any
    window_fault: str = ""  # why its rates cannot be used for a decision
    workers_reporting: int = 0


@dataclass(frozen=True)
class RunSnapshot:
    """A run at one time. Numbers beside `topologies` are sums over the run."""

    run_id: str
    t: float
    policy: str
    machines: tuple[str, ...]  # alive, as Nimbus has them
    samples_age_s: float | None  # the oldest of those that have a place
    workers_reporting: int
    tasks_placed: int
    tasks_total: int
    pending_event: str | None
    decisions: tuple[ServiceDecision, ...]
    policy_error: str | None
    held: str | None = None  # why the pending event has no decision yet
    input_rate_factor: float = 1.0
    nimbus_age_s: float | None = None  # since Nimbus last asked in this run; None: not yet
    worker_restarts: tuple[WorkerRestart, ...] = ()
    lost_tasks: tuple[LostTasks, ...] = ()
    moves: tuple[Move, ...] = ()
    window_fault: str = ""  # why rates cannot be used for a decision
    topologies: tuple[TopologyStatus, ...] = ()  # all that there were in the run, oldest first
    machine_requests: tuple[PolicyRequest, ...] = ()  # oldest first
    sample_s: int = 1  # how often workers write
    policy_hang: Mapping[str, str] | None = None  # `run_id` and `why`, of the service process before this one
    machines_since: Mapping[str, float] = field(default_factory=dict)  # of `machines`, the first round that had each
    damaged_lines: int = 0  # posted, and not the contract's

    def open_request(self) -> PolicyRequest | None:
        """Return the machine request that is under way, whether or not it is ready."""
        return next((each for each in self.machine_requests if each.outcome == "under_way"), None)

    def all_placed(self) -> bool:
        """Return whether every task has a slot, except for topologies that can get none."""
        unplaceable_tasks = sum(each.tasks_total - each.tasks_placed for each in self.topologies if each.unplaceable)
        return 0 < self.tasks_placed == self.tasks_total - unplaceable_tasks

    def topology(self, name: str) -> TopologyStatus | None:
        """Return a topology by its name in Storm; None before the policy service has seen it."""
        return next((each for each in self.topologies if each.name == name), None)


def oldest(ages: Sequence[float | None]) -> float | None:
    """Return the highest age; None if one is unknown, or without ages."""
    numbers = [age for age in ages if age is not None]
    return max(numbers) if numbers and len(numbers) == len(ages) else None
