"""The main job for real: its DAG in Airflow, machines, Ansible, Storm, both policies, Spark, a report."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph import airflow_environment
from barograph.plan.experiment import DURATION_NAMES, load, with_changes
from barograph.settings import ROOT
from tests.dags.fake_runs import alone
from tests.integration import left_over
from tests.support import worker_launches, worker_lines

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]


DAG = """
import json, sys
from dags.experiments import stela_star
print("state:", stela_star.test(run_conf=json.loads(sys.argv[1])).state)
"""


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's series, with the demo's numbers in the trigger form of the DAG."""
    folder = tmp_path_factory.mktemp("star")
    short = with_changes(load("stela/star"), {"demo": True})
    answers = {"repetitions": short.repetitions, "series": "new", **{
        name: getattr(short.durations, name) for name in DURATION_NAMES
    }}  # fmt: skip
    airflow_environment.prepare(folder / "airflow")
    world = {**os.environ, **alone("stela.star"), "BAROGRAPH_RESULTS": str(folder / "results")}
    done = subprocess.run(
        [sys.executable, "-c", DAG, json.dumps(answers)], cwd=ROOT, capture_output=True, text=True, timeout=1100,
        env=airflow_environment.environment(folder / "airflow", world),
    )  # fmt: skip
    assert "state: success" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    (opened,) = (folder / "results" / "stela" / "star").iterdir()
    (opened / "harness.log").write_text(done.stdout + done.stderr)  # as a command writes it, for `left_over`
    return opened


def document(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "run.json").read_text()))


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def throughput(run: Path, after: bool) -> float:
    """Tuples per second at sinks over 20 s: before the scale request, or at the end of the run."""
    zero = events(run, "scale_requested")[0]["t"]
    end = events(run, "topology_killed")[0]["t"] - 2 if after else zero
    total = 0
    for line in worker_lines.of_run(run):
        if end - 20 <= line["t"] < end:
            total += sum(
                n
                for c, n in zip(*(line["tasks"][k] for k in ("component", "executed")), strict=True)
                if c.startswith("sink")
            )
    return total / 20


def test_both_runs_are_complete_and_none_fell_back(series: Path) -> None:
    runs = {document(run)["variant"]["name"]: document(run) for run in (series / "runs").iterdir()}
    assert {name: run["status"] for name, run in runs.items()} == {"even_rebalance": "complete", "stela": "complete"}
    assert all(not events(run, "fallback") for run in (series / "runs").iterdir())


def test_stela_grows_the_centre_and_passes_more_than_before(series: Path) -> None:
    run = series / "runs" / "stela-r1"
    (decision,) = events(run, "decision")
    assert "3 slots, centre 2→4" in decision["reason"]
    # 4 executors in place of 2 is +100 %; a loaded machine may take some of it.
    assert throughput(run, after=True) > 1.5 * throughput(run, after=False)


def test_storms_default_moves_executors_but_gains_no_half(series: Path) -> None:
    run = series / "runs" / "even_rebalance-r1"
    assert throughput(run, after=True) < 1.2 * throughput(run, after=False)


def test_workers_whose_executors_did_not_change_were_not_restarted(series: Path) -> None:
    """From the supervisors' own logs: after the request only slots that the decision touched launched a worker."""
    run = series / "runs" / "stela-r1"
    zero = events(run, "scale_requested")[0]["t"]
    launched = {slot for moment, slot in worker_launches.of_run(run) if moment > zero}
    assert launched == _touched_slots(run)


def _touched_slots(run: Path) -> set[str]:
    """Slots that have other executors after the scale-out than before, by the decision log."""
    rounds = [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines()]
    (decided,) = [line for line in rounds if line["observation"]["event"] and line["decision"]["settled"]]
    applied = events(run, "applied")[-1]["t"]
    last = [line for line in rounds if applied < line["t"] < events(run, "topology_killed")[0]["t"] - 3][-1]
    before, after = _sets(decided["request"]), _sets(last["request"])
    return {slot for slot in after if after[slot] != before.get(slot)}


def _sets(request: dict[str, Any]) -> dict[str, set[tuple[int, int]]]:
    (topology,) = request["topologies"]
    slots: dict[str, set[tuple[int, int]]] = {}
    for component in topology["components"]:
        for first, last in component["executors"]:
            if str(first) in topology["placement"]:
                slots.setdefault(topology["placement"][str(first)], set()).add((first, last))
    return slots


def test_the_report_states_a_verdict_for_every_claim_of_the_experiment(series: Path) -> None:
    claims = json.loads((series / "claims.json").read_text())["claims"]
    mine = [claim for claim in claims if claim["experiment"] == "stela/star"]
    assert {claim["id"].split("/")[0] for claim in mine} == {"S02", "S03", "S09"}
    report = html.unescape((series / "report.html").read_text()).replace("\u00a0", " ")
    assert "Stela's throughput after the scale-out was " in report
    ids = report.replace("<wbr>", "")  # a long id may break behind its slash
    assert all(claim["id"] in ids for claim in mine)
    fetched = re.search(r"""src\s*=\s*["'](?!data:)|<link\b|url\((?!#|data:)|@import""", report)
    assert not fetched, (
        f"the report must be self-contained; it asks for {report[fetched.start() : fetched.start() + 80]}"
    )


def test_nothing_is_left_on_the_machine(series: Path) -> None:
    state = Path(os.environ.get("BAROGRAPH_STATE", "/var/lib/barograph"))
    assert not list((state / "leases").glob("*.json"))
    assert left_over.namespaces(series) == []
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(series) not in processes.replace(" ".join(sys.argv), "")
