from __future__ import annotations

from typing import Any

import pytest

from scheduler_plugins.model import FOREIGN, Decision, Observation, ScaleEvent
from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.service.messages import answer_json, answer_of, observation_of, request_from_json
from scheduler_plugins.service.refusal import refusal
from scheduler_plugins.service.samples import MachineSamples
from tests.support.rounds import PLACED, TOPOLOGY, request

THEIRS = "org.example.Theirs$Inner"


def observe(event: ScaleEvent | None = None) -> Observation:
    return observation_of(request_from_json(request(1000.0, PLACED, machines=3)), {}, MachineSamples(), event)


def decide(event: ScaleEvent | None = None, **parameters: Any) -> Decision:
    return bind("foreign", {"scheduler": THEIRS, **parameters})(observe(event), {"kept": 1})


def test_every_round_names_the_class_and_places_nothing_itself() -> None:
    decision = decide(conf={"a": 1})
    assert (decision.scheduler, decision.scheduler_class, decision.changes()) == (FOREIGN, THEIRS, False)
    answer = answer_json(answer_of(decision, None, "foreign"))
    assert answer["scheduler"] == {"name": "foreign", "class_name": THEIRS, "conf": {"a": 1}}
    assert answer["topologies"] == {} and decision.memory == {"kept": 1}
    assert refusal(observe(), decision) is None


def test_a_rebalance_is_asked_for_only_where_it_is_wanted() -> None:
    event = ScaleEvent("e1", "scale_out", ("m3",))
    assert decide(event).settled and not decide(event).rebalance
    moved = decide(event, rebalance=True)
    assert moved.settled and moved.rebalance == (TOPOLOGY,) and THEIRS in moved.reason
    assert POLICIES["foreign"].events == {"scale_out", "reschedule"}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "the class of an IScheduler, which the variant's code.scheduler names"),
        ({"scheduler": "a b"}, "scheduler is 'a b'"),
        ({"scheduler": "a..B"}, "scheduler is 'a..B'"),
        ({"scheduler": "a.B", "rebalance": 1}, "rebalance is 1; allowed are true and false"),
        ({"scheduler": "a.B", "conf": []}, "conf is []"),
    ],
)
def test_what_is_not_allowed_is_said(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError) as told:
        bind("foreign", parameters)
    assert words in str(told.value)
