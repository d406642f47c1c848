"""Plan, policy service and workers allow the same input rate factors; the workers' part is `SamplesAnswerTest`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barograph.errors import ExperimentError
from barograph.plan.experiment import from_data, load
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.state import ServiceState

FACTORS = json.loads(Path(__file__).with_name("input_rate_factors.json").read_text())
CASES = [(factor, word == "allowed") for word, factors in FACTORS.items() for factor in factors]


@pytest.mark.parametrize(("factor", "allowed"), CASES)
def test_a_plan_may_have_it(factor: float, allowed: bool) -> None:
    data = load("stela/star").as_data() | {"events": [{"kind": "rate", "at": "steady", "factor": factor}]}
    data["machines"]["after"] = data["machines"]["before"]
    if allowed:
        assert from_data(data).events[0].factor == factor  # type: ignore[attr-defined]  # which kind the test knows
    else:
        with pytest.raises(ExperimentError, match=r"events\.0\.factor is "):
            from_data(data)


@pytest.mark.parametrize(("factor", "allowed"), CASES)
def test_the_service_takes_it(factor: float, allowed: bool, tmp_path: Path) -> None:
    state = ServiceState(tmp_path)
    if allowed:
        assert state.change_input_rate({"factor": factor})["factor"] == factor
    else:
        with pytest.raises(CallRefusal, match=r"factor is .* allowed is a number from 1e-06 to 1000"):
            state.change_input_rate({"factor": factor})
