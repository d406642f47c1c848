"""One real run with every kind of event: a machine joins, more input, a machine crashes and comes back, one leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration import left_over
from tests.support import worker_lines

# Long: the plan as a whole through Airflow is the fakes', joining on Storm star's, leaving and rates test_deploy.py's.
# Only here on Storm: executors that move off a crashed machine, and all events in one run.
pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
# As a demo, but each event comes when its rates can be read off, steady or not: what is tested here needs no more.
RUN = """
import sys
from rich.console import Console
from barograph.cli.run import run
changes = {"demo": True, "warm_up_ceiling_s": 45, "horizon_s": 50}
sys.exit(run("plans/mixed", changes, new=True, console=Console()))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    environment = {**os.environ, "BAROGRAPH_RESULTS": str(results)}
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=850
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (folder,) = (results / "plans" / "mixed").iterdir()
    assert (folder / "report.html").is_file()
    return folder / "runs" / "stela-r1"


def document(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "run.json").read_text()))


def events(run: Path, *kinds: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] in kinds]


def only(run: Path, kind: str) -> dict[str, Any]:
    (event,) = events(run, kind)
    return event


def per_second(run: Path, group: str, column: str, begin: float, end: float) -> float:
    """Mean per second of a column of the worker lines that end within [begin, end)."""
    lines = worker_lines.of_run(run)
    total = sum(sum(line.get(group, {}).get(column, [])) for line in lines if begin <= line["t"] < end)
    return float(total / (end - begin))


def test_the_run_is_complete_and_every_event_of_the_plan_happened_once(run: Path) -> None:
    assert document(run)["status"] == "complete", document(run)["failure"]
    zeros = events(run, "scale_requested", "rate_changed", "crashed")
    assert [(event["event_id"], event["kind"]) for event in zeros] == [
        ("e1", "scale_requested"),
        ("e2", "rate_changed"),
        ("e3", "crashed"),
        ("e4", "scale_requested"),
    ]
    assert not events(run, "fallback")


def test_spouts_offer_half_more_after_the_rate_change(run: Path) -> None:
    changed, crashed = only(run, "rate_changed")["t"], only(run, "crashed")["t"]
    before = per_second(run, "spouts", "due", changed - 20, changed)
    after = per_second(run, "spouts", "due", crashed - 20, crashed)
    assert after == pytest.approx(1.5 * before, rel=0.05)


def test_a_crashed_machine_is_silent_and_its_executors_run_elsewhere(run: Path) -> None:
    crashed, restarted = only(run, "crashed"), only(run, "restarted")
    assert crashed["machine"] == restarted["machine"] == "m2"
    lines = [line["t"] for line in worker_lines.of_run(run, "m2")]
    assert not [t for t in lines if crashed["t"] + 2 < t < restarted["t"]]
    left = events(run, "scale_requested")[-1]["t"]
    assert per_second(run, "tasks", "executed", left - 15, left) > 0


def test_the_machine_that_left_holds_nothing_and_was_given_back_while_the_run_went_on(run: Path) -> None:
    left = only(run, "machines_left")
    (name,) = left["machines"]
    assert left["given_back"] is True
    assert left["t"] < only(run, "topology_killed")["t"]
    rounds = [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines()]
    end = only(run, "topology_killed")["t"] - 3
    last = [line["request"] for line in rounds if left["t"] < line["t"] < end][-1]
    (topology,) = last["topologies"]
    tasks = {task for component in topology["components"] for task in component["tasks"]}
    assert set(map(int, topology["placement"])) == tasks, "an executor is left unassigned"
    assert not [slot for slot in topology["placement"].values() if slot.startswith(f"{name}:")]
    assert (run / "machines" / f"{name}.jsonl").is_file(), "its records were fetched before it went"


def test_tuples_flow_after_all_of_it(run: Path) -> None:
    end = only(run, "topology_killed")["t"] - 2
    assert per_second(run, "sinks", "n", end - 15, end) > 0


def test_nothing_is_left_on_the_machine(run: Path) -> None:
    state = Path(os.environ.get("BAROGRAPH_STATE", "/var/lib/barograph"))
    assert not [held for pattern in ("*.json", "*.machines") for held in (state / "leases").glob(pattern)]
    assert left_over.namespaces(run.parents[1]) == []
