"""Requests and answers between a scheduler and the policy service, whether an answer fits, and plans, as in the bridge.

`refusal.py` judges what a policy decides, inside the service; here its answer is judged when it arrives, by whoever
carries it out: a name that Storm does not have must not reach Nimbus. The words are those of AnswerCheck.java.

Errors: InvalidAnswer, an answer that cannot be applied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from scheduler_plugins.model import (
    FOREIGN,
    LONGEST_WAIT_S,
    STORM_SCHEDULERS,
    Component,
    Machine,
    Slot,
    Topology,
    executor_ranges,
    living_slots,
)
from scheduler_plugins.service.messages import VERSION, machine_from_json, topology_from_request, topology_request_json

Kind = Literal[
    "malformed",
    "unknown_topology",
    "unknown_component",
    "unknown_task",
    "unknown_slot",
    "unknown_machine",
    "unknown_scheduler",
    "executors_out_of_range",
    "slot_taken",
    "machine_in_use",
    "no_scheduler",
    "two_placers",
    "wait_out_of_range",
]
KNOWN_SCHEDULERS = ", ".join(sorted(STORM_SCHEDULERS))
WHOLE_NUMBERS = range(-(2**31), 2**31)  # Java's


class InvalidAnswer(Exception):
    """An answer of the policy service that cannot be applied; `kind` is the word of the contract cases."""

    blame = "system under test"

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Request:
    """The body of POST /schedule (docs/contracts.md); `scheduler_errors`: what went wrong with the scheduler that is to
    place, by topology id."""

    t: float
    machines: tuple[Machine, ...]
    topologies: tuple[Topology, ...]
    last_decision: str | None = None
    scheduler_errors: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(body: Mapping[str, Any]) -> Request:
        machines = tuple(machine_from_json(machine) for machine in body["machines"])
        topologies = tuple(topology_from_request(topology) for topology in body["topologies"])
        return Request(float(body["t"]), machines, topologies, body.get("last_decision"))

    def topology(self, topology_id: str) -> Topology:
        for topology in self.topologies:
            if topology.topology_id == topology_id:
                return topology
        raise InvalidAnswer("unknown_topology", f"topology {topology_id} is not in the request")

    def json(self) -> dict[str, Any]:
        machines = [
            {"name": m.name, "supervisor_id": m.supervisor_id, "ports": list(m.ports), "alive": m.alive}
            for m in self.machines
        ]
        topologies = [topology_request_json(t, self.scheduler_errors.get(t.topology_id)) for t in self.topologies]
        head = {"v": VERSION, "t": self.t, "machines": machines, "topologies": topologies}
        return {**head, "last_decision": self.last_decision}


@dataclass(frozen=True)
class PlacingScheduler:
    """One that places in this round; `conf` is laid over Nimbus' own, `class_name` is of a foreign one."""

    name: str
    class_name: str | None
    conf: Mapping[str, Any]

    def called(self) -> str:
        """In words."""
        return str(self.class_name) if self.name == FOREIGN else f"Storm's {self.name} scheduler"


@dataclass(frozen=True)
class Change:
    executors: Mapping[str, int] = field(default_factory=dict)  # component → number
    placement: Mapping[int, Slot] = field(default_factory=dict)  # task → slot


@dataclass(frozen=True)
class Answer:
    """What the policy service answers: only what changes, topologies in the order of their ids."""

    decision_id: str | None
    policy: str | None
    reason: str | None
    topologies: Mapping[str, Change]
    release: Sequence[str] = ()
    scheduler: PlacingScheduler | None = None
    rebalance: Sequence[str] = ()  # topology ids, for `scheduler` to place anew
    wait_s: int = 0

    @staticmethod
    def parse(body: Any) -> Answer:
        """Raises InvalidAnswer, `malformed`."""
        version = body.get("v", _ABSENT) if isinstance(body, Mapping) else _ABSENT
        if version != VERSION:
            raise InvalidAnswer("malformed", f"v is {_shown(version)}; allowed is {VERSION}")
        topologies = _object(body, "topologies").items()
        changes = {each: Change(_executors(change), _placement(change)) for each, change in topologies}
        return Answer(
            decision_id=_text(body, "decision_id"),
            policy=_text(body, "policy"),
            reason=_text(body, "reason"),
            topologies={each: changes[each] for each in sorted(changes)},
            release=_texts(body, "release"),
            scheduler=_scheduler(body),
            rebalance=_texts(body, "rebalance"),
            wait_s=_wait_s(body),
        )

    def changes_something(self) -> bool:
        return bool(self.topologies or self.release or self.rebalance)


_ABSENT = object()


def _shown(value: Any) -> str:
    """As JSON; nothing for what is absent."""
    return "" if value is _ABSENT else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _malformed(name: str, value: Any, allowed: str) -> InvalidAnswer:
    return InvalidAnswer("malformed", f"{name} is {_shown(value)}; {allowed} is allowed")


def _object(parent: Any, name: str) -> Mapping[str, Any]:
    """The object of that name; empty where it is absent."""
    found = parent.get(name, {}) if isinstance(parent, Mapping) else _ABSENT
    if not isinstance(found, Mapping):
        raise _malformed(name, found, "an object")
    return found


def _text(parent: Mapping[str, Any], name: str) -> str | None:
    found = parent.get(name)
    if not (found is None or isinstance(found, str)):
        raise _malformed(name, found, "a text")
    return found


def _texts(parent: Mapping[str, Any], name: str) -> list[str]:
    found = parent.get(name, [])
    if not isinstance(found, list):
        raise _malformed(name, found, "a list of texts")
    for each in found:
        if not isinstance(each, str):
            raise InvalidAnswer("malformed", f"{name} has {_shown(each)}; a text is allowed")
    return found


def _whole_number(name: str, found: Any) -> int:
    if type(found) is not int or found not in WHOLE_NUMBERS:
        raise _malformed(name, found, "a whole number")
    return found


def _wait_s(body: Mapping[str, Any]) -> int:
    return _whole_number("wait_s", body.get("wait_s", 0))


def _executors(change: Any) -> dict[str, int]:
    found = _object(change, "executors").items()
    return dict(sorted((name, _whole_number(f"executors of {name}", number)) for name, number in found))


def _placement(change: Any) -> dict[int, Slot]:
    return dict(sorted(_task_and_slot(task, slot) for task, slot in _object(change, "placement").items()))


def _task_and_slot(task: str, slot: Any) -> tuple[int, Slot]:
    text = slot if isinstance(slot, str) else "" if isinstance(slot, Mapping | list) else _shown(slot)
    if not re.fullmatch(r"[+-]?\d+", task, re.ASCII) or int(task) not in WHOLE_NUMBERS:
        raise InvalidAnswer("malformed", f'placement of task "{task}": For input string: "{task}"')
    if not re.fullmatch(r".+:\d{1,5}", text, re.ASCII):
        raise InvalidAnswer("malformed", f'placement of task "{task}": slot "{text}" is not of the form machine:port')
    return int(task), Slot.parse(text)


def _scheduler(body: Mapping[str, Any]) -> PlacingScheduler | None:
    if body.get("scheduler") is None:
        return None
    named = _object(body, "scheduler")
    name = _text(named, "name")
    if name is None:
        raise InvalidAnswer("malformed", f"scheduler has no name; known are {KNOWN_SCHEDULERS}")
    return PlacingScheduler(name, _text(named, "class"), _object(named, "conf"))


def check(request: Request, answer: Answer) -> None:
    """Raises InvalidAnswer for the first thing in the answer that does not fit the request."""
    for topology_id, change in answer.topologies.items():
        topology = request.topology(topology_id)
        _check_executors(topology, change)
        _check_placement(request, topology, change)
    if answer.decision_id is None and answer.changes_something():
        raise InvalidAnswer("malformed", "something changes, but decision_id is null")
    _check_slots_are_of_one_topology(request, answer)
    _check_released(request, answer)
    _check_scheduler(request, answer)
    if not 0 <= answer.wait_s <= LONGEST_WAIT_S:
        raise InvalidAnswer("wait_out_of_range", f"wait_s is {answer.wait_s}; allowed are 0 to {LONGEST_WAIT_S}")


def _check_executors(topology: Topology, change: Change) -> None:
    tasks = {component.name: len(component.tasks) for component in topology.components}
    for name, number in change.executors.items():
        if name not in tasks:
            raise InvalidAnswer("unknown_component", f"{topology.name} has no component {name}")
        if not 1 <= number <= tasks[name]:
            allowed = f"allowed are 1 to {tasks[name]}, the number of tasks"
            raise InvalidAnswer(
                "executors_out_of_range", f"executors of {topology.name}'s {name} is {number}; {allowed}"
            )


def _check_placement(request: Request, topology: Topology, change: Change) -> None:
    tasks = {task for component in topology.components for task in component.tasks}
    offered = living_slots(request.machines)
    for task, slot in change.placement.items():
        if task not in tasks:
            raise InvalidAnswer("unknown_task", f"{topology.name} has no task {task}")
        if slot not in offered:
            said = f"task {task} of {topology.name} is to go to {slot}, which no living machine offers"
            raise InvalidAnswer("unknown_slot", said)


def _check_slots_are_of_one_topology(request: Request, answer: Answer) -> None:
    """Storm runs one topology in a slot. One that a change is under way for has its slots of before and of after. Only
    what this answer gives is judged: while two exchange their slots, what one still has and the other will have is the
    same."""
    for topology in request.topologies:
        change = answer.topologies.get(topology.topology_id)
        given = () if change is None or topology.rebalancing else tuple(dict.fromkeys(change.placement.values()))
        for other in request.topologies if given else ():
            taken = set() if other is topology else _slots_of_before_and_after(other, answer)
            for slot in given:
                if slot in taken:
                    raise InvalidAnswer("slot_taken", f"{slot} would belong to {other.name} and to {topology.name}")


def _slots_of_before_and_after(topology: Topology, answer: Answer) -> set[Slot]:
    change = answer.topologies.get(topology.topology_id)
    given = change.placement if change is not None and not topology.rebalancing else {}
    return {*{**topology.placement, **given}.values(), *topology.planned.values()}


def _check_released(request: Request, answer: Answer) -> None:
    """A machine that may leave is left by everything that runs once the decision is applied."""
    known = {machine.name for machine in request.machines}
    for machine in answer.release:
        if machine not in known:
            raise InvalidAnswer("unknown_machine", f"machine {machine}, to be released, is not in the request")
    for topology in request.topologies if answer.release else ():
        for task, slot in _slots_after(topology, answer):
            if slot.machine in answer.release:
                what = f"{topology.name}'s executor of task {task} would be on it"
                raise InvalidAnswer("machine_in_use", f"machine {slot.machine} is to be released, but {what}")


def _slots_after(topology: Topology, answer: Answer) -> Iterator[tuple[int, Slot]]:
    """First task and slot of each executor, as Nimbus cuts executors once the answer is applied."""
    plan = Plan.of(answer, topology, answer.topologies.get(topology.topology_id, Change()))
    for component in topology.components:
        for first, _ in _ranges(component, plan.executors):
            if first in plan.after:
                yield first, plan.after[first]


def _ranges(component: Component, executors: Mapping[str, int]) -> Sequence[tuple[int, int]]:
    if component.name in executors:
        return executor_ranges(component.tasks, executors[component.name])
    return [(executor.first_task, executor.last_task) for executor in component.executors]


def _check_scheduler(request: Request, answer: Answer) -> None:
    for topology_id in answer.rebalance:
        request.topology(topology_id)
    scheduler = answer.scheduler
    if scheduler is None:
        if answer.rebalance:
            raise InvalidAnswer("no_scheduler", "topologies to place anew, but no scheduler of Storm's that does")
        return
    if scheduler.name == FOREIGN and scheduler.class_name is None:
        raise InvalidAnswer("unknown_scheduler", "a foreign scheduler without its class")
    if scheduler.name not in (*STORM_SCHEDULERS, FOREIGN):
        said = f"scheduler {scheduler.name} is not Storm's; known are {KNOWN_SCHEDULERS}"
        raise InvalidAnswer("unknown_scheduler", said)
    if answer.topologies or answer.release:
        both = "is to place, and the answer places or releases too; only one of them can"
        raise InvalidAnswer("two_placers", f"{scheduler.called()} {both}")


@dataclass(frozen=True)
class Plan:
    """A change to a placed topology, remembered from the decision to the scheduling round of the rebalance, in which
    Nimbus hides the topology's own assignment."""

    decision_id: str
    topology_id: str
    topology_name: str
    executors: Mapping[str, int]  # of the components whose number changes
    before: Mapping[int, Slot]  # of each task, once what had none is placed at once
    after: Mapping[int, Slot]  # of each task, as decided
    scheduler: PlacingScheduler | None = None  # that is to place instead of `after`
    wait_s: int = 0  # that Nimbus waits before the rebalance

    @staticmethod
    def of(answer: Answer, topology: Topology, change: Change) -> Plan:
        numbers = {component.name: len(component.executors) for component in topology.components}
        executors = {name: number for name, number in change.executors.items() if numbers[name] != number}
        before = {**_placed_at_once(topology, change.placement), **topology.placement}
        after = {**before, **change.placement}
        names = (str(answer.decision_id), topology.topology_id, topology.name)
        return Plan(*names, executors, before, after, None, answer.wait_s)

    @staticmethod
    def anew(answer: Answer, topology: Topology) -> Plan:
        """Everything is for the answer's scheduler to place anew."""
        names = (str(answer.decision_id), topology.topology_id, topology.name)
        return Plan(*names, {}, topology.placement, {}, answer.scheduler, answer.wait_s)

    def changes_something(self, topology: Topology) -> bool:
        """True if Storm has something to rebalance: an executor's range or slot differs. An executor goes to the slot
        of its first task, whatever is said of the others."""
        firsts = [executor.first_task for component in topology.components for executor in component.executors]
        return bool(self.executors) or any(self.before.get(first) != self.after.get(first) for first in firsts)

    def leaves(self, slot: Slot) -> bool:
        """True if the topology was in that slot and nothing of it will be."""
        return self.scheduler is None and slot in self.before.values() and slot not in self.after.values()


def _placed_at_once(topology: Topology, slots: Mapping[int, Slot]) -> dict[int, Slot]:
    """Executors that had no slot have the one of their first task, all of their tasks with it."""
    return {
        task: slots[executor.first_task]
        for component in topology.components
        for executor in component.executors
        if executor.first_task in slots
        for task in range(executor.first_task, executor.last_task + 1)
    }
