"""A spout that restarts: what the service answers its worker, and the line that the worker writes then.

Java reads the answer and writes the line in `EmissionCasesTest`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.record.schemas import GROUPS, TABLES, group_fields
from scheduler_plugins.service.samples import Samples
from scheduler_plugins.service.state import ServiceState
from tests.support.rounds import PLACED, TOPOLOGY, request

FOLDER = Path(__file__).parent / "emission_cases"
CASES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
COURSES = json.loads(FOLDER.with_name("course_cases.json").read_text())
restarts = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.mark.parametrize("case", COURSES, ids=[case["what"] for case in COURSES])
def test_the_service_hands_on_what_is_ahead(case: dict[str, Any], tmp_path: Path) -> None:
    """Java counts by its answers what is due in each second."""
    now = [case["configured_s"]]
    state = ServiceState(tmp_path, lambda: now[0])
    state.configure({"run_id": "r1", "policy": "even"})
    state.schedule(request(now[0], PLACED))
    for step in case["steps"]:
        now[0] = step["t"]
        if "input_rate" in step:
            state.change_input_rate(step["input_rate"])
        else:
            assert json.loads(json.dumps(state.take_samples(["{}"], TOPOLOGY))) == step["answer"]


@restarts
def test_the_service_answers_a_worker_that_begins(case: dict[str, Any], tmp_path: Path) -> None:
    now = [case["configured_s"]]
    state = ServiceState(tmp_path, lambda: now[0])
    state.configure({"run_id": "r1", "policy": "even"})
    state.schedule(request(now[0], PLACED))
    state.take_samples([json.dumps(line) for line in case["before"]])
    now[0] = case["input_rate"]["t"]
    state.change_input_rate({key: value for key, value in case["input_rate"].items() if key != "t"})
    assert json.loads(json.dumps(state.take_samples([], TOPOLOGY))) == case["answer"]


@restarts
def test_the_line_after_it_books_what_fell_due_when_it_did(case: dict[str, Any]) -> None:
    samples = Samples(topology_id=case["line"]["topology"])
    for line in (*case["before"], case["line"]):
        samples.add_worker(line)
    series = samples.series(case["line"]["t"] + 10)
    due = dict(zip(series.t, series.due, strict=True))
    last = case["before"][-1]["t"]
    assert [due[last + second] for second in range(-1, 12)] == case["due"]
    assert samples.emissions.json()["5"]["t"] == case["line"]["t"]


@restarts
def test_the_analysis_reads_its_columns(case: dict[str, Any]) -> None:
    for group in ("spouts", "gaps"):
        assert sorted(group_fields(TABLES[GROUPS[group]])) == sorted(case["line"][group])
