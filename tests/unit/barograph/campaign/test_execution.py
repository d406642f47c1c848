"""The process that carries a series out: it ends with its parent, and whoever is left releases; how to go on then."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barograph.campaign import execution as child
from barograph.campaign import steps
from barograph.child_processes import ChildProcess, group_members
from barograph.cli import execution, terminal
from barograph.cli.execution import Ending, _clean_up, _end_interrupted, _finish, carry_out, headline
from barograph.cli.terminal import stdout_console
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, RunsFailed, blame_of
from barograph.machines import provision
from barograph.plan.experiment import load, with_changes
from barograph.series import hold, interruption
from barograph.series.progress import ProgressFile, initial_status
from barograph.series.series import Series, open_series
from barograph.settings import HOLDER, ROOT, cluster_dir
from inventory.leases import processes, registry


def told(series: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (series / "progress.jsonl").read_text().splitlines()]


KILLED = """#!/bin/sh
sleep 300 &
kill -9 $$
"""


def test_what_a_killed_child_has_left_is_ended_and_its_machines_are_released(
    own_folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))
    provision.provision(series.folder)
    (tmp_path / "python").write_text(KILLED)
    (tmp_path / "python").chmod(0o755)
    started: list[int] = []
    real = ChildProcess

    def start(*arguments: Any, **named: Any) -> ChildProcess:
        child = real(*arguments, **named)
        started.append(child.pid)
        return child

    monkeypatch.setattr(execution, "ChildProcess", start)
    monkeypatch.setattr("barograph.cli.execution.sys.executable", str(tmp_path / "python"))
    with pytest.raises(RunsFailed, match=r"the series' process was killed \(SIGKILL") as failed:
        carry_out(series, stdout_console())
    assert failed.value.blame == "infrastructure"
    assert group_members(*started) == [], "a JVM, such as Spark's, goes with it"
    assert registry.read_all() == () and hold.read(series.folder) is None


PLAYING = """
import sys
from pathlib import Path
from playbooks import runner
runner.play("kill", Path(sys.argv[1]), {"run_id": "r1"}, Path(sys.argv[2]))
"""
HANGING_SSH = """#!/bin/sh
echo $$ >> {pids}
exec sleep 600
"""


def test_a_play_of_a_killed_child_ends_before_its_machines_are_given_back(own_folders: None, tmp_path: Path) -> None:
    """Ansible ignores the end of its terminal, and its workers have sessions of their own."""
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))
    lease_id = provision.provision(series.folder)
    ssh, pids, inventory = tmp_path / "ssh", tmp_path / "pids", tmp_path / "inventory.yaml"
    ssh.write_text(HANGING_SSH.format(pids=pids))
    ssh.chmod(0o755)
    host = {"ansible_host": "127.0.0.1", "ansible_user": "nobody", "ansible_ssh_executable": str(ssh)}
    groups = {name: {"hosts": {"master": None}} for name in ("master", "workers", "joining")}
    inventory.write_text(json.dumps({"all": {"hosts": {"master": host}, "children": groups}}))
    argv = [sys.executable, "-c", PLAYING, str(inventory), str(cluster_dir(lease_id))]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL) as child:
        while not pids.exists():
            assert child.poll() is None, "its play has ended"
            time.sleep(0.05)
        child.kill()
    left = set(processes._pids_with_mark(lease_id))
    assert left >= set(map(int, pids.read_text().split())), "the play outlives who began it"
    assert any(b"ansible-playbook" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left)
    provision.release(series.folder)
    assert set(processes._pids_with_mark(lease_id)) == set() and registry.read_all() == ()


@pytest.mark.parametrize(("runs", "said"), [(1, "to resume: the same command"), (2, "to analyse it: barograph report")])
def test_what_is_measured_whole_is_not_measured_again(own_folders: None, runs: int, said: str) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"], "repetitions": 2}))
    for _ in range(runs):
        steps.do_run(series.folder)
    heard: list[str] = []
    view: Any = SimpleNamespace(say=heard.append)
    assert _end_interrupted(series, None, view, Ending(lambda *_: None, "the same command")) == INTERRUPTED_EXIT
    assert heard[0].startswith(f"{runs} of 2 runs are complete") and heard[-1].startswith(said)


ONE_END = """
import pathlib, sys
from barograph.campaign import execution as child
from barograph.machines import provision
from barograph.series import results

def count_index():
    with pathlib.Path(sys.argv[1], "indexes").open("a") as file:
        file.write("written\\n")

def tasks(series_dir):
    provision.provision(series_dir)
    if sys.argv[3] == "interrupted":
        raise KeyboardInterrupt
    return True

results.write_index = count_index
child.measure = tasks
child.analyse = lambda series_dir: series_dir / "report.html"
sys.exit(child.main(sys.argv[1:3]))
"""


@pytest.mark.parametrize(("how", "code"), [("whole", 0), ("interrupted", INTERRUPTED_EXIT)])
def test_machines_are_released_and_results_stored_once(how: str, code: int, own_folders: None) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"})).folder
    argv = [sys.executable, "-c", ONE_END, str(series), str(os.getpid()), how]
    assert subprocess.run(argv, cwd=ROOT).returncode == code
    assert registry.read_all() == ()
    lines = [json.loads(line) for line in (series / "progress.jsonl").read_text().splitlines()]
    assert [line["phase"] for line in lines if line["kind"] == "phase"] == ["provision", "release"]
    assert (series / "indexes").read_text() == "written\n"


def test_a_release_that_fails_for_any_reason_is_told_and_results_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_series_dir: Path) -> None:
        raise ValueError("machines.json is damaged")

    monkeypatch.setattr(child, "release", damaged)
    left = child._release(tmp_path)
    assert left is not None and left.blame == "infrastructure"
    assert "machines.json is damaged" in str(left) and "`barograph reap`" in str(left)


def test_a_run_ends_with_the_sentence_of_its_report(own_folders: None, capsys: pytest.CaptureFixture[str]) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"], "repetitions": 1}))
    (series.folder / "report.json").write_text(json.dumps({"v": 1, "headline": "Stela's throughput was 43 % higher."}))
    report = str(series.folder / "report.html")
    for path, lines in ((report, ["Stela's throughput was 43 % higher.", f"report: {report}"]), (None, [])):
        status = replace(initial_status(0, series.experiment), report=path)
        assert _finish(series, status, 0, stdout_console(), Ending(lambda *_: None, "", headline)) == 0
        assert capsys.readouterr().out.splitlines() == lines


TAKEN = """
import json, sys
from pathlib import Path
from dataclasses import asdict
from barograph.campaign import execution as child
from inventory.leases.holder import process_holder
path = Path(sys.argv[1], ".holder.json")
path.write_text(json.dumps(json.loads(path.read_text()) | asdict(process_holder(1))))
sys.exit(child.main(sys.argv[1:]))
"""
FULL = """
import sys
from barograph.campaign import execution as child
def take(*_, **__):
    raise OSError(28, "No space left on device", "/results")
child.hold.take = take
sys.exit(child.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("program", "said"), [(TAKEN, []), (FULL, ["failed"])])
def test_a_child_that_cannot_begin_leaves_nothing(
    own_folders: None, monkeypatch: pytest.MonkeyPatch, program: str, said: list[str]
) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))
    provision.provision(series.folder)
    before = told(series.folder)

    def start(argv: list[str], **named: Any) -> ChildProcess:
        return ChildProcess([sys.executable, "-c", program, *argv[3:]], **named)

    monkeypatch.setattr(execution, "ChildProcess", start)
    with pytest.raises(RunsFailed) as failed:
        carry_out(series, stdout_console())
    assert failed.value.blame == "capacity" and ("the disk is full" in str(failed.value)) == bool(said)
    assert told(series.folder)[len(before) :] == [*said, "phase"], "the parent gives back"
    assert registry.read_all() == ()
    assert (hold.read(series.folder) is None) == bool(said), "another's stays"


LOST = """
import json, sys
from pathlib import Path
from dataclasses import asdict
from barograph.campaign import execution as child
from inventory.leases.holder import process_holder
def run(series_dir):
    path = Path(series_dir, ".holder.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | asdict(process_holder(1))))
    raise RuntimeError("a step failed")
child.measure, child.report = run, lambda *_, **__: None
sys.exit(child.main(sys.argv[1:]))
"""


def test_a_child_that_has_lost_its_series_says_nothing_in_it(own_folders: None) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))
    provision.provision(series.folder)
    before = told(series.folder)
    argv = [sys.executable, "-c", LOST, str(series.folder), str(os.getpid())]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == EXIT_CODES["capacity"], done.stderr
    assert f"series {series.series_id} is in use by process 1 " in done.stderr
    assert told(series.folder) == before


def test_a_series_that_is_done_may_be_taken_before_its_child_ends(own_folders: None) -> None:
    """As by a report, once the hold has ended."""
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))
    program = LOST.replace('raise RuntimeError("a step failed")', "pass")
    argv = [sys.executable, "-c", program, str(series.folder), str(os.getpid())]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FULL_LOG = """
import sys
from barograph.campaign import execution as child
def run(_series):
    print("lines" * 100)
    raise OSError(28, "No space left on device", "/results")
child.measure, child.report = run, lambda *_, **__: None
sys.exit(child.main(sys.argv[1:]))
"""


def end_with_full_log(program: str) -> tuple[int, Path]:
    """The child's exit code, and the folder of its series."""
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))
    with Path("/dev/full").open("wb") as log:
        argv = [sys.executable, "-c", program, str(series.folder), str(os.getpid())]
        return subprocess.run(argv, cwd=ROOT, stdout=log, stderr=log, timeout=120).returncode, series.folder


def test_a_log_on_a_full_disk_does_not_change_the_exit_code(own_folders: None) -> None:
    """As when the disk of the results is full: nothing can be said, not even in the log."""
    code, _ = end_with_full_log(FULL_LOG)
    assert code == EXIT_CODES["capacity"]


def test_ctrl_c_as_the_child_begins_ends_it(own_folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))
    started: list[ChildProcess] = []

    def interrupted(_argv: list[str], **named: Any) -> ChildProcess:
        started.append(ChildProcess(["sleep", "60"], **named))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    monkeypatch.setattr(execution, "ChildProcess", interrupted)
    assert carry_out(series, stdout_console()) == INTERRUPTED_EXIT
    assert started[0].exit_code() == -signal.SIGINT and hold.read(series.folder) is None


def test_a_parent_whose_child_cannot_start_leaves_the_series(
    own_folders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may go on with other experiments for hours."""
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))

    def refused(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(execution, "ChildProcess", refused)
    with pytest.raises(OSError, match="unavailable"):
        carry_out(series, stdout_console())
    assert hold.read(series.folder) is None


def test_of_a_child_that_does_not_die_the_machines_are_told(
    own_folders: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    child = subprocess.Popen(["sleep", "60"])
    monkeypatch.setenv(HOLDER, str(child.pid))
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))
    lease_id = provision.provision(series.folder)
    monkeypatch.delenv(HOLDER)
    said: list[str] = []
    hopeless: Any = SimpleNamespace(pid=child.pid, end=lambda _view: None)
    view: Any = SimpleNamespace(say=said.append)
    _end_interrupted(series, hopeless, view, Ending(lambda *_: None, "the same command"))
    assert said[0].startswith(
        f"lease {lease_id} on testbed fake is not released: its holder, process {child.pid}, does"
    )
    assert registry.read(lease_id) is not None
    child.kill()
    child.wait()
    said.clear()
    _end_interrupted(series, hopeless, view, Ending(lambda *_: None, "the same command"))
    assert registry.read(lease_id) is None and "not released" not in "".join(said)


def test_a_step_that_a_command_does_itself_has_a_limit() -> None:
    before = signal.getsignal(signal.SIGALRM)
    said = r"analyse took more than 0\.05 s, its limit, and was ended"
    with pytest.raises(interruption.StepHung, match=said), interruption.limited("analyse", 0.05):
        signal.pause()
    with interruption.limited("analyse"):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 3600
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0 and signal.getsignal(signal.SIGALRM) == before


def test_a_report_alone_that_a_child_makes_ends_at_its_limit(
    own_folders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    (series.folder / "sufficient.json").write_text("{}")
    monkeypatch.setattr(Series, "lacks_report_alone", lambda _self: True)
    limits: list[str] = []

    def limit(step: str) -> Any:
        limits.append(step)
        return SimpleNamespace(seconds=0.05 if step == hanging else 3600)

    monkeypatch.setattr(interruption, "step_limit", limit)
    monkeypatch.setattr(child, "announce", lambda *_: signal.pause())
    for hanging, analyse in (("analyse", lambda _folder: signal.pause()), ("report", lambda folder: folder / "r.html")):
        monkeypatch.setattr(child, "analyse", analyse)
        with pytest.raises(interruption.StepHung, match=f"{hanging} took more than"):
            child.report(series.folder, is_whole=True)
    assert limits == ["analyse", "analyse", "report"]


def test_a_run_that_fails_before_the_deadline_comes_is_no_success(own_folders: None) -> None:
    """No run has a record then, and the next ones are too late."""
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    progress = ProgressFile(series.folder)
    progress.tell("step_failed", blame="infrastructure", message="a machine is lost")
    progress.tell("deadline", reason="the night is over")
    child.report(series.folder, is_whole=True)
    with pytest.raises(RunsFailed, match="a machine is lost") as failed:
        child.report(series.folder, is_whole=False)
    assert failed.value.blame == "infrastructure"


def test_the_parent_of_a_refused_child_stores_nothing_that_another_writes(
    own_folders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    stored: list[Path] = []
    monkeypatch.setattr("barograph.cli.execution.store", lambda folder, _say: stored.append(folder))
    _clean_up(series, None, pytest.fail)
    assert stored == [series.folder], "what is its own"
    monkeypatch.setenv(HOLDER, "1")
    _clean_up(series, None, pytest.fail)
    assert stored == [series.folder]
    note = series.folder / hold.FILE
    note.write_text(json.dumps(json.loads(note.read_text()) | {"born": "another-boot/7"}))
    _clean_up(series, None, pytest.fail)
    assert stored == [series.folder] * 2, "of one that is dead"


def test_a_command_under_nohup_goes_on_when_its_terminal_closes() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with terminal.signals_as_interrupt():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                _hang_up_and_terminate()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with pytest.raises(KeyboardInterrupt), terminal.signals_as_interrupt():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def _hang_up_and_terminate() -> None:
    with terminal.signals_held():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)


def test_a_disk_so_full_that_no_failure_is_recorded_is_blamed_all_the_same(
    own_folders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}))

    def full(_folder: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(child, "analyse", full)
    with pytest.raises(OSError, match="No space left") as refused:
        child.report(series.folder, is_whole=False)
    assert blame_of(refused.value) == "capacity"
