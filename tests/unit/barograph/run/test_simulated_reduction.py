"""Henge on simulated machines that are short of CPU: executors at rest cost some, so fewer of them help (HP 4.3.2)."""

from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.replay import read_rounds
from tests.support.experiments import changed
from tests.unit.barograph.run.test_simulated_events import Simulated

BOLTS = ("transform", "filter", "filter_2", "aggregate")


def job(name: str, rate: float, latency_ms: float, most: float, executors: int, tasks: int) -> dict[str, Any]:
    """A page_load whose executors look for tuples every millisecond."""
    sizes = {"spout": 1, "join": 1, "sink": 1, **dict.fromkeys(BOLTS, executors)}
    waits = {f"topology.{kind}.wait.progressive.level3.sleep.millis": 1 for kind in ("bolt", "spout")}
    tasks_of = {"spout": 2, "join": 2, "sink": 2, **dict.fromkeys(BOLTS, tasks)}
    return {
        "name": name, "flux": "page_load",
        "parameters": {"rate_per_s": rate, "ms_per_character": 0.25, "cost_model": "busy", "on_restart": "skip"},
        "overrides": {"workers": 2, "tasks": tasks_of, "executors": sizes, "config": waits},
        "service_level": {"latency_ms": latency_ms, "max_utility": most},
    }  # fmt: skip


@pytest.fixture
def rounds(series: object, heard: Any, tmp_path: Path) -> list[dict[str, Any]]:
    """Two cores for three jobs. `calm` meets its level with many executors that do nothing, `tight` needs more CPU, and
    `hungry` gets executors in vain: what they want of the CPU `tight` loses."""
    jobs = [job("hungry", 20, 100, 50, 2, 16), job("tight", 2, 300, 90, 2, 10), job("calm", 2, 60_000, 20, 10, 10)]
    experiment = changed(
        "henge/cpu_spike", topologies=jobs, testbed={"name": "simulated", "machine_type": "type_1"},
        machines={"before": 2, "after": 2}, variants=[{"name": "henge", "policy": "henge"}], repetitions=1,
        events=[{"kind": "hold", "at": 60, "decide_every_s": 10}],
        durations={"warm_up_floor_s": 30, "warm_up_ceiling_s": 60, "after_floor_s": 230, "horizon_s": 230},
    )  # fmt: skip
    run = Simulated(experiment, tmp_path / "cluster", heard)
    run.go()
    return list(read_rounds(run.folder / "decisions.jsonl"))


def test_a_job_at_rest_gives_its_executors_once_and_then_nothing_can_be_reduced(rounds: list[dict[str, Any]]) -> None:
    steps = [line for line in rounds if line["decision"]["executors"]]
    reasons = [line["decision"]["reason"] for line in steps]
    (reduction,) = [n for n, reason in enumerate(reasons) if reason.startswith("reduce")]
    (taken,) = steps[reduction]["decision"]["executors"].values()
    assert taken == dict.fromkeys(BOLTS, 2), "of ten each: 80 %"
    machines = steps[reduction]["observation"]["machines"]
    assert all(machine["runnable"] > machine["cores"] >= machine["cpu_load"] for machine in machines)
    latest = steps[reduction + 1]["observation"]["topologies"]
    (before,), (after,) = (
        [each["latency_ms"] for each in topologies if each["name"] == "tight"]
        for topologies in (steps[reduction]["observation"]["topologies"], latest)
    )
    assert after < before / 2, "the CPU of executors that are no more"
    assert reasons[-1].startswith("revert") and "most machines are overloaded and nothing can be reduced" in reasons[-1]
