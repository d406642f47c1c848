"""Disturbances of machines that go on running: less CPU, memory or network for a while, or the end of a worker. The
policy is not asked; the rest of the run shows its reaction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from barograph.plan.events.kind import (
    FAILOVER_S,
    Disturbance,
    EventTime,
    EventTimes,
    PlannedEvent,
    PlanSoFar,
    RunActions,
    Seconds,
)
from barograph.yaml_files import Word

WATCHED_S = 60.0  # after it, at least
BEGIN_S = 30.0  # until a disturbance has begun, or ended, on every machine


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


@dataclass(frozen=True, kw_only=True)
class MachineDisturbance(PlannedEvent):
    """A disturbance of machines, the base of the kinds below. Each defines the effect on its machines
    (`disturbance`)."""

    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before
    machines: Annotated[tuple[Word, ...], Field(min_length=1)]  # such as [m1, m2]; they are there by then
    for_s: Seconds | None = None  # from the event's zero; without it: until the run ends

    needs_end: ClassVar[bool] = False  # what it takes away is needed for the run to go on
    loses_machines: ClassVar[bool] = False  # Nimbus misses them after a while and places their tasks elsewhere
    fewest: ClassVar[int] = 1  # machines that it concerns
    phases: ClassVar[Mapping[str, str]] = {
        "disturb": "machines are disturbed",
        "recover": "waiting until every task runs again",
    }

    @property
    @abstractmethod
    def disturbance(self) -> Disturbance:
        """Return the effect on each of the machines."""

    @property
    def disturbances(self) -> Sequence[tuple[tuple[str, ...], Disturbance]]:
        return ((self.machines, self.disturbance),)

    @property
    def longest_s(self) -> float:
        return self.planned_s + 2 * BEGIN_S + (FAILOVER_S if self.for_s is not None else 0.0)

    @property
    def planned_s(self) -> float:
        return self.for_s or 0.0

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        field = f"events.{plan.place}"
        for name in self.machines:
            if name not in plan.names:
                yield f"{field}.machines has {name!r}; at that time there are {', '.join(plan.names) or 'none'}"
        if len(set(self.machines)) < max(self.fewest, len(self.machines)):
            yield f"{field}.machines is {', '.join(self.machines)}; allowed: {self.fewest} or more, each once"
        twice = sorted(name for name in self.machines if (self.disturbance.kind, name) in plan.lasting)
        if twice:
            yield (
                f"{field}.machines has {', '.join(twice)}, with such a disturbance since an earlier event; allowed:"
                " others, or give that one for_s"
            )
        if self.loses_machines and set(self.machines) >= set(plan.names):
            yield f"{field}.machines is {', '.join(self.machines)}; allowed: not all, for one must be left"
        if self.needs_end and self.for_s is None:
            yield f"{field}.for_s is missing; say after how many seconds it is over: a run does not end well in it"
        yield from length_errors(self.for_s, plan)

    def perform(self, run: RunActions) -> EventTimes:
        for name in self.machines:
            run.require_present(name)
        with run.phase("disturb", expected_s=self.for_s or 1, planned_s=self.planned_s):
            with run.zero(machines=list(self.machines)) as zero_s:
                run.disturb(self.machines, self.disturbance, lose=self.loses_machines)
            if self.for_s is None:
                return EventTimes(zero_s, run.now())
            run.wait_until(zero_s + self.for_s)
            run.end_disturbance(self.machines, self.disturbance)
            since_s = run.now()
        with run.phase("recover", expected_s=60 if self.loses_machines else 5):
            return run.wait_until_recovered(zero_s, since_s)

    def _words(self, what: str) -> str:
        return f"{what} {how_long(self.for_s)}"

    @property
    def _names(self) -> str:
        return " and ".join([*filter(None, [", ".join(self.machines[:-1])]), self.machines[-1]])


@dataclass(frozen=True, kw_only=True)
class CpuLoad(MachineDisturbance):
    """Something else computes on the machines, and has its share of their CPU."""

    cores: Annotated[float, Field(strict=True, gt=0, le=16)]  # that it would use by itself, on each machine
    kind: Literal["cpu_load"] = "cpu_load"

    @property
    def disturbance(self) -> Disturbance:
        return Disturbance("cpu_load", self.cores)

    def words(self) -> str:
        return self._words(f"a load of {self.cores:g} cores is on {self._names}")


@dataclass(frozen=True, kw_only=True)
class SlowCpu(MachineDisturbance):
    """The machines have a part of their cores only."""

    share: Annotated[float, Field(strict=True, gt=0, lt=1)]  # of the cores that the machine has
    kind: Literal["slow_cpu"] = "slow_cpu"

    @property
    def disturbance(self) -> Disturbance:
        return Disturbance("slow_cpu", self.share)

    def words(self) -> str:
        have = "have" if len(self.machines) > 1 else "has"
        return self._words(f"{self._names} {have} {100 * self.share:g} % of the CPU")


@dataclass(frozen=True, kw_only=True)
class MemoryLimit(MachineDisturbance):
    """The machines have less memory; what needs more is ended, the largest process first."""

    memory_mb: Annotated[int, Field(strict=True, ge=64, le=1_000_000)]  # of each machine
    kind: Literal["memory_limit"] = "memory_limit"

    loses_machines: ClassVar[bool] = True  # their supervisors may be what is ended

    @property
    def disturbance(self) -> Disturbance:
        return Disturbance("memory_limit", self.memory_mb)

    def words(self) -> str:
        return self._words(f"{self._names} {'have' if len(self.machines) > 1 else 'has'} {self.memory_mb} MB of memory")


@dataclass(frozen=True, kw_only=True)
class LanCut(MachineDisturbance):
    """The machines are cut off from the experiment LAN: from tuples, ZooKeeper and Nimbus. The control LAN stays. It
    needs `for_s`."""

    kind: Literal["lan_cut"] = "lan_cut"

    needs_end: ClassVar[bool] = True
    loses_machines: ClassVar[bool] = True

    @property
    def disturbance(self) -> Disturbance:
        return Disturbance("lan_cut")

    def words(self) -> str:
        return self._words(f"{self._names} {'are' if len(self.machines) > 1 else 'is'} off the experiment LAN")


@dataclass(frozen=True, kw_only=True)
class NetworkPartition(MachineDisturbance):
    """The machines, two or more, do not reach one another on the experiment LAN; everybody else reaches all of them."""

    kind: Literal["partition"] = "partition"

    fewest: ClassVar[int] = 2

    @property
    def disturbance(self) -> Disturbance:
        return Disturbance("partition")

    def words(self) -> str:
        return self._words(f"{self._names} do not reach one another")


@dataclass(frozen=True, kw_only=True)
class SampleLoss(MachineDisturbance):
    """No sample of these machines reaches the policy service; the files on them go on. It needs `for_s`."""

    kind: Literal["sample_loss"] = "sample_loss"

    needs_end: ClassVar[bool] = True

    @property
    def disturbance(self) -> Disturbance:
        return Disturbance("sample_loss")

    def words(self) -> str:
        return self._words(f"samples of {self._names} do not reach the policy service")


@dataclass(frozen=True)
class WorkerCrash(PlannedEvent):
    """A worker is killed; its machine's supervisor starts it again."""

    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before
    machine: Word  # such as m2; of its workers the one with the lowest port
    kind: Literal["worker_crash"] = "worker_crash"

    phases: ClassVar[Mapping[str, str]] = {
        "worker_crash": "a worker is killed",
        "recover": "waiting until every task runs again",
    }

    @property
    def longest_s(self) -> float:
        return BEGIN_S + FAILOVER_S

    def words(self) -> str:
        return f"a worker on {self.machine} is killed"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        if self.machine not in plan.names:
            subject = f"events.{plan.place}.machine is {self.machine!r}"
            yield f"{subject}; at that time there are {', '.join(plan.names) or 'none'}"

    def perform(self, run: RunActions) -> EventTimes:
        run.require_present(self.machine)
        with run.phase("worker_crash"):
            with run.worker_on(self.machine) as worker, run.zero(machine=self.machine, slot=worker.slot) as zero_s:
                worker.kill()
            since_s = run.now()
        with run.phase("recover", expected_s=30):
            return run.wait_until_recovered(zero_s, since_s)
