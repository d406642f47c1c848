from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler_plugins.model import STORM_SCHEDULERS, Decision, Observation, ScaleEvent
from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.policies.storm import ISOLATION_MACHINES
from scheduler_plugins.service.messages import answer_json, answer_of, observation_of, request_from_json
from scheduler_plugins.service.samples import MachineSamples
from tests.support.rounds import PLACED, TOPOLOGY, request

SCALE_OUT = ScaleEvent("e1", "scale_out", ("m3",))


def observe(event: ScaleEvent | None = None, **changes: Any) -> Observation:
    asked = request_from_json(request(1000.0, PLACED, machines=3, **changes))
    return observation_of(asked, {}, MachineSamples(), event)


def decide(parameters: dict[str, Any], event: ScaleEvent | None = None, **changes: Any) -> Decision:
    return bind("storm", parameters)(observe(event, **changes), {"kept": 1})


@pytest.mark.parametrize("scheduler", STORM_SCHEDULERS)
def test_every_round_names_the_scheduler_and_places_nothing_itself(scheduler: str) -> None:
    conf = {ISOLATION_MACHINES: {"star": 2}} if scheduler == "isolation" else {}
    decision = decide({"scheduler": scheduler, "conf": conf})
    assert (decision.scheduler, decision.changes(), decision.memory) == (scheduler, False, {"kept": 1})
    answer = answer_json(answer_of(decision, None, "storm"))
    assert answer["scheduler"]["name"] == scheduler
    assert answer["topologies"] == {} and not answer["rebalance"]
    assert conf.items() <= answer["scheduler"]["conf"].items()


def test_storm_left_alone_settles_a_scale_out_without_a_rebalance() -> None:
    decision = decide({"scheduler": "even"}, SCALE_OUT)
    assert decision.settled and not decision.changes() and decision.scheduler == "even"


def test_a_scale_out_with_rebalance_has_every_topology_placed_anew() -> None:
    decision = decide({"scheduler": "default", "rebalance": True}, SCALE_OUT)
    assert decision.settled and decision.rebalance == (TOPOLOGY,) and decision.scheduler == "default"
    assert answer_json(answer_of(decision, "d1", "storm"))["rebalance"] == [TOPOLOGY]


def test_what_has_no_slot_is_not_rebalanced() -> None:
    """Storm places it in any round in which it can; a rebalance of it would never be over."""
    running = observe(SCALE_OUT)
    waiting = replace(running.topologies[0], topology_id="other-2-1010", placement={})
    both = replace(running, topologies=(*running.topologies, waiting))
    assert bind("storm", {"rebalance": True})(both, {}).rebalance == (TOPOLOGY,)


def test_a_reschedule_too() -> None:
    decision = decide({"scheduler": "default", "rebalance": True}, ScaleEvent("e1", "reschedule"))
    assert decision.settled and decision.rebalance == (TOPOLOGY,)


def test_what_storm_said_is_the_reason() -> None:
    why = "resource_aware left 3 of 3 executors of star without a slot: Not enough resources"
    assert decide({"scheduler": "resource_aware"}, unplaced_why=why).reason == why


def test_storm_cannot_choose_machines_to_leave() -> None:
    assert POLICIES["storm"].events == {"scale_out", "reschedule"}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"scheduler": "fair"}, "scheduler is 'fair'; allowed are default, even, resource_aware, isolation"),
        ({"rebalance": 1}, "rebalance is 1; allowed are true and false"),
        ({"conf": ["x"]}, "allowed are Storm's settings by name"),
        ({"scheduler": "isolation"}, "isolation needs a number of machines"),
        ({"scheduler": "isolation", "conf": {ISOLATION_MACHINES: {"star": 0}}}, "1 or more, by topology name"),
        ({"machines": 1}, "no parameter 'machines'"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        bind("storm", parameters)
