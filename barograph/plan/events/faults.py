"""Faults: a machine crashes, a worker ends, or machines have less CPU, memory or network for a while. The policy is not
asked; the rest of the run shows its reaction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from barograph.plan.events.kind import (
    FAILOVER_S,
    PLAYS_S,
    RESTART_S,
    Disturbance,
    DisturbanceKind,
    EventTimes,
    PlannedEvent,
    PlanSoFar,
    RunActions,
    Seconds,
    how_long,
    length_errors,
)
from barograph.yaml_files import Word

BEGIN_S = 30.0  # until a disturbance has begun, or ended, on every machine
ENDED_BY_A_CRASH = ("cpu_load", "slow_cpu", "memory_limit")


@dataclass(frozen=True)
class Crash(PlannedEvent):
    """A machine crashes and may come back; the policy is not asked."""

    machine: Word  # such as m2; it is there by then
    restart_after_s: Seconds | None = None  # from the crash; without it: it stays down
    kind: Literal["crash"] = "crash"

    crashes_machines: ClassVar[bool] = True
    phases: ClassVar[Mapping[str, str]] = {
        "crash": "a machine crashes",
        "recover": "waiting until every task runs again",
    }

    @property
    def down_for_good(self) -> tuple[str, ...]:
        return (self.machine,) if self.restart_after_s is None else ()

    @property
    def planned_s(self) -> float:
        return self.restart_after_s or 0.0

    @property
    def longest_s(self) -> float:
        """Return the longest: it boots in the event, or when the run's files are collected."""
        return RESTART_S + PLAYS_S["revive"]

    def words(self) -> str:
        restart = "stays down" if self.restart_after_s is None else f"boots {self.restart_after_s:g} s later"
        return f"{self.machine} crashes and {restart}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        """Yield errors: a restart belongs to its crash, before the crash's horizon and before the next event."""
        field = f"events.{plan.place}"
        if self.restart_after_s is None and plan.working == 1:
            yield f"{field} is the crash of the last machine; give it restart_after_s, or more machines"
        disturbed = sorted(kind for kind, name in plan.lasting if name == self.machine and kind in ENDED_BY_A_CRASH)
        if disturbed and self.restart_after_s is not None:
            yield f"{field}.machine is {self.machine}, which has a {disturbed[0]} without an end; a boot would end it"
        if self.machine not in plan.names:
            yield f"{field}.machine is {self.machine!r}; at that time there are {', '.join(plan.names) or 'none'}"
        if self.restart_after_s is not None and self.restart_after_s >= plan.limit_s:
            yield (
                f"{field}.restart_after_s is {self.restart_after_s:g}; allowed: less than {plan.limit_field}"
                f" ({plan.limit_s:g})"
            )

    def perform(self, run: RunActions) -> EventTimes:
        """Wait until Storm runs every task again, on other machines or on this one, or the time is over."""
        run.require_present(self.machine)
        with run.phase("crash", expected_s=self.restart_after_s or 2, planned_s=self.planned_s):
            with run.zero("crashed", machine=self.machine) as zero_s:
                run.crash(self.machine)
            since_s = zero_s
            if self.restart_after_s is not None:
                run.wait_until(zero_s + self.restart_after_s)
                run.restart(self.machine)
                run.note("restarted", machine=self.machine)
                since_s = run.now()
        with run.phase("recover", expected_s=60):
            return run.wait_until_recovered(zero_s, since_s, *self.down_for_good)


@dataclass(frozen=True, kw_only=True)
class MachineDisturbance(PlannedEvent):
    """A disturbance of machines, the base of the kinds below, which are called as the disturbance is."""

    machines: Annotated[tuple[Word, ...], Field(min_length=1)]  # such as [m1, m2]; they are there by then
    for_s: Seconds | None = None  # from the event's zero; without it: until the run ends

    amount: ClassVar[str | None] = None  # the field with the disturbance's amount
    text: ClassVar[str]  # for people, with the machines as `names`, `has` or `have`, the amount and `percent`
    needs_end: ClassVar[bool] = False  # what it takes away is needed for the run to go on
    loses_machines: ClassVar[bool] = False  # Nimbus misses them after a while and places their tasks elsewhere
    fewest: ClassVar[int] = 1  # machines that it concerns
    phases: ClassVar[Mapping[str, str]] = {
        "disturb": "machines are disturbed",
        "recover": "waiting until every task runs again",
    }

    @property
    @abstractmethod
    def kind(self) -> DisturbanceKind: ...

    @property
    def disturbance(self) -> Disturbance:
        """Return the effect on each of the machines."""
        return Disturbance(self.kind, None if self.amount is None else getattr(self, self.amount))

    @property
    def disturbances(self) -> Sequence[tuple[tuple[str, ...], Disturbance]]:
        return ((self.machines, self.disturbance),)

    def words(self) -> str:
        names = " and ".join([*filter(None, [", ".join(self.machines[:-1])]), self.machines[-1]])
        verbs = {"has": "has", "is_": "is"} if len(self.machines) == 1 else {"has": "have", "is_": "are"}
        amount = self.disturbance.amount or 0
        text = self.text.format(names=names, amount=amount, percent=100 * amount, **verbs)
        return f"{text} {how_long(self.for_s)}"

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


@dataclass(frozen=True, kw_only=True)
class CpuLoad(MachineDisturbance):
    """Something else computes on the machines, and has its share of their CPU."""

    cores: Annotated[float, Field(strict=True, gt=0, le=16)]  # that it would use by itself, on each machine
    kind: Literal["cpu_load"] = "cpu_load"

    amount, text = "cores", "a load of {amount:g} cores is on {names}"


@dataclass(frozen=True, kw_only=True)
class SlowCpu(MachineDisturbance):
    """The machines have a part of their cores only."""

    share: Annotated[float, Field(strict=True, gt=0, lt=1)]  # of the cores that the machine has
    kind: Literal["slow_cpu"] = "slow_cpu"

    amount, text = "share", "{names} {has} {percent:g} % of the CPU"


@dataclass(frozen=True, kw_only=True)
class MemoryLimit(MachineDisturbance):
    """The machines have less memory; what needs more is ended, the largest process first."""

    memory_mb: Annotated[int, Field(strict=True, ge=64, le=1_000_000)]  # of each machine
    kind: Literal["memory_limit"] = "memory_limit"

    amount, text = "memory_mb", "{names} {has} {amount} MB of memory"
    loses_machines = True  # their supervisors may be what is ended


@dataclass(frozen=True, kw_only=True)
class LanCut(MachineDisturbance):
    """The machines are cut off from the experiment LAN: from tuples, ZooKeeper and Nimbus. The control LAN stays. It
    needs `for_s`."""

    kind: Literal["lan_cut"] = "lan_cut"

    text = "{names} {is_} off the experiment LAN"
    needs_end = True
    loses_machines = True


@dataclass(frozen=True, kw_only=True)
class NetworkPartition(MachineDisturbance):
    """The machines, two or more, do not reach one another on the experiment LAN; everybody else reaches all of them."""

    kind: Literal["partition"] = "partition"

    text = "{names} do not reach one another"
    fewest = 2


@dataclass(frozen=True, kw_only=True)
class SampleLoss(MachineDisturbance):
    """No sample of these machines reaches the policy service; the files on them go on. It needs `for_s`."""

    kind: Literal["sample_loss"] = "sample_loss"

    text = "samples of {names} do not reach the policy service"
    needs_end = True


@dataclass(frozen=True)
class WorkerCrash(PlannedEvent):
    """A worker is killed; its machine's supervisor starts it again."""

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
