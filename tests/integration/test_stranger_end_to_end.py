"""`barograph compare` with a scheduler of others that reacts to a new machine by itself, on emulated machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph.software import storm_home

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1500)]

# Deals everything out again as soon as a supervisor has no worker of the topology.
DEALER = """package theirs;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
public class Dealer extends EvenScheduler {
    public void schedule(Topologies topologies, Cluster cluster) {
        for (TopologyDetails topology : topologies.getTopologies()) {
            SchedulerAssignment now = cluster.getAssignmentById(topology.getId());
            if (now != null
                    && now.getSlots().stream().map(slot -> slot.getNodeId()).distinct().count()
                    < cluster.getSupervisors().size()) {
                cluster.freeSlots(now.getSlots());
            }
        }
        super.schedule(topologies, cluster);
    }
}
"""


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, results = tmp_path_factory.mktemp("dealer"), tmp_path_factory.mktemp("results")
    (folder / "Dealer.java").write_text(DEALER)
    (folder / "dealer.yaml").write_text("{label: dealer, jar: dealer.jar, scheduler: theirs.Dealer}")
    path = f"{storm_home(print)}/lib/*"
    for argv in (
        ["javac", "-cp", path, "-d", "classes", "Dealer.java"],
        ["jar", "cf", "dealer.jar", "-C", "classes", "."],
    ):
        subprocess.run(argv, cwd=folder, check=True, timeout=120)
    command = [sys.executable, "-m", "barograph", "compare", "HEAD", str(folder / "dealer.yaml"), "--new"]
    options = ["--experiment", "small/star", "--variants", "stela", "--blocks", "3"]
    environment = {**os.environ, "BAROGRAPH_RESULTS": str(results)}
    done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True, timeout=1400)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (one,) = (results / "compare" / "small_star").iterdir()
    return one


def runs_of(series: Path, variant: str) -> list[Path]:
    return sorted((series / "runs").glob(f"{variant}_*-r*"))


def event(run: Path, kind: str) -> dict[str, Any]:
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return next(line for line in lines if line["kind"] == kind)


def test_every_run_of_both_sides_is_complete(series: Path) -> None:
    documents = [json.loads((run / "run.json").read_text()) for run in (series / "runs").iterdir()]
    assert [document["status"] for document in documents] == ["complete"] * 6
    assert {document["attempt"] for document in documents} == {1}


def test_the_zero_of_the_dealer_is_the_join_and_its_workers_restart_after_it(series: Path) -> None:
    for run in runs_of(series, "foreign"):
        zero, joined = event(run, "scale_requested")["t"], event(run, "machines_joined")["t"]
        assert zero <= joined
        restarts = [
            line["t"] for line in map(json.loads, (run / "events.jsonl").read_text().splitlines())
            if line["kind"] == "worker_restarted"
        ]  # fmt: skip
        assert restarts and zero < min(restarts), "it deals out again, unasked"


def test_the_comparison_has_numbers_of_both_sides(series: Path) -> None:
    result = json.loads((series / "comparison_result.json").read_text())
    assert result["sentence"]
    named = {row["metric"] for row in result["rows"]}
    assert any("throughput_after" in name for name in named) and any("convergence" in name for name in named)
