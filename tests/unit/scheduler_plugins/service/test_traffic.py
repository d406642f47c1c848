"""Traffic between tasks: sums of a moving window, and rounds that are logged with it only where it was read."""

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins import replay
from scheduler_plugins.model import Decision, Memory, Observation
from scheduler_plugins.replay import read_rounds
from scheduler_plugins.service.messages import observation_from_log
from scheduler_plugins.service.samples import Samples, Window
from scheduler_plugins.service.state import ServiceState
from scheduler_plugins.traffic import Traffic, TrafficNotLogged
from tests.support.rounds import PLACED, TOPOLOGY, line, request


def with_traffic(text: str, **traffic: list[int]) -> str:
    return json.dumps(json.loads(text) | {"traffic": traffic})


def summed_anew(samples: Samples, window: Window, of: str) -> dict[Any, float]:
    sums: dict[Any, float] = defaultdict(float)
    for each in samples._all_lines():
        for key, n in getattr(each, of):
            sums[key] += n * window.share(each)
    return {key: n for key, n in sums.items() if n}


def test_running_sums_are_those_of_the_window_wherever_it_goes() -> None:
    """Lines of several seconds, late ones and gaps; the window grows, shrinks and goes back."""
    draw, samples = random.Random(5), Samples(window_s=20.0, topology_id=TOPOLOGY)
    for t in range(1000, 1120):
        for machine in ("m1", "m2"):
            if draw.random() < 0.9:
                pairs = draw.sample(range(9), 4)
                sent: Any = {"from": pairs, "to": pairs[::-1], "n": [draw.randrange(5) for _ in pairs]}
                body = json.loads(with_traffic(line(t + draw.random(), machine, {"sink": (0, 2)}), **sent))
                samples.add_worker(body | {"dt_s": draw.choice([0.4, 1.0, 1.0, 6.0])})
        until = t - draw.uniform(0, 8)
        window = Window(until - draw.uniform(0, 20), until)
        traffic, counts = samples.traffic(window), samples.counts(window)
        assert {pair: n for pair, n in traffic.items() if n} == pytest.approx(summed_anew(samples, window, "traffic"))
        anew = summed_anew(samples, window, "counts")
        for name, of_line, unit in (
            ("executed", "executed", 1),
            ("timed", "timed", 1),
            ("execute_ms", "execute_us", 1000),
        ):
            found = {task: getattr(each, name) for task, each in counts.tasks.items() if getattr(each, name) > 1e-9}
            assert found == pytest.approx({key[1]: n / unit for key, n in anew.items() if key[0] == of_line})


@pytest.fixture
def service_state(tmp_path: Path) -> ServiceState:
    """Task 5 sends 30/s to task 1."""
    state = ServiceState(tmp_path, lambda: 1040.0)
    state.configure({"run_id": "r1", "policy": "even", "window_s": 30})
    state.schedule(request(1000.0, PLACED))
    for second in range(40):
        for machine in ("m1", "m2"):
            text = line(1001.0 + second, machine, {"spout": (100, 0)} if machine == "m1" else {"sink": (0, 50)})
            state.take_samples([with_traffic(text, **{"from": [5], "to": [1], "n": [15]}) if machine == "m1" else text])
    return state


def reads(observation: Observation, memory: Memory) -> Decision:
    rate = observation.topologies[0].traffic[5, 1]
    return Decision(memory=memory, reason=f"{rate:.0f}")


def logged(state: ServiceState) -> dict[str, Any]:
    *_, last = read_rounds(state.log_path)
    return last


def test_a_round_is_logged_with_its_traffic_where_the_policy_read_it(service_state: ServiceState) -> None:
    service_state.policy = reads
    service_state.schedule(request(1040.0, PLACED))
    round = logged(service_state)
    assert round["decision"]["reason"] == "15"
    assert round["observation"]["topologies"][0]["traffic"] == [[5, 1, pytest.approx(15)]]
    again = reads(observation_from_log(round["observation"]), round["memory"])
    assert again.reason == round["decision"]["reason"]


def test_rates_come_all_at_once_too_and_are_read_by_that() -> None:
    traffic = Traffic({(1, 2): 30, (2, 3): 15}, 10.0)
    assert traffic.is_unread
    assert list(traffic.values()) == [3.0, 1.5] == [traffic[pair] for pair in traffic]
    assert len(traffic.values()) == 2 and not traffic.is_unread
    with pytest.raises(TrafficNotLogged):
        list(Traffic(None).values())


def test_a_policy_that_did_not_read_it_leaves_none_and_no_other_is_given_an_empty_one(
    service_state: ServiceState,
) -> None:
    service_state.schedule(request(1040.0, PLACED))
    body = logged(service_state)["observation"]
    assert body["topologies"][0]["traffic"] is None
    observation = observation_from_log(body)
    assert observation.topologies[0].component("spout").emitted_per_s == pytest.approx(100)
    with pytest.raises(TrafficNotLogged, match="which nobody read then"):
        reads(observation, {})


def test_a_round_without_traffic_says_so_and_older_logs_stay_readable(service_state: ServiceState) -> None:
    service_state.configure({"run_id": "r2", "policy": "even", "window_s": 30})
    service_state.schedule(request(1000.0, PLACED))
    body = logged(service_state)["observation"]
    assert body["topologies"][0]["traffic"] == []
    body["topologies"][0]["traffic"] = [[5, 1, 15.0]]
    assert dict(observation_from_log(body).topologies[0].traffic) == {(5, 1): 15.0}


def test_a_replay_says_so_of_a_round_without_its_traffic_and_goes_on(
    service_state: ServiceState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service_state.schedule(request(1040.0, PLACED))
    unread = logged(service_state)
    service_state.policy = reads
    service_state.schedule(request(1041.0, PLACED))
    log = tmp_path / "decisions.jsonl"
    log.write_text("".join(json.dumps(round) + "\n" for round in (unread, logged(service_state))))
    monkeypatch.setattr(replay, "bind", lambda *_: reads)
    first, second = replay.replay(log, "reads")
    assert first.refused is not None and "logged without its traffic" in first.refused
    assert second.refused is None and second.now["reason"] == "15"
