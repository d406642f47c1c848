"""Policies that let a scheduler in Nimbus place: one of Storm's own, or a foreign one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_plugins.model import FOREIGN, STORM_SCHEDULERS, Decision, Observation, ScaleEvent
from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.policies.storm import ISOLATION_MACHINES
from scheduler_plugins.service.messages import answer_json, answer_of, observation_of, request_from_json
from scheduler_plugins.service.refusal import refusal
from scheduler_plugins.service.samples import MachineSamples
from tests.support.rounds import PLACED, TOPOLOGY, request

SCALE_OUT = ScaleEvent("e1", "scale_out", ("m3",))
THEIRS = {"scheduler": "org.example.Theirs$Inner"}
BOTH = [("storm", {"scheduler": "even"}), ("foreign", THEIRS)]


def observe(event: ScaleEvent | None = None, **changes: Any) -> Observation:
    asked = request_from_json(request(1000.0, PLACED, machines=3, **changes))
    return observation_of(asked, {}, MachineSamples(), event)


def decide(policy: str, parameters: dict[str, Any], event: ScaleEvent | None = None, **changes: Any) -> Decision:
    return bind(policy, parameters)(observe(event, **changes), {"kept": 1})


@pytest.mark.parametrize("scheduler", [*STORM_SCHEDULERS, FOREIGN])
def test_every_round_names_the_scheduler_and_places_nothing_itself(scheduler: str) -> None:
    conf: dict[str, Any] = {ISOLATION_MACHINES: {"star": 2}} if scheduler == "isolation" else {"a": 1}
    class_name = THEIRS["scheduler"] if scheduler == FOREIGN else None
    policy = "foreign" if class_name else "storm"
    decision = decide(policy, {"scheduler": class_name or scheduler, "conf": conf})
    assert (decision.scheduler, decision.changes(), decision.memory) == (scheduler, False, {"kept": 1})
    answer = answer_json(answer_of(decision, None, policy))
    assert answer["scheduler"] == {"name": scheduler, "class_name": class_name, "conf": conf}
    assert answer["topologies"] == {} and not answer["rebalance"]
    assert refusal(observe(), decision) is None


@pytest.mark.parametrize("event", [SCALE_OUT, ScaleEvent("e1", "reschedule")], ids=lambda event: event.kind)
@pytest.mark.parametrize(("policy", "parameters"), BOTH)
def test_a_rebalance_is_asked_for_only_where_it_is_wanted(
    policy: str, parameters: dict[str, Any], event: ScaleEvent
) -> None:
    alone = decide(policy, parameters, event)
    assert alone.settled and not alone.changes() and alone.scheduler is not None
    anew = decide(policy, {**parameters, "rebalance": True}, event)
    assert anew.settled and anew.rebalance == (TOPOLOGY,) and anew.scheduler == alone.scheduler
    assert answer_json(answer_of(anew, "d1", policy))["rebalance"] == [TOPOLOGY]
    assert POLICIES[policy].events == {"scale_out", "reschedule"}, "it cannot choose machines to leave"


def test_what_has_no_slot_is_not_rebalanced() -> None:
    """Storm places it in any round in which it can; a rebalance of it would never be over."""
    running = observe(SCALE_OUT)
    waiting = replace(running.topologies[0], topology_id="other-2-1010", placement={})
    both = replace(running, topologies=(*running.topologies, waiting))
    assert bind("storm", {"rebalance": True})(both, {}).rebalance == (TOPOLOGY,)


def test_what_storm_said_is_the_reason() -> None:
    why = "resource_aware left 3 of 3 executors of star without a slot: Not enough resources"
    assert decide("storm", {"scheduler": "resource_aware"}, unplaced_why=why).reason == why


@pytest.mark.parametrize(
    ("policy", "parameters", "said"),
    [
        ("storm", {"scheduler": "fair"}, "scheduler is 'fair'; allowed are default, even, resource_aware, isolation"),
        ("storm", {"rebalance": 1}, "rebalance is 1; allowed are true and false"),
        ("storm", {"conf": ["x"]}, "allowed are Storm's settings by name"),
        ("storm", {"scheduler": "isolation"}, "isolation needs a number of machines"),
        ("storm", {"scheduler": "isolation", "conf": {ISOLATION_MACHINES: {"star": 0}}}, "1 or more, by topology name"),
        ("storm", {"machines": 1}, "no parameter 'machines'"),
        ("foreign", {}, "the class of an IScheduler, which the variant's code.scheduler names"),
        ("foreign", {"scheduler": "a b"}, "scheduler is 'a b'"),
        ("foreign", {"scheduler": "a..B"}, "scheduler is 'a..B'"),
        ("foreign", {"scheduler": "a.B", "conf": []}, "allowed are Storm's settings by name"),
    ],
)
def test_parameters_that_cannot_be_are_refused(policy: str, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        bind(policy, parameters)
    assert said in str(caught.value)
