"""Henge: as much utility as the cluster can give to all topologies together (Kalim et al., HP 4.2 to 4.4).

It acts by itself, in a hold, one step at a time. A step is judged by the sum of utilities once they are quiet again:
*reconfigure* gives executors to the congested components of one topology that misses its level; *reduce* takes them
from satisfied ones, where the step before lost utility and most machines are overloaded; *revert* goes back to the best
configuration so far. Where nothing is left to do the cluster is *converged*, until utility falls.

Parameters are the paper's; where its authors' code differs, the value to give is named. What the paper leaves open:

- sums are compared over the topologies that both have: one that was killed, or has no input, takes no part
- a topology that does not run for `patience_s` has utility 0, so a step that ends its own topology has lost utility
- a gain is a share of the topology's utility before the step (the authors' code: of its largest utility)
- a job that comes or goes makes past configurations incomparable, so they are forgotten, as after a drop (HP 4.3.3)
- to revert is to give every component the executors that it had, unless utility is higher now; configurations of
  machines that are gone are left out; where none is left, the search goes on
- after a time without samples the step before it is not judged: what changed meanwhile is not its doing
- a topology that misses its level and has no congested component that could grow is passed over
- an executor stays where its first task was; a new one goes to the worker of its topology with the fewest executors, of
  several to the machine with the fewest
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from scheduler_plugins.model import ActionKind, Component, Decision, Memory, Observation, Topology, WorkerMachine
from scheduler_plugins.policies import ds2, initial_placement, scaling
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number
from scheduler_plugins.service_level import MET, observed_utility

Executors = Mapping[str, int]  # component → executors
Configuration = Mapping[str, Executors]  # topology → component → executors
REMEMBERED = 5  # best configurations: the next is taken where machines of the best are gone
RECONFIGURE: ActionKind = "reconfigure"
REDUCE: ActionKind = "reduce"
REVERT: ActionKind = "revert"


@dataclass(frozen=True)
class HengeParameters:
    """Thresholds of HP 4.2 to 4.3, as shares, and times in seconds."""

    capacity: float = 0.3  # of a congested component's busiest executor (HP 4.2)
    extra: float = 10.0  # executors for each capacity threshold above it (eq. 4)
    most_extra: int = 1_000_000  # executors for a component in one step; the authors' code has 100
    reduction: float = 0.8  # of an un-congested component's executors, which are taken
    least_gain: float = 0.05  # of the topology's utility; with less it is left alone for `blacklist_s`
    blacklist_s: float = 3600.0
    step_drop: float = 0.0  # of the sum of utilities: a step with more is a loss; the authors' code has 0.09
    drop: float = 0.05  # of a converged cluster, until past steps are forgotten
    quiet_s: float = 60.0  # after a step, until utilities are judged
    patience_s: float = 300.0
    rest_s: float = 0.0  # between two reconfigurations of a topology; the authors' code has 300
    rounds: int = 4  # without anything to do, until the cluster is converged
    new_data_s: float = 300.0  # of samples after a time without them, until it acts again (HP 7.5.2)
    uptime_s: float = 0.0  # of a topology until it is touched; the authors' code has 900
    initial: initial_placement.InitialRule = "round_robin"
    max_samples_age_s: float = 10.0  # older samples are none

    def __post_init__(self) -> None:
        check_parameters(
            self,
            {
                "capacity": (0.01, 1), "reduction": (0.01, 0.99), "least_gain": (0, 1), "drop": (0, 1),
                "step_drop": (0, 1), "rest_s": (0, 1e6), "uptime_s": (0, 1e6), "new_data_s": (0, 1e5),
            },
        )  # fmt: skip
        check_whole_number("most_extra", self.most_extra, 1, 1_000_000)
        check_whole_number("rounds", self.rounds, 1, 1000)


@dataclass(frozen=True)
class HengeStep:
    """A step that is not judged yet. `utilities`: of the topologies before it, by name."""

    kind: str
    t: float
    names: Sequence[str]
    utilities: Mapping[str, float]


@dataclass(frozen=True)
class PastConfiguration:
    """A configuration, and the utilities that were measured when it was left."""

    utilities: Mapping[str, float]
    executors: Configuration
    machines: Sequence[str]


@dataclass(frozen=True)
class HengeMemory:
    """What Henge remembers between rounds: JSON data. Keys are names of topologies."""

    jobs: Sequence[str] = ()  # ids, so that a job that was submitted again is another one
    converged: Mapping[str, float] | None = None  # utilities when the cluster converged; None: it is not
    step: HengeStep | None = None
    idle_rounds: int = 0
    blacklist: Mapping[str, float] = field(default_factory=dict)  # until when
    reconfigured: Mapping[str, float] = field(default_factory=dict)  # when it was last
    down: Mapping[str, float] = field(default_factory=dict)  # since when it does not run
    reduced: Sequence[str] = ()
    is_after_reduction: bool = False  # no step since has kept or raised utility
    best: Sequence[PastConfiguration] = ()
    silent_t: float | None = None  # when samples were missing last

    @staticmethod
    def read(memory: Memory) -> HengeMemory:
        if not memory:
            return HengeMemory()
        step, best = memory["step"], memory["best"]
        parts = {"step": step and HengeStep(**step), "best": [PastConfiguration(**each) for each in best]}
        return HengeMemory(**{**memory, **parts})


def decide(observation: Observation, memory: Memory, parameters: HengeParameters = HengeParameters()) -> Decision:
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    if first is not None or not observation.may_act:
        return first or Decision(memory=memory)
    return _Round(initial_placement.with_slots(observation), HengeMemory.read(memory), parameters).decide()


class _Round:
    """One round: what is observed now, beside what is remembered."""

    def __init__(self, observation: Observation, memory: HengeMemory, parameters: HengeParameters) -> None:
        self.observation, self.parameters, self.now = observation, parameters, observation.time_s
        self.jobs = {each.name: each for each in observation.topologies if each.service_level is not None}
        measured = {name: observed_utility(each) for name, each in self.jobs.items() if not each.rebalancing}
        self.utilities = {name: value for name, value in measured.items() if value is not None}
        down = {name: memory.down.get(name, self.now) for name, each in self.jobs.items()
                if each.rebalancing or each.window_fault}  # fmt: skip
        self.utilities |= {name: 0.0 for name, since in down.items() if self.now - since >= parameters.patience_s}
        self.memory = replace(memory, down=down)

    def decide(self) -> Decision:
        if not self.jobs:
            return self._keep("no topology has a service level")
        if why := self._silence():
            return self._keep(why)
        self._notice_jobs()
        step = self.memory.step
        if step is not None:
            if why := self._waits_for(step):
                return self._keep(why)
            if (decision := self._judge(step)) is not None:
                return decision
        elif self.memory.converged is not None and not self._is_shaken(self.memory.converged):
            return self._keep("converged")
        return self._reconfigure() or self._converge()

    def _silence(self) -> str:
        """Return why there are no data to act on: samples are missing, or were until shortly (HP 7.5.2)."""
        step = self.memory.step
        stepped = step.names if step is not None and self.now - step.t < self.parameters.quiet_s else ()
        running = [
            each for each in self.jobs.values()
            if not (each.rebalancing or each.name in stepped or _is_new(each, self.parameters.quiet_s))
        ]  # fmt: skip
        # One job may be silent for reasons of its own; where all are, it is the way to them.
        limit_s = self.parameters.max_samples_age_s
        if running and all(scaling.samples_problem(each.samples_age_s, limit_s) for each in running):
            self.memory = replace(self.memory, silent_t=self.now, step=None)
            return "no samples of any topology"
        if self.memory.silent_t is not None:
            rest_s = self.memory.silent_t + self.parameters.new_data_s - self.now
            if rest_s > 0:
                return f"{rest_s:.0f} s more of new samples after a time without any"
            self.memory = replace(self.memory, silent_t=None)
        return ""

    def _notice_jobs(self) -> None:
        jobs = sorted(each.topology_id for each in self.jobs.values())
        if list(self.memory.jobs) != jobs:
            staying = {each.name for each in self.jobs.values() if each.topology_id in self.memory.jobs}
            blacklist = {name: until for name, until in self.memory.blacklist.items() if name in staying}
            self.memory = replace(self._forgotten(), jobs=jobs, blacklist=blacklist)

    def _forgotten(self) -> HengeMemory:
        """Return the memory without past steps (HP 4.3.3)."""
        return replace(
            self.memory, converged=None, idle_rounds=0, blacklist={}, reduced=(), is_after_reduction=False, best=()
        )

    def _waits_for(self, step: HengeStep) -> str:
        passed_s = self.now - step.t
        if passed_s < self.parameters.quiet_s:
            return f"utilities settle after {step.kind} of {', '.join(step.names)}"
        if missing := [name for name in step.names if name in self.memory.down and name not in self.utilities]:
            return f"{', '.join(missing)} does not run again since its {step.kind}"
        return ""

    def _judge(self, step: HengeStep) -> Decision | None:
        """Judge the latest step by the sum of utilities; return a reduction or reversion if it has lost utility."""
        common = sorted(self.utilities.keys() & step.utilities.keys())
        before, after = (sum(each[name] for name in common) for each in (step.utilities, self.utilities))
        has_lost = after < before * (1 - self.parameters.step_drop) - 1e-9
        self.memory = replace(self.memory, step=None)
        if step.kind == RECONFIGURE:
            (name,) = step.names
            gain, least = self.utilities.get(name, 0.0) - step.utilities[name], self.parameters.least_gain
            if name in common and not self._is_met(name) and (gain <= 0 or gain < least * step.utilities[name]):
                until = self.now + self.parameters.blacklist_s
                self.memory = replace(self.memory, blacklist={**self.memory.blacklist, name: until})
            if has_lost:
                why = f"utility fell from {before:.4g} to {after:.4g}"
                if not _most_overloaded(self.observation.machines):
                    return self._revert(why)
                why += ", most machines are overloaded"
                return self._reduce(why) or self._revert(f"{why} and nothing can be reduced")
            self.memory = replace(self.memory, is_after_reduction=False)
        return self._settled() if step.kind == REVERT else None

    def _is_met(self, name: str) -> bool:
        level = self.jobs[name].service_level
        return level is not None and self.utilities.get(name, 0.0) >= level.max_utility * MET

    def _is_shaken(self, converged: Mapping[str, float]) -> bool:
        """Return whether a converged cluster must be looked at again: utility fell, or a satisfied job is no more."""
        common = self.utilities.keys() & converged.keys()
        before, now = (sum(each[name] for name in common) for each in (converged, self.utilities))
        if now < before * (1 - self.parameters.drop):
            self.memory = self._forgotten()
            return True
        met = {name: value for name, value in self.utilities.items() if self._is_met(name)}
        if any(
            name not in met and converged.get(name, math.inf) >= _most(self.jobs[name]) * MET for name in self.utilities
        ):
            self.memory = replace(self.memory, converged=None, idle_rounds=0)
            return True
        self.memory = replace(self.memory, converged={**converged, **met})
        return False

    def _reconfigure(self) -> Decision | None:
        """Give executors to the first topology that misses its level and can use them (HP 4.3.1)."""
        blacklist = {name: until for name, until in self.memory.blacklist.items() if until > self.now}
        self.memory = replace(self.memory, blacklist=blacklist)
        resting = ""
        for topology in self._missing():
            name = topology.name
            executors = {each.name: n for each in topology.components if (n := self._grown(each)) > len(each.executors)}
            if not executors or name in blacklist:
                continue
            rest_s = self.memory.reconfigured.get(name, -math.inf) + self.parameters.rest_s - self.now
            if rest_s > 0:
                resting = resting or f"{name} rests for {rest_s:.0f} s more"
                continue
            self.memory = replace(self.memory, reconfigured={**self.memory.reconfigured, name: self.now})
            return self._step(RECONFIGURE, {name: executors}, f"at {self.utilities[name]:.3g}")
        return self._keep(resting) if resting else None

    def _missing(self) -> list[Topology]:
        """Return topologies that miss their level: the most valuable first, of equals that with the least utility."""
        missing = [
            each for name, each in self.jobs.items()
            if name in self.utilities and not self._is_met(name) and not _is_new(each, self.parameters.uptime_s)
        ]  # fmt: skip
        return sorted(missing, key=lambda each: (-_most(each), self.utilities[each.name], each.name))

    def _grown(self, component: Component) -> int:
        """Return the executors of a component after a reconfiguration (eq. 4)."""
        number, threshold = len(component.executors), self.parameters.capacity
        if component.kind != "bolt" or component.capacity is None or component.capacity <= threshold:
            return number
        congestion = min(1.0, component.capacity) / threshold - 1
        extra = math.ceil(round(congestion * self.parameters.extra, 9))  # 0.39 / 0.3 is above 1.3
        return min(len(component.tasks), number + min(extra, self.parameters.most_extra))

    def _reduce(self, why: str) -> Decision | None:
        """Take executors from satisfied topologies, once from each (HP 4.3.2); None where none has any to give, or no
        step since the last reduction has kept utility."""
        if self.memory.is_after_reduction:
            return None
        reduced = {
            name: executors for name, each in self.jobs.items()
            if self._is_met(name) and name not in self.memory.reduced and not each.rebalancing
            and not _is_new(each, self.parameters.uptime_s)
            and (executors := {part.name: self._shrunk(part) for part in each.components if self._can_shrink(part)})
        }  # fmt: skip
        if not reduced:
            return None
        reduced_jobs = [*self.memory.reduced, *reduced]
        self.memory = replace(self.memory, reduced=reduced_jobs, is_after_reduction=True)
        return self._step(REDUCE, reduced, why)

    def _can_shrink(self, component: Component) -> bool:
        is_idle = component.capacity is not None and component.capacity <= self.parameters.capacity
        return component.kind == "bolt" and is_idle and self._shrunk(component) < len(component.executors)

    def _shrunk(self, component: Component) -> int:
        return max(1, math.ceil(len(component.executors) * (1 - self.parameters.reduction) - 1e-9))

    def _revert(self, why: str) -> Decision | None:
        """Go back to the best past configuration, and take the cluster for converged (HP 4.3.3); None: none is left."""
        alive = {machine.name for machine in self.observation.machines if machine.alive}
        past = max(
            (each for each in self.memory.best if alive.issuperset(each.machines)), key=self._total, default=None
        )
        if past is None:
            return None
        total = self._total(past)
        changes = {name: each for name, topology in self.jobs.items()
                   if (each := _differences(topology, past.executors.get(name, {})))}  # fmt: skip
        if not changes or total <= sum(self.utilities.values()):
            return self._settled(f"{why}; the configuration is the best so far")
        changes = {name: each for name, each in changes.items() if not self.jobs[name].rebalancing}
        return self._step(REVERT, changes, f"{why}; {total:.4g} was the best") if changes else None

    def _total(self, past: PastConfiguration) -> float:
        """Return the utility of a past configuration, of the topologies that are measured now."""
        return sum(past.utilities.get(name, 0.0) for name in self.utilities)

    def _converge(self) -> Decision:
        """Count a round without anything to do; after enough of them go back to the best, or rest."""
        if missing := sorted(self.memory.down.keys() - self.utilities.keys()):
            return self._keep(f"no rates of {', '.join(missing)}")
        idle = self.memory.idle_rounds + 1
        self.memory = replace(self.memory, idle_rounds=idle)
        if idle < self.parameters.rounds:
            return self._keep(f"nothing to do in {idle} of {self.parameters.rounds} rounds")
        total = sum(self.utilities.values())
        best = max(map(self._total, self.memory.best), default=total)
        is_less = best * (1 - self.parameters.drop) > total
        return (is_less and self._revert(f"nothing more to gain at {total:.4g}")) or self._settled()

    def _settled(self, why: str = "") -> Decision:
        self.memory = replace(self.memory, converged=self.utilities, idle_rounds=0)
        return self._keep(why or f"converged at {sum(self.utilities.values()):.4g}")

    def _step(self, kind: ActionKind, changes: Configuration, why: str) -> Decision:
        """Return the decision of a step, and remember what it leaves."""
        best = self.memory.best
        if not self.memory.down.keys() - self.utilities.keys():
            left = PastConfiguration(
                self.utilities, {name: _executors(each) for name, each in self.jobs.items()},
                sorted(machine.name for machine in self.observation.machines if machine.alive),
            )  # fmt: skip
            best = sorted((*best, left), key=lambda past: -self._total(past))[:REMEMBERED]
        step = HengeStep(kind, self.now, sorted(changes), self.utilities)
        self.memory = replace(self.memory, step=step, best=best, idle_rounds=0, converged=None)
        executors = {self.jobs[name].topology_id: changes[name] for name in changes}
        words = "; ".join(f"{name}: {', '.join(_changes(self.jobs[name], changes[name]))}" for name in sorted(changes))
        placement = ds2.placements(self.observation, executors)
        return replace(self._keep(f"{kind}: {words} ({why})"), executors=executors, placement=placement, kind=kind)

    def _keep(self, reason: str) -> Decision:
        return Decision(memory=asdict(self.memory), reason=reason)


def _most(topology: Topology) -> float:
    return topology.service_level.max_utility if topology.service_level is not None else 0.0


def _is_new(topology: Topology, least_s: float) -> bool:
    return topology.uptime_s is not None and topology.uptime_s < least_s


def _executors(topology: Topology) -> Executors:
    return {each.name: len(each.executors) for each in topology.components if each.kind == "bolt"}


def _differences(topology: Topology, executors: Executors) -> Executors:
    now = _executors(topology)
    return {name: number for name, number in executors.items() if now.get(name, number) != number}


def _changes(topology: Topology, executors: Executors) -> Iterator[str]:
    return (f"{name} {len(topology.component(name).executors)}→{number}" for name, number in executors.items())


def _most_overloaded(machines: Sequence[WorkerMachine]) -> bool:
    """Return whether on most living machines more threads want a CPU than there are cores (HP 4.3.2)."""
    living = [machine for machine in machines if machine.alive]
    overloaded = [m for m in living if m.runnable is not None and m.cores is not None and m.runnable > m.cores]
    return len(overloaded) > len(living) / 2
