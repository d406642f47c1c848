"""The runs of a simulated series side by side, each in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.record.files import read_json
from barograph.campaign import simulation
from barograph.campaign.simulation import simulate_series
from barograph.campaign.steps import attempt_next_run
from barograph.child_processes import descendants
from barograph.errors import Interrupted, PolicyHung
from barograph.plan.durations import step_limit
from barograph.plan.experiment import Durations, Experiment, Variant, load
from barograph.pool import ProcessPool
from barograph.run.context import Silence, simulated_context
from barograph.run.simulated_cluster import SimulatedCluster
from barograph.series import hold
from barograph.series.interruption import request_stop
from barograph.series.progress import failures_since, lines_since
from barograph.series.series import Series, open_series, read_series, set_deadline
from barograph.settings import cluster_dir
from scheduler_plugins.policies import POLICIES
from scheduler_plugins.service.policy_call import HANG_FILE
from tests.support import endless_policy, hanging_policy

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def star() -> Experiment:
    """Short runs of star, simulated."""
    loaded = load("stela/star")
    short = Durations(warm_up_floor_s=40, warm_up_ceiling_s=60, after_floor_s=20, horizon_s=20)
    return replace(loaded, testbed=replace(loaded.testbed, name="simulated"), durations=short, repetitions=2, claims=())


def statuses(series: Series) -> dict[str, str]:
    return {path.parent.name: read_json(path)["status"] for path in series.folder.glob("runs/*/run.json")}


def workers_lines(series: Series) -> dict[str, bytes]:
    return {f"{path.parts[-3]}/{path.name}": path.read_bytes() for path in series.folder.glob("runs/*/workers/*")}


def test_every_run_is_done_and_told_and_is_the_same_whatever_ran_beside_it(
    star: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(star, new=True)
    assert simulate_series(series.folder)
    assert statuses(series) == dict.fromkeys(
        ["even_rebalance-r1", "even_rebalance-r2", "stela-r1", "stela-r2"], "complete"
    )
    told = lines_since(series.folder, "run_ended", series.opened_s)
    assert {line["run_id"]: line["status"] for line in told} == statuses(series)
    assert not lines_since(series.folder, "throughput", series.opened_s), "nobody can follow several runs at once"
    hold.drop(series.folder)
    monkeypatch.setattr("barograph.campaign.simulation.cores", lambda: 1)
    alone = open_series(star, new=True)
    assert simulate_series(alone.folder)
    assert workers_lines(alone) == workers_lines(series) != {}


def test_a_policy_that_hangs_fails_its_run_and_slows_no_other(
    star: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    """Its thread computes for ever: it ends with the run's own process."""
    (tmp_path / "sitecustomize.py").write_text("import tests.support.endless_policy as p\np.register()\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{repository}")
    monkeypatch.setattr(simulation, "ProcessPool", ProcessPool)
    monkeypatch.setitem(POLICIES, "endless", endless_policy.ENTRY)
    monkeypatch.setattr("barograph.campaign.simulation.cores", lambda: 1)
    variants = (Variant("endless", "endless"), star.variants[0])
    series = open_series(replace(star, variants=variants, repetitions=1, seed=2), new=True)
    before = set(descendants(os.getpid()))
    assert not simulate_series(series.folder)
    assert statuses(series) == {"endless-r1": "failed", "even_rebalance-r1": "complete"}
    (failure,) = failures_since(series.folder, series.opened_s)
    assert (failure["run_id"], failure["blame"]) == ("endless-r1", "system_under_test")
    assert "its decide has not answered after" in failure["message"]
    assert not [pid for pid in set(descendants(os.getpid())) - before if "resource_tracker" not in command_of(pid)]


@pytest.fixture
def hanging(star: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path) -> Experiment:
    """A run whose policy keeps the interpreter: no thread of its process has a turn, nor is a signal heard. And another
    run after it."""
    (tmp_path / "sitecustomize.py").write_text("import tests.support.hanging_policy as p\np.register()\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{repository}")
    monkeypatch.setattr(simulation, "ProcessPool", ProcessPool)
    monkeypatch.setitem(POLICIES, "hanging", hanging_policy.ENTRY)
    variants = (Variant("hanging", "hanging"), star.variants[0])
    return replace(star, variants=variants, repetitions=1, seed=2)


HUNG = "the policy hanging failed: its decide hung in one call and kept Python from all else: "


def test_a_policy_that_hangs_in_one_call_fails_its_run_as_on_machines(
    hanging: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.campaign.simulation.cores", lambda: 1)
    series = open_series(hanging, new=True)
    begin_s = time.monotonic()
    assert not simulate_series(series.folder)
    assert time.monotonic() - begin_s < 120, "not its time limit, which is over an hour"
    assert statuses(series) == {"hanging-r1": "failed", "even_rebalance-r1": "complete"}
    (failure,) = failures_since(series.folder, series.opened_s)
    assert (failure["run_id"], failure["blame"]) == ("hanging-r1", "system_under_test")
    assert failure["message"].startswith(HUNG) and "/re/" in failure["message"]
    record = read_json(series.run_folder("hanging-r1") / "run.json")
    assert record["failure"]["message"] == failure["message"]
    threads = (series.run_folder("hanging-r1") / "logs" / "master" / HANG_FILE).read_text()
    assert threads.startswith("hanging-r1\n") and "hanging_policy.py" in threads


def test_after_a_policy_has_ended_the_process_the_next_attempt_says_so_once(star: Experiment, tmp_path: Path) -> None:
    """As Airflow tries a task again: there a run has no process of its own."""
    series = open_series(replace(star, variants=star.variants[:1], repetitions=1), new=True)
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    threads = 'Thread 0x2 (most recent call first):\n  File "/x/metis.py", line 3 in cut\n'
    threads += '  File "/x/policy_call.py", line 63 in ask_policy\n'
    (cluster / HANG_FILE).write_text(f"even_rebalance-r1\nTimeout (0:00:08)!\n{threads}")
    context = simulated_context(series, cluster, Silence(), SimulatedCluster)
    with pytest.raises(PolicyHung, match=r'the policy even failed: its decide hung .* all else: "/x/metis.py", line 3'):
        attempt_next_run(series, context)
    assert statuses(series) == {"even_rebalance-r1": "failed"}
    attempt_next_run(series, context, *series.plan())
    assert statuses(series) == {"even_rebalance-r1": "complete"}


def test_what_hung_in_another_run_is_not_said_of_this_one(star: Experiment, tmp_path: Path) -> None:
    series = open_series(replace(star, variants=star.variants[:1], repetitions=1), new=True)
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    threads = 'Thread 0x2 (most recent call first):\n  File "/x/policy_call.py", line 63 in ask_policy\n'
    (cluster / HANG_FILE).write_text(f"stela-r1\nTimeout (0:00:08)!\n{threads}")
    attempt_next_run(series, simulated_context(series, cluster, Silence(), SimulatedCluster))
    assert statuses(series) == {"even_rebalance-r1": "complete"}
    assert not (series.run_folder("even_rebalance-r1") / "logs" / "master" / HANG_FILE).exists()


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def test_a_series_that_was_stopped_or_is_late_begins_no_run(star: Experiment) -> None:
    series = open_series(star, new=True)
    set_deadline(series, series.opened_s)
    assert simulate_series(series.folder), "what a deadline leaves out is no failure"
    assert statuses(read_series(series.folder)) == {}
    assert lines_since(series.folder, "deadline", series.opened_s)
    request_stop(series.folder)
    with pytest.raises(Interrupted):
        simulate_series(series.folder)


def test_what_keeps_runs_from_beginning_is_said(star: Experiment) -> None:
    series = open_series(replace(star, repetitions=1), new=True)
    in_the_way = cluster_dir(series.series_id)
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    assert not simulate_series(series.folder)
    said = {line["run_id"]: line["message"] for line in failures_since(series.folder, series.opened_s)}
    assert said.keys() == {"even_rebalance-r1", "stela-r1"}
    assert all("Not a directory" in message for message in said.values())


def test_what_is_sent_after_a_run_leaves_out_those_under_way(star: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    series = open_series(replace(star, repetitions=1), new=True)
    left: list[set[str]] = []
    monkeypatch.setattr(
        "barograph.campaign.simulation.send_now", lambda _folder, _say, under_way: left.append({*under_way})
    )
    assert simulate_series(series.folder)
    assert len(left[0]) == 1 and left[0] < {"even_rebalance-r1", "stela-r1"} and left[1:] == [set()]


def test_runs_that_go_on_keep_their_lease(star: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever reaps what is left over takes their folders."""
    series = open_series(star, new=True)
    kept: list[tuple[Path, float]] = []

    @contextmanager
    def keep(of: Series, limit_s: float) -> Iterator[None]:
        kept.append((of.folder, limit_s))
        yield

    monkeypatch.setattr("barograph.campaign.simulation.keep_alive", keep)
    monkeypatch.setattr("barograph.campaign.simulation.prolong", lambda of, minutes: kept.append((of.folder, minutes)))
    assert simulate_series(series.folder)
    assert kept == [(series.folder, 4 * step_limit("run", star).seconds), (series.folder, star.lease_minutes)]
