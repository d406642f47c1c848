import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.metrics import scale_decisions
from analysis.record.files import RunPaths
from scheduler_plugins.json_data import to_json
from scheduler_plugins.model import Component, Edge, Executor, Observation, ScaleEvent, Slot, Topology, WorkerMachine
from scheduler_plugins.policies import bind


def executors(*tasks: int, rate: float) -> tuple[Executor, ...]:
    return tuple(Executor(t, t + 1, executed_per_s=rate, emitted_per_s=rate) for t in tasks)


def observation(event_id: str = "e1") -> Observation:
    """spout 300/s → work, which manages 100/s → sink."""
    components = (
        Component("spout", "spout", (1, 2), executors(1, rate=300.0), emitted_per_s=300.0, executed_per_s=0.0),
        Component("work", "bolt", (3, 4, 5, 6), executors(3, 5, rate=50.0), emitted_per_s=100.0, executed_per_s=100.0),
        Component("sink", "bolt", (7, 8), executors(7, rate=100.0), emitted_per_s=0.0, executed_per_s=100.0),
    )
    edges = (Edge("spout", "default", "work", "shuffle", 300.0), Edge("work", "default", "sink", "shuffle", 100.0))
    slots = {task: Slot("m1" if task < 5 else "m2", 6700) for task in range(1, 9)}
    topology = Topology("t-1", "t", 3, components, edges, slots)
    machines = tuple(WorkerMachine(name, name, (6700, 6701)) for name in ("m1", "m2", "m3"))
    return Observation(100.0, machines, (topology,), 1.0, ScaleEvent(event_id, "scale_out", ("m3",)))


def log(root: Path, policy: str, seen: Observation, **parameters: Any) -> RunPaths:
    decision = bind(policy, parameters)(seen, {})
    held = {"t": 99.0, "observation": to_json(seen), "decision": {"reason": "held: no samples yet"}}
    line = {"t": 100.0, "observation": to_json(seen), "decision": to_json(decision)}
    (root / "decisions.jsonl").write_text(json.dumps(held) + "\n" + json.dumps(line) + "\n")
    return RunPaths(root)


def test_what_stela_answered_is_told_with_what_it_saw(tmp_path: Path) -> None:
    (answer,) = scale_decisions.scale_decisions(log(tmp_path, "stela", observation()), "stela")
    cells = [answer.cell(name) for name in ("spout", "work", "sink")]
    assert (answer.event_id, cells) == ("e1", ["–", "2 → 3", "1 → 2"])
    assert answer.pressure == {"work": 3.0}


def test_the_answer_is_about_the_runs_own_topology(tmp_path: Path) -> None:
    seen = observation()
    other = replace(seen.topologies[0], topology_id="u-2", components=seen.topologies[0].components[:1], edges=())
    run = log(tmp_path, "stela", replace(seen, topologies=(other, *seen.topologies)))
    (first,) = scale_decisions.scale_decisions(run, "stela")
    assert set(first.before) == {"spout"}, "a record that does not name it has one only"
    (tmp_path / "run.json").write_text('{"topology": {"id": "t-1", "name": "t"}}')
    (answer,) = scale_decisions.scale_decisions(run, "stela")
    assert [answer.cell(name) for name in ("work", "sink")] == ["2 → 3", "1 → 2"]
    rounds = [json.loads(line) for line in run.decisions.read_text().splitlines()]
    later = rounds[-1] | {"decision": rounds[-1]["decision"] | {"executors": {"u-2": {"spout": 2}}, "placement": {}}}
    alone = later | {"observation": later["observation"] | {"topologies": later["observation"]["topologies"][:1]}}
    run.decisions.write_text("".join(json.dumps(each) + "\n" for each in (*rounds, later, alone)))
    assert scale_decisions.scale_decisions(run, "stela") == [answer], "what is said of others afterwards"


def test_dealing_out_again_moves_executors_and_adds_none(tmp_path: Path) -> None:
    (answer,) = scale_decisions.scale_decisions(log(tmp_path, "even", observation(), rebalance=True), "even_rebalance")
    assert answer.before == answer.after and sum(answer.moves.values()) > 0
    moved = answer.moves["work"]
    assert answer.cell("work") == f"{moved} of 2 moved"


def test_a_repeated_event_is_one_answer(tmp_path: Path) -> None:
    (answer,) = scale_decisions.scale_decisions(log(tmp_path, "stela", observation("e1.2")), "stela")
    assert answer.event_id == "e1"


def test_a_log_that_holds_no_observation_has_no_answers(tmp_path: Path) -> None:
    (tmp_path / "decisions.jsonl").write_text('{"t": 1, "observation": {}, "decision": {"settled": true}}\n')
    assert scale_decisions.scale_decisions(RunPaths(tmp_path), "stela") == []
