"""`barograph sweep`: what is simulated, what of it is kept, and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from barograph.campaign import simulation, sweep
from barograph.campaign.simulation import Job, SimulatedRun, SimulationFailure, failures_of, state_of
from barograph.campaign.sweep import SweepFolder, open_sweep
from barograph.child_processes import descendants
from barograph.cli import main
from barograph.plan.sweep import load
from barograph.series import hold, provenance
from barograph.series.provenance import simulating_code_sha256
from barograph.series.series import read_series
from barograph.settings import HOLDER, results_root

Write = Callable[..., Path]
RATES = {"topology.parameters.rate_per_s": [40.0, 100.0]}


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Nothing is analysed; the runs that would have been, execution by execution."""
    found: list[int] = []

    def analyse(root: Path, _master: str, jars: object) -> Path:
        found.append(len(list(SeriesPaths(root).runs.iterdir())))
        return SeriesPaths(root).report

    monkeypatch.setattr(sweep, "analyse_sweep", analyse)
    monkeypatch.setattr(sweep, "avro_jars", lambda *_: ())
    return found


def folder_of(number: int = 1) -> Path:
    folders = sorted((results_root() / "small" / "swept").glob("sweep-*"))
    assert len(folders) == number
    return folders[-1]


def opened(file: Path) -> SweepFolder:
    """The sweep of that file with one variant, as a command that simulates nothing leaves it."""
    swept = load(str(file), {"variants": ["stela"]})
    return open_sweep(swept, swept.points(), new=True)


def points_of(folder: Path) -> list[Path]:
    return sorted((folder / "points").iterdir())


def measured(folder: Path) -> dict[str, bytes]:
    """Everything that workers wrote, by run and file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("runs/*/workers/*"))}


def test_a_point_is_a_series_and_a_complete_one_is_not_run_again(
    sweep_file: Write, drawn: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(sweep_file(RATES))
    assert main(["sweep", file, "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert "small/swept: 2 points (2 of topology.parameters.rate_per_s), 4 runs" in said
    assert "analysing 4 runs in one Spark session" in said
    assert "2 of 2 points to do, 0 complete" in said and "2 of 2 points, " in said and " left" in said
    folder = folder_of()
    points = points_of(folder)
    assert [state_of(point) for point in points] == ["complete", "complete"] and drawn == [4]
    series = [read_series(point) for point in points]
    assert [each.experiment.topology.parameters["rate_per_s"] for each in series if each.experiment.topology] == [
        40.0,
        100.0,
    ]
    assert [sorted(each.complete()) for each in series] == [["even_rebalance-r1", "stela-r1"]] * 2
    assert sorted(link.name for link in SeriesPaths(folder).runs.iterdir()) == [
        "00001.even_rebalance-r1", "00001.stela-r1", "00002.even_rebalance-r1", "00002.stela-r1",
    ]  # fmt: skip
    before = {point: read_json(point / "series.json")["opened_s"] for point in points}

    (points[1] / "point.json").unlink()  # as one that was cut short
    assert main(["sweep", file]) == 0
    assert "1 of 2 points to do, 1 complete" in capsys.readouterr().out
    after = {point: read_json(point / "series.json")["opened_s"] for point in points_of(folder_of())}
    assert after[points[0]] == before[points[0]] and after[points[1]] > before[points[1]]

    assert main(["sweep", file, "--new"]) == 0
    assert points_of(folder_of(2))[0].name == points[0].name


def test_the_same_point_is_the_same_to_the_byte_however_many_run_beside_it(sweep_file: Write) -> None:
    seeds = {"seed": [3, 4, 5]}
    noisy = {"testbed": {"name": "simulated", "machine_type": "type_1", "scale": 0.3,
                         "options": {"simulated": {"costs": {"noise": 0.2}}}}}  # fmt: skip
    file = str(sweep_file(seeds, **noisy))
    assert main(["sweep", file, "--jobs", "1", "--variants", "stela"]) == 0
    one_by_one = [measured(point) for point in points_of(folder_of())]
    assert main(["sweep", file, "--jobs", "3", "--variants", "stela", "--new"]) == 0
    assert [measured(point) for point in points_of(folder_of(2))] == one_by_one
    assert one_by_one[0] and len({tuple(point.values()) for point in one_by_one}) == 3, "seeds make a difference"


def test_every_point_is_checked_before_the_first_is_simulated(
    sweep_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sweep_file({"variants.stela.parameters.window_s": [60, -5, -6]})
    assert main(["sweep", str(file)]) == 2
    said = capsys.readouterr().err
    assert "small/swept.yaml, point 2 (variants.stela.parameters.window_s = -5): " in said
    assert "small/swept.yaml, point 3 (variants.stela.parameters.window_s = -6): " in said and "point 1 " not in said
    assert not results_root().exists() or not list(results_root().rglob("sweep.json"))


def test_a_sweep_on_machines_is_refused(sweep_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(sweep_file({"seed": [1]}, testbed={"name": "local", "machine_type": "type_1"}))
    assert main(["sweep", file]) == 2
    assert "testbed.name is 'local'" in capsys.readouterr().err
    assert main(["sweep", file, "--testbed", "simulated", "--jobs", "0"]) == 2
    assert "--jobs is 0; allowed: at least 1" in capsys.readouterr().err


def test_a_run_that_fails_is_said_and_tried_again_and_stops_no_other(
    sweep_file: Write, drawn: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(sweep_file({"topology.parameters.rate_per_s": [0.0001, 100.0]}))
    assert main(["sweep", file, "--variants", "stela"]) == 5
    said = capsys.readouterr().out
    assert "stela-r1: system under test: no tuple reached a sink within" in said
    assert "1 of 2 points failed; the report says why, the same command tries them again" in said
    folder = folder_of()
    first, second = points_of(folder)
    assert (state_of(first), state_of(second), drawn) == ("failed", "complete", [1])
    assert [(row["point"], row["run_id"]) for row in read_json(folder / "sweep.json")["failures"]] == [(1, "stela-r1")]
    assert main(["sweep", file, "--variants", "stela"]) == 5
    assert "1 of 2 points to do, 1 complete" in capsys.readouterr().out
    assert failures_of(first)[0]["blame"] == "system_under_test"


def test_a_point_that_cannot_begin_is_in_the_report_and_ends_no_other(
    sweep_file: Write, drawn: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug of ours for all that is known: it has a traceback, which the point's folder keeps where there is one."""
    file = str(sweep_file(RATES))
    folder = opened(Path(file))
    first, second = (folder.of(point) for point in folder.points)
    first.parent.mkdir()
    first.write_text("a file in the folder's place")
    (second / "series.json").mkdir(parents=True)
    assert main(["sweep", file, "--variants", "stela"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("its folder does not keep that: ") == 1 and "2 of 2 points failed" in said
    rows = read_json(folder_of() / "sweep.json")["failures"]
    assert [(row["point"], row["run_id"], row["blame"]) for row in rows] == [(1, "", "harness"), (2, "", "harness")]
    assert [each["message"] for each in failures_of(second)] == [rows[1]["message"]]
    assert "Traceback" in (second / "failure.txt").read_text()
    (second / "series.json").rmdir()
    assert main(["sweep", file, "--variants", "stela"]) == 1
    assert (state_of(second), drawn) == ("complete", [1])


def change(file: Path, **facts: object) -> None:
    write_json_atomic(file, {**read_json(file), **facts})


def test_of_a_point_that_failed_the_good_runs_stay_and_nothing_is_lost(
    sweep_file: Write, drawn: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(sweep_file({"seed": [1]}))
    assert main(["sweep", file]) == 0
    (point,) = points_of(folder_of())
    good, bad = point / "runs" / "even_rebalance-r1", point / "runs" / "stela-r1"
    change(bad / "run.json", status="failed")
    failure = {"run_id": "stela-r1", "blame": "infrastructure", "message": "its process ended with -9"}
    change(point / "point.json", failures=[failure])
    kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in good.rglob("*") if path.is_file()}
    was_measured = {path.name: path.read_bytes() for path in bad.glob("workers/*")}
    assert main(["sweep", file]) == 0
    assert "1 of 1 points to do, 0 complete" in capsys.readouterr().out and drawn == [2, 2]
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in kept} == kept
    assert (state_of(point), read_json(bad / "run.json")["status"]) == ("complete", "complete")
    (aside,) = [path for path in (point / "attempts").iterdir() if path.name.startswith("stela-r1")]
    assert read_json(aside / "run.json")["status"] == "failed"
    assert {path.name: path.read_bytes() for path in aside.glob("workers/*")} == was_measured


def is_killed_before_it_begins(job: Job) -> SimulationFailure | None:
    """In a process of the pool."""
    if isinstance(job, SimulatedRun):
        os.kill(os.getpid(), signal.SIGKILL)
    return job.do()


def test_what_failed_is_said_also_where_the_disk_is_full(
    sweep_file: Write, drawn: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: dict[str, Any]) -> None:
        if "failures" in value:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write_json_atomic(path, value)

    for module in (simulation, sweep):
        monkeypatch.setattr(module, "write_json_atomic", full)
    monkeypatch.setattr(simulation, "_do", is_killed_before_it_begins)
    file = str(sweep_file({"seed": [1]}))
    assert main(["sweep", file, "--variants", "stela"]) == 3, "a full disk is worse than a process that was killed"
    said = " ".join(capsys.readouterr().out.split())
    assert "no report: the disk is full (" in said and "sweep.json): free some space" in said
    assert "1 of 1 points failed; the lines above say why, the same command tries them again" in said
    assert drawn == []


TODAY = {"git_commit": "b" * 40, "git_dirty": False, "code_sha256": "today"}


def test_numbers_of_other_code_are_said_also_where_nothing_is_missing(
    sweep_file: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "git_state", lambda: (TODAY["git_commit"], TODAY["git_dirty"]))
    monkeypatch.setattr(provenance, "simulating_code_sha256", lambda: TODAY["code_sha256"])
    file = str(sweep_file({"seed": [1]}))

    def said() -> str:
        assert main(["sweep", file]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "note: " not in said() and "note: " not in said(), "the same code"
    assert read_json(folder_of() / "sweep.json")["runs_of_other_code"] == {}
    monkeypatch.setattr(provenance, "simulating_code_sha256", lambda: "after an edit")
    monkeypatch.setattr(provenance, "git_state", lambda: ("b" * 40, True))
    assert (
        f"0 of 1 points to do, 1 complete note: complete runs are of other code (2 of {'b' * 12}) than the work tree's"
        f" {'b' * 12} with uncommitted changes; --new begins anew"
    ) in said()
    (point,) = points_of(folder_of())
    change(point / "runs" / "stela-r1" / "run.json", git_commit="a" * 40, code_sha256="after an edit")
    assert f"(1 of {'b' * 12})" in said(), "a commit that changed no code is the same code"
    document = read_json(folder_of() / "sweep.json")
    assert document["runs_of_other_code"] == {"b" * 12: 1}
    assert document["code"] == f"{'b' * 12} with uncommitted changes"


def test_a_policys_edit_changes_the_digest_of_the_code_and_a_page_does_not(tmp_path: Path) -> None:
    policy = tmp_path / "scheduler_plugins" / "policies" / "mine.py"
    policy.parent.mkdir(parents=True)
    policy.write_text("A = 1")
    before = simulating_code_sha256(tmp_path)
    (tmp_path / "topologies" / "target").mkdir(parents=True)
    (tmp_path / "topologies" / "target" / "star.yaml").write_text("a: 1")
    (tmp_path / "scheduler_plugins" / "README.md").write_text("words")
    assert simulating_code_sha256(tmp_path) == before
    policy.write_text("A = 2")
    assert simulating_code_sha256(tmp_path) != before


def test_the_digest_of_the_code_is_of_regular_files_that_are_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = tmp_path / "barograph"
    house.mkdir()
    (house / "mine.py").write_text("A = 1")
    before = simulating_code_sha256(tmp_path)
    (house / ".#mine.py").symlink_to("somebody@somewhere.1234:5678")  # Emacs' lock
    (house / "lost.py").symlink_to("nowhere.py")
    (house / "folder.py").mkdir()
    (house / ".checkpoints").mkdir()
    for name in (".mine.py", ".checkpoints/mine.py"):
        (house / name).write_text("A = 2")
    assert simulating_code_sha256(tmp_path) == before
    (house / "gone.py").write_text("A = 3")
    read = Path.read_bytes

    def read_late(path: Path) -> bytes:
        if path.name == "gone.py":
            path.unlink()
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_late)
    assert simulating_code_sha256(tmp_path) == before


def start(file: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "barograph", "sweep", str(file), "--variants", "stela", "--jobs", "2", *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for_points(number: int) -> None:
    deadline_s = time.monotonic() + 120
    while len(list(results_root().glob("*/*/sweep-*/points/*/point.json"))) < number:  # not below: folders go there
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


MANY = {"seed": list(range(1, 61))}


def test_kill_9_leaves_no_process_and_loses_no_point_that_was_done(
    sweep_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sweep_file(MANY)
    with start(file) as command:
        wait_for_points(2)
        below = descendants(command.pid)
        command.kill()
    deadline_s = time.monotonic() + 30
    while any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    done = {path.parent: path.read_bytes() for path in results_root().rglob("point.json")}
    assert len(done) >= 2
    stamps = {point: (point / "point.json").stat().st_mtime_ns for point in done}
    with start(file) as command:
        wait_for_points(len(done) + 1)
        os.killpg(command.pid, signal.SIGINT)  # as a terminal does: everybody in the foreground hears Ctrl-C
        said, wrong = command.communicate(timeout=60)
    assert command.returncode == 130, wrong
    assert f"{60 - len(done)} of 60 points to do, {len(done)} complete" in said
    assert "points are complete in" in said and "the same command goes on" in said and "Traceback" not in wrong
    assert {point: (point / "point.json").stat().st_mtime_ns for point in done} == stamps
    assert not list(results_root().rglob(".cluster*")), "machines' disks go, also those of points that were cut short"


def test_two_commands_do_not_write_one_sweep(
    sweep_file: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sweep_file({"seed": [1]})
    folder = opened(file)
    with monkeypatch.context() as another:
        another.setenv(HOLDER, str(os.getppid()))
        hold.take(folder.root)
    assert main(["sweep", str(file), "--variants", "stela"]) == 3
    assert "is in use by" in capsys.readouterr().err and not (folder.root / "points").exists()


def test_a_points_runs_stay_where_its_document_cannot_be_read(sweep_file: Write) -> None:
    file = str(sweep_file(RATES))
    assert main(["sweep", file, "--jobs", "2"]) == 0
    first, _ = points_of(folder_of())
    before = {path: path.stat().st_mtime_ns for path in first.glob("runs/*/run.json")}
    (first / "series.json").write_text("{")
    (first / "point.json").unlink()
    assert main(["sweep", file, "--jobs", "2"]) == 0
    assert {path: path.stat().st_mtime_ns for path in first.glob("runs/*/run.json")} == before != {}
    assert read_series(first).experiment.name == "small/swept"


def test_an_event_that_is_swept_has_no_number_in_its_words(sweep_file: Write) -> None:
    assert main(["sweep", str(sweep_file({"events.0.machines": [1, 2]})), "--variants", "stela"]) == 0
    assert read_json(folder_of() / "sweep.json")["events"] == {"e1": "scale out, as swept"}
