from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.json_data import to_json
from scheduler_plugins.model import Decision, Observation, ScaleEvent
from scheduler_plugins.policies import PolicyError, bind
from scheduler_plugins.policies.stela import AUTHORS_PARAMETERS, PAPER_PARAMETERS, VARIANTS
from scheduler_plugins.replay import AblationRow, ablate, read_rounds
from tests.support.topologies_by_hand import dealt_evenly, machines, topology

# a → b → d and a → c → e: b and c get 400 each, and execute 100 and 120.
EDGES = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "e")]
INFLOW = {"a": 400.0, "b": 100.0, "c": 120.0}
PROCESSING = {"b": 100.0, "c": 120.0, "d": 100.0, "e": 120.0}


def observe(kind: str = "scale_out", event_id: str = "e1", executors: int = 4) -> Observation:
    shape = topology(EDGES, tasks=8, executors=executors, workers=8, inflow=INFLOW, processing=PROCESSING)
    out = kind == "scale_out"
    event = ScaleEvent(event_id, kind, ("m4",) if out else (), 0 if out else 2)  # type: ignore[arg-type]
    return Observation(5.0, machines(4 if out else 3), (dealt_evenly(shape, machines(3)),), 1.0, event)


def log(tmp_path: Path, rounds: Sequence[tuple[Observation, Decision]]) -> list[dict[str, Any]]:
    path = tmp_path / "decisions.jsonl"
    lines = [
        {"t": 100.0 + i, "observation": to_json(seen), "memory": {}, "decision": to_json(decision)}
        for i, (seen, decision) in enumerate(rounds)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(read_rounds(path))


def by_variant(rows: Sequence[AblationRow]) -> dict[str, AblationRow]:
    return {row["variant"]: row for row in rows}


def test_a_row_for_every_event_and_variant_as_json(tmp_path: Path) -> None:
    out, inwards = observe(), observe("scale_in", "e2")
    rounds = [(replace(out, event=None), Decision()), (out, Decision(settled=True)), (inwards, Decision(settled=True))]
    rows = ablate(log(tmp_path, rounds))
    assert [(row["event_id"], row["variant"]) for row in rows] == [(e, v) for e in ("e1", "e2") for v in VARIANTS]
    assert json.loads(json.dumps(rows)) == rows
    assert {row["refused"] for row in rows} == {None}


def test_the_rows_are_what_stela_answers(tmp_path: Path) -> None:
    observation = observe()
    row = by_variant(ablate(log(tmp_path, [(observation, Decision(settled=True))])))["paper"]
    decision = bind("stela", PAPER_PARAMETERS)(observation, {})
    assert {name: after for name, (_, after) in row["executors"]["t-1"].items()} == decision.executors["t-1"]
    assert {before for before, _ in row["executors"]["t-1"].values()} == {4}
    assert row["reason"] == decision.reason and row["settled"] and row["t"] == 100.0
    # 20 executors on 3 machines: 7 for the new one.
    assert row["per_machine"]["t-1"]["m4"] == 7 and sum(row["per_machine"]["t-1"].values()) == 27


def test_it_tells_which_difference_matters(tmp_path: Path) -> None:
    rows = by_variant(ablate(log(tmp_path, [(observe(), Decision(settled=True))])))
    same = {name for name, row in rows.items() if row["same_as_paper"]}
    # 20 / 3 executors, rounded up or down, and 20 / 4 differ; nothing here reaches a sink on two paths, nobody leaves.
    assert not {"paper, slots: per_machine_floor", "paper, slots: with_new"} & same
    assert {"paper", "paper, shared_sink: per_path", "paper, scale_in: all_at_once"} <= same
    assert rows["paper, slots: per_machine_floor"]["per_machine"]["t-1"]["m4"] == 6
    assert rows["paper, slots: with_new"]["per_machine"]["t-1"]["m4"] == 5


def test_the_observation_is_that_of_the_round_which_decided(tmp_path: Path) -> None:
    held = replace(observe(), samples_age_s=None)
    busy = observe(executors=6)
    moving = replace(busy, topologies=tuple(replace(t, rebalancing=True) for t in busy.topologies))
    decided, later = observe(executors=2), observe(executors=8)
    rounds = [(held, Decision()), (moving, Decision()), (decided, Decision(settled=True)), (later, Decision())]
    rows = ablate(log(tmp_path, rounds))
    assert {row["t"] for row in rows} == {102.0}
    assert {before for row in rows for before, _ in row["executors"]["t-1"].values()} == {2}


def test_an_event_that_was_never_decided_shows_its_last_round(tmp_path: Path) -> None:
    rows = ablate(log(tmp_path, [(replace(observe(), samples_age_s=None), Decision())]))
    assert len(rows) == len(VARIANTS)
    assert {row["reason"] for row in rows} == {"held: no samples yet"} and not any(row["settled"] for row in rows)


def test_scale_in_shows_who_leaves(tmp_path: Path) -> None:
    rows = by_variant(ablate(log(tmp_path, [(observe("scale_in"), Decision(settled=True))])))
    for row in rows.values():
        assert len(row["release"]) == 2 and len(row["per_machine"]["t-1"]) == 1
        assert sum(row["per_machine"]["t-1"].values()) == 20


def test_what_the_run_had_besides_is_kept(tmp_path: Path) -> None:
    rounds = log(tmp_path, [(observe(), Decision(settled=True))])
    plain, blind = ablate(rounds), ablate(rounds, {"congestion_rate": 1e6})
    # Nothing is congested at such a rate: a source grows.
    assert set(blind[0]["executors"]["t-1"]) == {"a"} != set(plain[0]["executors"]["t-1"])
    with pytest.raises(PolicyError, match="no parameter 'alpha'"):
        ablate(rounds, {"alpha": 1})


def test_the_papers_rules_are_the_defaults_and_the_codes_differ_in_each() -> None:
    assert bind("stela", PAPER_PARAMETERS).keywords == bind("stela", {}).keywords  # type: ignore[attr-defined]
    assert PAPER_PARAMETERS.keys() == AUTHORS_PARAMETERS.keys() and all(
        PAPER_PARAMETERS[name] != AUTHORS_PARAMETERS[name] for name in PAPER_PARAMETERS
    )
    for parameters in VARIANTS.values():
        bind("stela", parameters)
