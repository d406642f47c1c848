"""DoDo: groups of machines to which components belong, that lend to each other, grow and shrink (Wu, DT 6.2 and 7.1.1).

DT was built on Apache S4: its PE type is a component here, its logical cluster a group of machines, its event a tuple.
A component's executors are spread evenly over the machines of its group. In a hold the policy acts by itself: it moves
components from the group with the most load to the one with the least (algorithm 1), and lets groups grow and shrink
(algorithm 2). At a reschedule it deals all components out anew (6.2.1). A group with a spout is one of generators: no
component goes there, and none leaves.

The load of a component is the CPU time that its tuples need (6.2: rate times processing time), in cores; a group's is
the sum over its machines' cores (eq. 1; DT's have one), and a load series has a value for each period of the latest
`series_s`, of which it acts on half at least. Where DT is silent, or at odds with itself:

- the threshold of the correlation, the waits and the window are those of the author's code; those of loads are ours
- ES_PE of algorithm 1 is a share of the group's average: only then does N1 / N2 turn it into what the other one gets
- a load that varies by less than a thousandth has no correlation: it counts as 0; a group without load may always
  receive
- algorithm 1 makes a list for each pair, and 6.2.2 says that each group sends one component at a time, as in figure
  23: one is the default of `most_moves`
- "without capacity" (6.4) is only said to maximise the correlation: without line 7, one component of a pair moves
  however little room the other group has, which gives both moves of figure 23 (b)
- algorithm 2 keeps one I_L for all groups, so that one may get what another needs: each has its own here, and groups
  take turns, since a request is under way until its machines have joined
- growth is rounded up: with whole numbers as printed, one machine never becomes two
- line 11 would take more machines than a group has where k < 1. By its text the load afterwards is k times the maximum:
  a group shrinks by I_C · (1 − ES_C / (k · maximum)), rounded down, to two machines at least
- Threshold_Capacity limits all groups together, as in its text: the experiment's `machines.max`
- a component with fewer tasks than its group has machines is on some of them only; eq. 1 and algorithm 2 do not see
  that
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, pstdev
from typing import Any, Literal

from scheduler_plugins.model import (
    Component,
    Decision,
    Memory,
    Observation,
    Slot,
    Topology,
    executor_ranges,
    living_slots,
    unplaced_tasks,
)
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number

Loads = Mapping[str, Sequence[float]]  # component → load in each period, in cores
FEWEST = 2  # machines that a group has after it shrank (algorithm 2, line 9)


@dataclass(frozen=True)
class DodoParameters:
    """Loads as shares of a machine's core, times in seconds."""

    components: Mapping[str, Sequence[str]] = field(default_factory=dict)  # group → components at the start
    begin: Mapping[str, int] = field(default_factory=dict)  # group → machines that it keeps as the hold begins
    balance: bool = True  # algorithm 1
    autoscale: bool = False  # algorithm 2
    capacity: bool = True  # false: algorithm 1 without its line 7 (DT 6.4, "w/o capacity")
    most_moves: int = 1  # components of a pair in one decision
    load_difference: float = 0.2  # of two groups, above which components move
    correlation: float = 0.0  # of two groups, below which components move
    max_load: float = 0.6  # of a group, above which it grows: on small machines a worker takes the rest for itself
    min_load: float = 0.2  # below which it shrinks
    ideal: float = 0.8  # k: load after it shrank, as a share of `max_load`
    window_s: int = 60  # of the rates
    series_s: float = 300.0  # of load series
    period_s: float = 10.0  # of one value in them
    every_s: float = 60.0  # between two decisions
    rest_after_move_s: float = 600.0
    rest_after_launch_s: float = 120.0  # T_launch, and T_shutdown
    executors_per_machine: int = 1  # of a component
    rate: Literal["executed", "arriving"] = "executed"  # λ of a load: what is queued or dropped counts as arriving only
    time: Literal["cpu", "processing"] = "cpu"  # p of a load: of the executors' threads, or from take to done
    max_samples_age_s: float = 10.0

    def __post_init__(self) -> None:
        rests = dict.fromkeys(("rest_after_move_s", "rest_after_launch_s"), (0, 1e6))
        check_parameters(self, {"load_difference": (0, 1e6), "correlation": (-1, 1.01), "ideal": (0.01, 1), **rests})
        check_whole_number("window_s", self.window_s, *scaling.WINDOW_BOUNDS_S)
        check_whole_number("most_moves", self.most_moves, 1, 1000)
        check_whole_number("executors_per_machine", self.executors_per_machine, 1, 1000)
        if self.min_load >= self.ideal * self.max_load:
            ideal = f"ideal · max_load = {self.ideal * self.max_load:g}"
            raise ValueError(f"min_load is {self.min_load!r}; allowed is a number below {ideal}, or groups swing")
        for group, number in self.begin.items():
            check_whole_number(f"begin.{group}", number, 1, 250)
        if not all(isinstance(each, list | tuple) for each in self.components.values()):
            raise ValueError(f"components is {self.components!r}; allowed are lists of components by group")
        names = [name for each in self.components.values() for name in each]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"components has {twice!r} twice; allowed is one group for a component")


@dataclass(frozen=True)
class DodoMemory:
    """What DoDo remembers between rounds: JSON data."""

    groups: Mapping[str, str] = field(default_factory=dict)  # component → group
    machines: Mapping[str, str] = field(default_factory=dict)  # machine that joined → group
    gone: Sequence[str] = ()  # machines that were released
    loads: Loads = field(default_factory=dict)
    times: Sequence[float] = ()  # of the values in `loads`
    acts_from_s: float = 0.0
    spreads_from_s: float = 0.0  # when a change that failed may be tried again
    most: int = 250  # machines to request at once: half of what was refused or failed last
    has_begun: bool = False
    growing: str | None = None  # the group that the machines of the latest request are for
    requests: Sequence[str] = ()  # ids of those that are over
    resized: str | None = None  # the group that grew or shrank last


def decide(observation: Observation, memory: Memory, parameters: DodoParameters = DodoParameters()) -> Decision:
    if len(observation.topologies) != 1 or not observation.groups:
        first = initial_placement.initial_decision(observation, memory, "round_robin")
        held = "held: DoDo is for one topology on groups of machines" if observation.may_act else ""
        return first or Decision(memory=memory, reason=held)
    return _DodoRound(observation, DodoMemory(**memory), parameters).decide()


class _DodoRound:
    """One round: the topology and the groups now."""

    def __init__(self, observation: Observation, memory: DodoMemory, parameters: DodoParameters) -> None:
        self.observation, self.parameters, self.now = observation, parameters, observation.time_s
        (self.topology,) = observation.topologies
        if not memory.groups:
            groups = groups_of_components(self.topology, observation.groups, parameters.components)
            memory = replace(memory, groups=groups)
        if observation.failures:
            memory = replace(memory, spreads_from_s=self.now + parameters.every_s)
        for request in observation.machine_requests:
            if request.outcome == "under_way" or request.request_id in memory.requests:
                continue
            is_done, is_acquired = request.outcome == "done", request.kind == "acquire"
            present = request.machines if is_done == is_acquired else ()  # joined, or could not leave; names come again
            joined = dict.fromkeys(present, memory.growing) if is_acquired and memory.growing is not None else {}
            memory = replace(
                memory, requests=[*memory.requests[-9:], request.request_id],
                machines={name: group for name, group in memory.machines.items() if name not in joined} | joined,
                gone=[name for name in memory.gone if name not in present],
                most=250 if is_done or not is_acquired else max(1, request.number // 2),
            )  # fmt: skip
        self.memory = memory
        # Nimbus may take a machine that is slow for a dead one: while it has tasks it counts.
        living = {machine.name for machine in observation.machines if machine.alive} - set(memory.gone)
        living |= {slot.machine for slot in self.topology.placement.values()} - set(memory.gone)
        starting = {name: group for group, names in observation.groups.items() for name in names}
        assigned = {name: group for name, group in starting.items() if name not in memory.machines}
        assigned |= memory.machines  # those that joined come last
        self.machines: dict[str, list[str]] = {group: [] for group in observation.groups}
        for name, group in assigned.items():
            if name in living:
                self.machines[group].append(name)
        generators = {memory.groups[each.name] for each in self.topology.components if each.kind == "spout"}
        self.working = [group for group, names in self.machines.items() if names and group not in generators]

    def decide(self) -> Decision:
        if self.topology.rebalancing:
            return self._keep("a change is under way")
        if unplaced := unplaced_tasks(self.topology):
            placement = {task: slot for task, slot in self._layout()[1].items() if task in set(unplaced)}
            return self._change({}, placement, f"placed {len(placement)} unplaced tasks in their groups")
        problem = scaling.rates_problem(self.observation, self.parameters.max_samples_age_s)
        if not problem:
            self._take_loads()
        if scaling.is_asked(self.observation):
            return self._keep(f"held: {problem}") if problem else self._deal_out()
        if not self.observation.may_act:
            return self._keep("")
        limits = self.observation.machine_limits
        if not self.memory.has_begun:
            self.memory = replace(self.memory, has_begun=True)
            most = {group: self.parameters.begin.get(group, len(names)) for group, names in self.machines.items()}
            leaving = tuple(name for group, names in self.machines.items() for name in names[most[group] :])
            if leaving := leaving[: limits.now - limits.min if limits else 0]:
                return self._release(
                    leaving, "groups begin with " + ", ".join(f"{group} {n}" for group, n in most.items())
                )
        executors, placement = self._layout()
        if (executors or placement) and self.now >= self.memory.spreads_from_s:
            return self._change(executors, placement, "components are spread over the machines of their groups")
        times = self.memory.times
        if not problem and (not times or self.now - times[-1] > 2 * self.parameters.period_s):
            problem = "the CPU time of a component is not measured"
        elif not problem and self.now - times[0] < self.parameters.series_s / 2 - self.parameters.period_s:
            problem = "load series are too short"
        if problem or self.now < self.memory.acts_from_s:
            return self._keep(problem or f"acts again in {self.memory.acts_from_s - self.now:.0f} s")
        move = self._move() if self.parameters.balance else None
        return move or (self._resize() if self.parameters.autoscale else None) or self._rest()

    def _keep(self, reason: str) -> Decision:
        return Decision(memory=vars(self.memory), groups=self.memory.machines, reason=reason)

    def _rest(self) -> Decision:
        self.memory = replace(self.memory, acts_from_s=self.now + self.parameters.every_s)
        return self._keep(f"loads are {self._words()}")

    def _change(
        self, executors: Mapping[str, int], placement: Mapping[int, Slot], reason: str, **more: Any
    ) -> Decision:
        topology_id = self.topology.topology_id
        executors_of = {topology_id: executors} if executors else {}
        memory, groups = vars(self.memory), self.memory.machines
        return Decision(executors_of, {topology_id: placement}, memory=memory, groups=groups, reason=reason, **more)

    def _take_loads(self) -> None:
        """Add a value to each series, unless a period is not over or a load is unknown."""
        times = [t for t in self.memory.times if t > self.now - self.parameters.series_s]
        loads = {each.name: self._load(each) for each in self.topology.components if each.kind == "bolt"}
        if (times and self.now - times[-1] < self.parameters.period_s - 0.5) or None in loads.values():
            return
        before = {name: list(series)[len(series) - len(times) :] for name, series in self.memory.loads.items()}
        series = {name: [*before.get(name, ()), load] for name, load in loads.items() if load is not None}
        self.memory = replace(self.memory, loads=series, times=[*times, self.now])

    def _load(self, component: Component) -> float | None:
        executed, used = component.executed_per_s, [each.cpu_load for each in component.executors]
        if executed == 0 and None in used:  # it had no tuple yet
            return 0.0
        if self.parameters.time == "processing":
            used = [executed and component.execute_ms and executed * component.execute_ms / 1000]
        load = None if None in used else sum(each for each in used if each is not None)
        if self.parameters.rate == "executed" or not load or not executed:
            return load
        arriving = sum(edge.tuples_per_s or 0.0 for edge in self.topology.edges if edge.target == component.name)
        return load * arriving / executed

    def _members(self) -> dict[str, dict[str, Sequence[float]]]:
        """Return the load series of the components of each group without a spout."""
        members: dict[str, dict[str, Sequence[float]]] = {group: {} for group in self.working}
        for name, series in self.memory.loads.items():
            if (group := self.memory.groups.get(name)) in members:
                members[str(group)][name] = series
        return members

    def _loads(self) -> dict[str, float]:
        """Return ES_C of each group, as a share of its machines' cores."""
        return {group: fmean(group_series(members, self._cores(self.machines[group])) or [0.0])
                for group, members in self._members().items()}  # fmt: skip

    def _cores(self, machines: Sequence[str]) -> float:
        """Return the cores of machines; where they are unknown, as many as the others have on average."""
        cores = {each.name: each.cores for each in self.observation.machines if each.cores is not None}
        return sum(cores.get(name, fmean(cores.values() or [1.0])) for name in machines)

    def _words(self) -> str:
        return ", ".join(f"{group} {load:.2f}" for group, load in self._loads().items())

    def _move(self) -> Decision | None:
        """Carry out algorithm 1."""
        sizes = {group: self._cores(self.machines[group]) for group in self.working}
        moves = transmissions(self._members(), sizes, self.parameters)
        if not moves:
            return None
        words, rest = self._words(), self.parameters.rest_after_move_s
        targets = {name: target for name, _, target in moves}
        self.memory = replace(self.memory, groups={**self.memory.groups, **targets}, acts_from_s=self.now + rest)
        what = ", ".join(f"{name} {source} → {target}" for name, source, target in moves)
        return self._change(*self._layout(), f"{what}; loads were {words}", kind="move")

    def _resize(self) -> Decision | None:
        """Carry out algorithm 2 for the first group that needs it, after the one that had its turn."""
        limits, working = self.observation.machine_limits, self.working
        if limits is None or any(each.outcome == "under_way" for each in self.observation.machine_requests):
            return None
        turn = working.index(self.memory.resized) + 1 if self.memory.resized in working else 0
        loads = self._loads()
        for group in (*working[turn:], *working[:turn]):
            load, names = loads[group], self.machines[group]
            change = instances_to_add(len(names), load, self.parameters)
            room = min(self.memory.most, limits.max - limits.now)
            change = min(change, room) if change > 0 else -min(-change, limits.now - limits.min)
            if not change:
                continue
            words = f"{group} of {len(names)} machines has load {load:.2f}: {change:+d}"
            rest = self.now + self.parameters.rest_after_launch_s
            self.memory = replace(self.memory, resized=group, acts_from_s=rest)
            if change > 0:
                self.memory = replace(self.memory, growing=group)
                return replace(self._keep(words), acquire=change)
            return self._release(tuple(names[change:]), words)
        return None

    def _release(self, leaving: Sequence[str], reason: str) -> Decision:
        self.memory = replace(self.memory, gone=[*self.memory.gone, *leaving])
        self.machines = {
            group: [each for each in names if each not in leaving] for group, names in self.machines.items()
        }
        return self._change(*self._layout(), reason, release=tuple(leaving))

    def _deal_out(self) -> Decision:
        """Answer a reschedule by the static mapping (6.2.1)."""
        loads = {name: fmean(series) for members in self._members().values() for name, series in members.items()}
        mapping = static_mapping(loads, {group: self._cores(self.machines[group]) for group in self.working})
        rest = self.now + self.parameters.rest_after_move_s
        self.memory = replace(self.memory, groups={**self.memory.groups, **mapping}, acts_from_s=rest)
        what = ", ".join(f"{name} in {group}" for name, group in sorted(mapping.items()))
        return self._change(*self._layout(), f"static mapping: {what}", settled=True)

    def _layout(self) -> tuple[dict[str, int], dict[int, Slot]]:
        """Return the executors of components and the slots of tasks that differ from those of the mapping: the
        executors of a component one machine of its group after the other, a worker of the topology on each."""
        occupied = living_slots(self.observation.machines).intersection(self.topology.placement.values())
        executors: dict[str, int] = {}
        slots_of_tasks: dict[int, Slot] = {}
        workers = {slot.machine: slot for slot in sorted(occupied, reverse=True)}
        ports = {each.name: Slot(each.name, min(each.ports)) for each in self.observation.machines if each.ports}
        everywhere = [name for group in self.working or self.machines for name in self.machines[group]]
        tasks = Counter[str]()  # by machine
        for component in sorted(self.topology.components, key=lambda each: (each.kind == "system", len(each.tasks))):
            machines = self.machines.get(self.memory.groups.get(component.name, ""), []) or everywhere
            number = len(component.executors)
            if component.kind != "system" and machines:
                number = min(len(component.tasks), self.parameters.executors_per_machine * len(machines))
            if number != len(component.executors):
                executors[component.name] = number
            executors_of = Counter[str]()
            for first, last in executor_ranges(component.tasks, number):
                name = min(machines, key=lambda each: (executors_of[each], tasks[each]), default="")
                executors_of[name] += 1
                tasks[name] += last - first + 1
                if slot := workers.get(name) or ports.get(name):
                    slots_of_tasks.update(dict.fromkeys(range(first, last + 1), slot))
        return executors, initial_placement.changed_slots(self.topology, slots_of_tasks)


def groups_of_components(
    topology: Topology, machines: Mapping[str, Sequence[str]], components: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Return component → group: that of `components`; one that is in none goes where the fewest are, by machine, a bolt
    not to spouts where there is another group."""
    groups = {name: group for group, names in components.items() if group in machines for name in names}
    for component in sorted(topology.components, key=lambda each: each.kind != "spout"):
        if component.kind != "system" and component.name not in groups:
            members = list(groups.values())
            taken = {groups.get(each.name) for each in topology.components if each.kind == "spout"}
            offered = [group for group in machines if group not in taken or component.kind == "spout"] or list(machines)
            groups[component.name] = min(offered, key=lambda group: (members.count(group) + 1) / len(machines[group]))
    return groups


def static_mapping(loads: Mapping[str, float], sizes: Mapping[str, float]) -> dict[str, str]:
    """Return component → group: the largest load first, each to the group whose average load is the smallest so far (DT
    6.2.1).

    `loads`: in cores. `sizes`: cores of a group. Of equals the first one is taken.
    """
    totals = dict.fromkeys(sizes, 0.0)
    mapping: dict[str, str] = {}
    for name in sorted(loads, key=lambda name: -loads[name]) if sizes else ():
        group = min(sizes, key=lambda group: totals[group] / sizes[group])
        totals[group] += loads[name]
        mapping[name] = group
    return mapping


def group_series(members: Loads, cores: float) -> list[float]:
    """Return the load of a group in each period, as a share of its cores (DT eq. 1); empty without members."""
    length = min(map(len, members.values()), default=0)
    return [sum(series[at - length] for series in members.values()) / cores for at in range(length)]


def correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the correlation coefficient of two load series over the periods that both have (DT eq. 2 to 5); 0 where
    one of them varies by less than a thousandth of its mean."""
    length = min(len(left), len(right))
    a, b = left[len(left) - length :], right[len(right) - length :]
    if length < 2 or any(pstdev(each) <= fmean(each) / 1000 for each in (a, b)):
        return 0.0
    mean_a, mean_b, deviation = fmean(a), fmean(b), pstdev(a) * pstdev(b)
    return fmean((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / deviation


def transmissions(
    groups: Mapping[str, Loads], sizes: Mapping[str, float], parameters: DodoParameters
) -> list[tuple[str, str, str]]:
    """Return (component, from group, to group) of each component that algorithm 1 moves.

    `groups`: the load series of the components of each, in cores. `sizes`: cores by which a group's load is shared.
    """
    series = {group: group_series(members, sizes[group]) for group, members in groups.items()}
    means = {group: fmean(values) if values else 0.0 for group, values in series.items()}
    order = sorted(groups, key=lambda group: -means[group])
    pairs = zip(order[: len(order) // 2], reversed(order[(len(order) + 1) // 2 :]), strict=True)
    moves: list[tuple[str, str, str]] = []
    for full, idle in pairs:
        difference, members = means[full] - means[idle], groups[full]
        is_apart = not any(series[idle]) or correlation(series[full], series[idle]) < parameters.correlation
        if difference <= parameters.load_difference or not is_apart:
            continue
        closeness = {}
        for name in members:
            others = group_series({key: each for key, each in members.items() if key != name}, sizes[full])
            closeness[name] = correlation(members[name], others) - correlation(members[name], series[idle])
        chosen: list[str] = []
        for name in sorted(members, key=lambda name: -closeness[name]):
            load = sum(fmean(members[each]) for each in (name, *chosen)) / sizes[full]
            fits = load * sizes[full] / sizes[idle] < difference / 2 if parameters.capacity else not chosen
            if fits and len(chosen) < parameters.most_moves:
                chosen.append(name)
        moves += [(name, full, idle) for name in chosen]
    return moves


def instances_to_add(machines: int, load: float, parameters: DodoParameters) -> int:
    """Return the number of machines by which a group of `machines` with average `load` is to grow; below 0: to shrink
    (DT algorithm 2, as corrected above)."""
    if load > parameters.max_load:
        return math.ceil(machines * (load - parameters.max_load) / parameters.max_load - 1e-9)
    if load < parameters.min_load and machines > FEWEST:
        surplus = math.floor(machines * (1 - load / (parameters.ideal * parameters.max_load)) + 1e-9)
        return -min(surplus, machines - FEWEST)
    return 0
