"""The bridge's scheduling rounds: carry out plans whose rebalance has come, ask the policy service, apply its answer.

As Rounds.java, with the same words. What the bridge does beside a round, asking for rebalances and saying what became
of decisions, it does in `after_round`.

Errors: all but OnlyInNimbus (configuration: a scheduler that cannot place here) end in an event, as in Nimbus.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from scheduler_plugins.driver.cluster import (
    AmbiguousMachine,
    OnlyInNimbus,
    SchedulerFailed,
    SchedulingCluster,
    held_by_another,
    is_as_planned,
    place_by,
    place_planned,
    place_rest_evenly,
    place_unplaced,
    request_of,
)
from scheduler_plugins.driver.nimbus import Nimbus, StormRefusal
from scheduler_plugins.model import Slot, Topology
from scheduler_plugins.service.messages import Answer, Change, PlacingScheduler, Request
from scheduler_plugins.service.policy_call import Outcome, Round, ask_policy
from scheduler_plugins.service.state import ServiceState

log = logging.getLogger(__name__)
PLAN_LIMIT_S = 60.0  # a plan whose rebalance has not come by then, after its own wait, is given up
ROUNDS_OF_A_RESTART = 3  # Storm takes up a rebalance that it was in when it ended by then; if not, it had not begun it
TRIES = 30  # of a report; the policy service gives the decision up soon after


class ServiceFailed(Exception):
    """The policy service has no answer."""

    blame = "system under test"


class Service(Protocol):
    """The way from a round to the policy service. Both calls raise ServiceFailed."""

    def schedule(self, request: Request) -> Answer: ...

    def applied(self, report: Mapping[str, Any]) -> object:
        """It may hear the same report again."""


@dataclass(frozen=True)
class ServiceInProcess:
    """A policy service without HTTP. `decide` asks the policy, by default for as long as it takes: how long that is
    depends on the box."""

    state: ServiceState
    decide: Callable[[Round], Outcome] = ask_policy

    def schedule(self, request: Request) -> Answer:
        try:
            round = self.state.begin_round(request)
            return self.state.end_round(round, self.decide(round) if round.decision is None else round.decision)
        except Exception as error:
            raise ServiceFailed(f"schedule: {type(error).__name__}: {error}") from error

    def applied(self, report: Mapping[str, Any]) -> object:
        return self.state.applied(report)


@dataclass
class _Report:
    body: Mapping[str, Any]
    tries: int = 0


class Rounds:
    """The bridge in one Nimbus. `rebalance` asks that Nimbus (name, executors, wait in s), `clock` is in epoch seconds.

    `events`: lines of the bridge's events; a fallback there makes the run invalid.
    """

    def __init__(
        self,
        service: Service,
        rebalance: Callable[[str, Mapping[str, int], int], None],
        clock: Callable[[], float],
        restored: Sequence[PlacementPlan] = (),
        limit_s: float = PLAN_LIMIT_S,
    ) -> None:
        self.service, self.rebalance, self.clock, self.limit_s = service, rebalance, clock, limit_s
        self.plans = Plans(restored, clock())
        self.events: list[dict[str, Any]] = []
        self._background: deque[Callable[[], None]] = deque()
        self._reports: deque[_Report] = deque()  # that the policy service has not heard yet
        self._rounds = 0
        # The newest one here. Decisions of a run are d1, d2, ….
        self._last_decision = max(
            (p.decision_id for p in restored), key=lambda d: int("".join(filter(str.isdigit, d)) or 0), default=None
        )
        self._slots: dict[str, Mapping[int, Slot]] = {}  # by topology id, when the round before was over
        self._unplaced_why: dict[str, str] = {}  # by topology id
        self._scheduler_errors: dict[str, str] = {}  # by topology id, until the policy service has been told

    def round(self, cluster: SchedulingCluster) -> None:
        self._rounds += 1
        if self._reports:
            self._background.append(self._say_all)
        self.plans.keep()  # Storm has stored by now what ended in the round before
        try:
            self._carry_out_and_ask(cluster)
        except OnlyInNimbus:
            raise
        except SchedulerFailed as error:
            # Nothing is placed in its stead: that would be another scheduler's result.
            log.warning("the scheduler that the policy chose failed: %s", error)
            self._event("scheduler_failed", str(error), frames=error.frames)
            self._scheduler_errors = dict.fromkeys(cluster.topologies, str(error))
        except (ServiceFailed, AmbiguousMachine) as error:
            self._fall_back(str(error), cluster)
        except Exception as error:
            log.exception("the bridge failed")
            self._fall_back(_bridge_failed(error), cluster)

    def after_round(self) -> None:
        while self._background:
            self._background.popleft()()

    def successor(self) -> Rounds:
        """The bridge of a Nimbus that takes over from this one, which has ended. It writes on in the same events."""
        fresh = Rounds(self.service, self.rebalance, self.clock, self.plans.kept, self.limit_s)
        fresh.events = self.events
        return fresh

    def _carry_out_and_ask(self, cluster: SchedulingCluster) -> None:
        planned = {plan.topology_id for plan in self.plans.all()}
        self._carry_out_all(cluster)
        self._keep_what_was_not_planned(planned, cluster)
        asked = request_of(cluster, self.clock(), self.plans.all(), self._unplaced_why)
        request = replace(asked, last_decision=self._last_decision, scheduler_errors=self._scheduler_errors)
        self._slots = {t.topology_id: t.placement for t in request.topologies if t.placement}
        if not request.topologies:
            self._last_decision = None  # decisions of the next run are numbered from 1 again
        answer = self.service.schedule(request)
        self._scheduler_errors = {}
        self._last_decision = answer.decision_id or self._last_decision
        self._apply_all(answer, request, cluster)
        self._delegate(answer, request, cluster)

    def _apply_all(self, answer: Answer, request: Request, cluster: SchedulingCluster) -> None:
        """Every plan of an answer is known before the first is begun: one topology may take what another leaves."""
        plans = []
        for topology_id, change in answer.topologies.items():
            try:
                plans += self._place_at_once(answer, request.topology(topology_id), change, cluster)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other topologies have their part
                self._part_failed(answer.decision_id, topology_id, error)
                self._report(answer.decision_id, topology_id, False, _bridge_failed(error))
        self._begin(plans, cluster)

    def _place_at_once(
        self, answer: Answer, topology: Topology, change: Change, cluster: SchedulingCluster
    ) -> list[PlacementPlan]:
        """Place what has no slot and can have its new one now; return what is left to do, if anything."""
        if self._is_refused_as_under_way(answer, topology):
            return []
        place_unplaced(cluster, topology.topology_id, change.placement)
        plan = PlacementPlan.of(answer, topology, change)
        waits = any(first in change.placement for first, _ in cluster.unassigned(topology.topology_id))
        if waits or plan.changes_something(topology):
            return [plan]
        self._report(answer.decision_id, topology.topology_id, True, "placed at once")
        return []

    def _is_refused_as_under_way(self, answer: Answer, topology: Topology) -> bool:
        decision_id, topology_id = answer.decision_id, topology.topology_id
        log.info("decision %s of %s for %s: %s", decision_id, answer.policy, topology_id, answer.reason)
        if topology.rebalancing:
            self._report(decision_id, topology_id, False, "refused: an earlier change is still under way")
        return topology.rebalancing

    def _delegate(self, answer: Answer, request: Request, cluster: SchedulingCluster) -> None:
        """Another scheduler places where the answer says so; what it is to place anew waits for its rebalance."""
        if answer.scheduler is None:
            self._unplaced_why = {}
        elif cluster.topologies:  # between runs there is nothing to place, and no run to spoil
            self._place_wholly(answer.scheduler, cluster)
            for topology in map(request.topology, answer.rebalance):
                if not self._is_refused_as_under_way(answer, topology):
                    self._begin([PlacementPlan.anew(answer, topology)], cluster)

    def _place_wholly(self, scheduler: PlacingScheduler, cluster: SchedulingCluster) -> None:
        before, self._unplaced_why = self._unplaced_why, place_by(scheduler, cluster)
        for topology_id, why in self._unplaced_why.items():
            if why != before.get(topology_id):
                self._event("unplaced", why, topology=topology_id)

    def _begin(self, plans: Sequence[PlacementPlan], cluster: SchedulingCluster) -> None:
        for entry in [self.plans.begin(plan, self.clock()) for plan in plans]:
            self._request_unless_held(entry, cluster)

    def _request_unless_held(self, entry: PlanUnderWay, cluster: SchedulingCluster) -> None:
        """A slot that another topology is in, and does not leave by a plan of its own, may become free yet."""
        held = held_by_another(cluster, entry.plan, self.plans.all())
        if held is not None:
            log.info("decision %s waits: another topology is in slot %s", entry.plan.decision_id, held)
            return
        entry.requested = True
        self._background.append(lambda: self._rebalance(entry))

    def _rebalance(self, entry: PlanUnderWay) -> None:
        """Ask for a rebalance. One of a Nimbus before this one may be under way, and Storm refuses a second: it comes,
        or is overdue."""
        plan = entry.plan
        try:
            self.rebalance(plan.topology_name, plan.executors, plan.wait_s)
        except StormRefusal as error:
            if entry.restored:
                log.warning("decision %s, from before Nimbus restarted: %s", plan.decision_id, error)
            else:
                self._abort(plan, f"Nimbus refused the rebalance: {error}")

    def _carry_out_all(self, cluster: SchedulingCluster) -> None:
        """Each plan on its own: one that fails leaves its topology where it was, and the others are carried out."""
        failure: SchedulerFailed | None = None
        for entry in self.plans.entries():
            try:
                self._carry_out(entry, cluster)
            except SchedulerFailed as error:
                failure = error
            except OnlyInNimbus:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the other plans are carried out
                self._part_failed(entry.plan.decision_id, entry.plan.topology_id, error)
                self._abort(entry.plan, _bridge_failed(error))
                place_unplaced(cluster, entry.plan.topology_id, entry.plan.before)
        if failure is not None:
            raise failure

    def _keep_what_was_not_planned(self, planned: Collection[str], cluster: SchedulingCluster) -> None:
        """A rebalance of which there is no plan (a person's, or one that was given up) moves nothing: it is no
        submission."""
        for topology_id in sorted(self._slots.keys() & cluster.topologies.keys()):
            if topology_id not in cluster.assignments and topology_id not in planned:
                log.warning("%s is rebalanced without a plan: everything stays where it was", topology_id)
                place_unplaced(cluster, topology_id, self._slots[topology_id])

    def _carry_out(self, entry: PlanUnderWay, cluster: SchedulingCluster) -> None:
        plan, topology = entry.plan, cluster.topologies.get(entry.plan.topology_id)
        if topology is None:
            self._abort(plan, "the topology is gone")
            return
        is_hidden, is_cut = plan.topology_id not in cluster.assignments, _is_cut_as_planned(plan, topology)
        if is_hidden and not is_cut:
            place_unplaced(cluster, plan.topology_id, plan.before)  # a rebalance that is not the plan's
        if is_hidden and is_cut:
            problem = self._place(plan, cluster)
            self.plans.end(plan)
            self._report(plan.decision_id, plan.topology_id, problem is None, problem or "rebalanced")
        elif entry.restored and is_cut and is_as_planned(cluster, plan):
            self.plans.end(plan)
            self._report(plan.decision_id, plan.topology_id, True, "rebalanced before Nimbus restarted")
        elif self.clock() - entry.began_s > self.limit_s + plan.wait_s:
            held = held_by_another(cluster, plan, self.plans.all())
            never = "no rebalance came of it; given up"
            self._abort(plan, f"another topology has not left slot {held}; nothing was moved" if held else never)
        elif not entry.requested and (not entry.restored or self._rounds >= ROUNDS_OF_A_RESTART):
            self._request_unless_held(entry, cluster)
        elif is_cut and cluster.unassigned(plan.topology_id):
            # An ordinary tick after Nimbus has changed the executors: the round of the rebalance is yet to come.
            self._place(plan, cluster)

    def _place(self, plan: PlacementPlan, cluster: SchedulingCluster) -> str | None:
        """Returns why it did not go as planned."""
        if plan.scheduler is None:
            return place_planned(cluster, plan, self.plans.all())
        try:
            self._place_wholly(plan.scheduler, cluster)
        except SchedulerFailed as error:
            place_unplaced(cluster, plan.topology_id, plan.before)
            self._abort(plan, f"{error}; nothing was moved")
            raise
        return self._unplaced_why.get(plan.topology_id)

    def _abort(self, plan: PlacementPlan, message: str) -> None:
        if self.plans.end(plan):
            self._report(plan.decision_id, plan.topology_id, False, message)

    def _report(self, decision_id: str | None, topology_id: str, ok: bool, message: str) -> None:
        log.info("decision %s for %s: %s%s", decision_id, topology_id, "" if ok else "not applied: ", message)
        said = {"decision_id": decision_id, "topology": topology_id, "t": self.clock(), "ok": ok, "message": message}
        self._reports.append(_Report(said))
        self._background.append(self._say_all)

    def _say_all(self) -> None:
        """Send reports in their order; where the service does not hear one the others wait."""
        while self._reports and self._is_over(self._reports[0]):
            self._reports.popleft()

    def _is_over(self, report: _Report) -> bool:
        try:
            self.service.applied(report.body)
        except ServiceFailed as error:
            report.tries += 1
            log.warning("%s (decision %s, try %s of %s)", error, report.body["decision_id"], report.tries, TRIES)
            return report.tries >= TRIES
        return True

    def _part_failed(self, decision_id: str | None, topology_id: str, error: Exception) -> None:
        log.error("decision %s for %s cannot be carried out", decision_id, topology_id, exc_info=error)
        self._event("fallback", _bridge_failed(error))

    def _fall_back(self, reason: str, cluster: SchedulingCluster) -> None:
        """Without a topology there is nothing to place and no run to spoil."""
        log.warning("fallback: %s", reason)
        if cluster.topologies:
            self._event("fallback", reason)
            place_rest_evenly(cluster)

    def _event(self, kind: str, reason: str, **more: Any) -> None:
        self.events.append({"t": self.clock(), "kind": kind, "reason": reason, **more})


def _bridge_failed(error: Exception) -> str:
    return f"the bridge failed: {type(error).__name__}: {error}"


def _is_cut_as_planned(plan: PlacementPlan, topology: Topology) -> bool:
    numbers = {component.name: len(component.executors) for component in topology.components}
    return all(numbers[name] == number for name, number in plan.executors.items())


def bridge_in(nimbus: Nimbus, service: Service) -> Rounds:
    """Put a bridge into this Nimbus, as `storm.scheduler` of storm.yaml does."""
    rounds = Rounds(service, nimbus.rebalance, nimbus.clock)
    nimbus.scheduler = rounds
    return rounds


@dataclass(frozen=True)
class PlacementPlan:
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
    def of(answer: Answer, topology: Topology, change: Change) -> PlacementPlan:
        numbers = {component.name: len(component.executors) for component in topology.components}
        executors = {name: number for name, number in change.executors.items() if numbers[name] != number}
        before = {  # executors that had no slot have the one of their first task, all of their tasks with it
            task: change.placement[executor.first_task]
            for component in topology.components
            for executor in component.executors
            if executor.first_task in change.placement
            for task in range(executor.first_task, executor.last_task + 1)
        } | dict(topology.placement)
        after = {**before, **change.placement}
        names = (str(answer.decision_id), topology.topology_id, topology.name)
        return PlacementPlan(*names, executors, before, after, None, answer.wait_s)

    @staticmethod
    def anew(answer: Answer, topology: Topology) -> PlacementPlan:
        """Return the plan in which the answer's scheduler places everything anew."""
        names = (str(answer.decision_id), topology.topology_id, topology.name)
        return PlacementPlan(*names, {}, topology.placement, {}, answer.scheduler, answer.wait_s)

    def changes_something(self, topology: Topology) -> bool:
        """True if Storm has something to rebalance: an executor's range or slot differs. An executor goes to the slot
        of its first task, whatever is said of the others."""
        firsts = [executor.first_task for component in topology.components for executor in component.executors]
        return bool(self.executors) or any(self.before.get(first) != self.after.get(first) for first in firsts)

    def leaves(self, slot: Slot) -> bool:
        """True if the topology was in that slot and nothing of it will be."""
        return self.scheduler is None and slot in self.before.values() and slot not in self.after.values()


@dataclass
class PlanUnderWay:
    plan: PlacementPlan
    began_s: float
    restored: bool = False  # a Nimbus before this one began it, so that nobody knows how far it came
    requested: bool = False  # this Nimbus has been asked for its rebalance


class Plans:
    """The plans under way, at most one a topology. `kept`: what a Nimbus that takes over will find; a plan that has
    ended is there until the next round, when Storm has stored what the round before has placed."""

    def __init__(self, restored: Iterable[PlacementPlan], now_s: float) -> None:
        self._by_topology = {plan.topology_id: PlanUnderWay(plan, now_s, restored=True) for plan in restored}
        self.kept = self.all()

    def begin(self, plan: PlacementPlan, now_s: float) -> PlanUnderWay:
        entry = self._by_topology[plan.topology_id] = PlanUnderWay(plan, now_s)
        self.keep()
        return entry

    def keep(self) -> None:
        self.kept = self.all()

    def entries(self) -> tuple[PlanUnderWay, ...]:
        return tuple(entry for _, entry in sorted(self._by_topology.items()))

    def all(self) -> tuple[PlacementPlan, ...]:
        return tuple(entry.plan for entry in self.entries())

    def end(self, plan: PlacementPlan) -> bool:
        """False if the plan had ended already."""
        entry = self._by_topology.get(plan.topology_id)
        return entry is not None and entry.plan is plan and bool(self._by_topology.pop(plan.topology_id))
