"""What a play's events mean, and whose failure it was."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from barograph.errors import DiskFull
from barograph.plan.events.kind import PLAYS_S
from playbooks import runner

PLAYBOOKS = Path(runner.__file__).parent


def event(kind: str, task: str = "Apply", host: str = "m1", **answer: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": task, "duration": 0.5, "res": answer}}


def results(*events: dict[str, Any]) -> list[runner.TaskResult]:
    return [result for result in map(runner.task_result, events) if result]


FLUX = "Submit the topology with Flux"
LINES = "\n".join(f"line {number}" for number in range(40))


@pytest.mark.parametrize(
    ("events", "kind", "blame", "words"),
    [
        ((event("runner_on_failed", FLUX, "master"), event("runner_on_unreachable", host="m2", msg="timed out")),
         runner.MachineUnreachable, "infrastructure", ("m2", "timed out", "1 more failed")),
        ((event("runner_on_failed", FLUX, "master", msg="ended with 1", stderr=LINES),),
         runner.StormRefused, "system_under_test", ("line 39",)),
        ((event("runner_on_failed", FLUX, "master", msg="'submit_flux' is undefined"),),
         runner.PlayFailed, "harness", ("submit_flux",)),
        ((event("runner_on_failed", "machine : Wait until Redis answers", "m2", msg="ended with 1",
                stderr="Redis at master:6790 cannot be reached: timed out"),),
         runner.PlayFailed, "infrastructure", ("master:6790 cannot be reached", "whether m2 reaches the master")),
        ((event("runner_on_failed", stderr="cannot load the firewall: Error"),),
         runner.PlayFailed, "configuration", ("Storm was not started", "Error")),
        ((event("runner_on_failed", stderr="the firewall was gone, or other"),),
         runner.PlayFailed, "configuration", ("the run does not count",)),
        ((event("runner_on_failed", stderr="the machine is somebody's: there is an account storm"),),
         runner.PlayFailed, "configuration", ("Rename or remove it on m1", "account storm")),
        ((event("runner_on_failed", "Fetch what the run left", msg="[Errno 28] No space left on device: '/r'"),),
         DiskFull, "capacity", ("disk is full",)),
        ((), runner.PlayFailed, "harness", ("ansible printed this",)),
    ],
)  # fmt: skip
def test_whose_failure_a_play_is(
    events: tuple[dict[str, Any], ...], kind: type, blame: str, words: tuple[str, ...]
) -> None:
    failure = runner.failure("deploy", results(*events), "ansible printed this")
    assert (type(failure), failure.blame) == (kind, blame)
    assert all(word in str(failure) for word in words) and "line 20" not in str(failure)


def test_every_task_with_a_blame_of_its_own_exists() -> None:
    files = [*PLAYBOOKS.glob("*.yml"), *PLAYBOOKS.glob("roles/*/tasks/*.yml")]
    text = "\n".join(file.read_text() for file in files)
    assert all(f"name: {task}\n" in text for task in runner.STORM_TASKS)
    assert "name: Fetch what the run left\n" in text


def test_ignored_and_started_events_are_no_results() -> None:
    ignored = event("runner_on_failed", msg="no")
    ignored["event_data"]["ignore_errors"] = True
    assert runner.task_result(ignored) is None
    assert runner.task_result(event("runner_on_start")) is None
    assert runner.task_result({"event": "verbose", "stdout": "x"}) is None


def test_every_playbook_has_a_time_limit() -> None:
    assert set(PLAYS_S) == {file.stem for file in PLAYBOOKS.glob("*.yml")}


@pytest.mark.parametrize(
    ("task", "blame", "said"),
    [
        ("machine : Clear the machine", "infrastructure", "see whether m2 is alive"),
        ("submit : Submit the topology with Flux", "infrastructure", "ssh to it works"),
        ("storm : Pack the Storm home", "harness", "it runs on this box"),
    ],
)
def test_a_play_beyond_its_limit_is_the_failure_of_what_it_waits_for(task: str, blame: str, said: str) -> None:
    failure = runner.lateness("reset", 180, {("m3", "another"): 95.0, ("m2", task): 10.0}, now_s=200.0)
    assert failure.blame == blame
    assert all(word in str(failure) for word in ("m2", task, "190 s", "so are m3", said))
    assert runner.lateness("reset", 180, {}, now_s=200.0).blame == "harness", "Ansible itself hung"


def test_flux_is_ended_on_the_machine_before_its_play_is() -> None:
    """What is still open at the play's limit is then ssh's or the machine's."""
    script = (Path(runner.HERE) / "roles/submit/files/submit.sh").read_text(encoding="utf-8")
    (limit,) = re.findall(r"(?m)^limit=(\d+)", script)
    assert int(limit) + 150 <= PLAYS_S["submit"], "the copy of a jar over a slow link comes before it"
    assert "timeout -k 5 $limit setpriv" in script


def submit_script(folder: Path, *changes: tuple[str, str]) -> str:
    """The script in this folder, as a user that there is here; root alone can become another."""
    script = (Path(runner.HERE) / "roles/submit/files/submit.sh").read_text(encoding="utf-8")
    user = ("user=storm", "user=nobody"), ("--regid=$user", "--regid=nogroup")
    nobody = user if os.geteuid() == 0 else (("setpriv --reuid=$user --regid=$user --init-groups --no-new-privs ", ""),)
    for there, here in (("/var/lib/barograph", str(folder)), *nobody, *changes):
        assert there in script
        script = script.replace(there, here)
    return script


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_flux_constructs_components_without_roots_rights(tmp_path: Path) -> None:
    command = "id -un; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; cat > written"
    argv = ["sh", "-c", submit_script(tmp_path), "submit.sh", command]
    done = subprocess.run(argv, input="", capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "written: Permission denied" in done.stderr, "its folder stays root's"
    assert "nobody" in done.stderr and re.search(r"CapEff:\s+0{16}\b", done.stderr) and "NoNewPrivs:\t1" in done.stderr


@pytest.mark.parametrize("command", ["exec sleep 20", "trap '' TERM; exec sleep 20"])
def test_flux_that_was_ended_or_killed_is_said_to_have_waited_for_nimbus(tmp_path: Path, command: str) -> None:
    script = submit_script(tmp_path, ("limit=120", "limit=0.2"), ("-k 5", "-k 0.2"))
    done = subprocess.run(
        ["sh", "-c", script, "submit.sh", command], input="", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and "Flux had not ended after 0.2 s: Nimbus did not take the topology" in done.stderr


def inventory_of(folder: Path, **host: Any) -> Path:
    groups = {name: {"hosts": {"master": None}} for name in ("master", "workers", "joining")}
    path = folder / "inventory.yaml"
    path.write_text(yaml.safe_dump({"all": {"hosts": {"master": host}, "children": groups}}))
    return path


def test_a_machine_that_hangs_ends_the_play_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh, pids = tmp_path / "ssh", tmp_path / "pids"
    ssh.write_text(f"#!/bin/sh\necho $$ >> {pids}\nexec sleep 600\n")
    ssh.chmod(0o755)

    def is_late(tasks: runner.OpenTasks) -> bool:
        """Once ssh hangs, however long that took."""
        tasks.late = pids.exists() and bool(tasks.begun_s)
        return tasks.late

    monkeypatch.setattr(runner.OpenTasks, "is_late", is_late)
    host = {"ansible_host": "127.0.0.1", "ansible_user": "nobody", "ansible_ssh_executable": str(ssh)}
    inventory = inventory_of(tmp_path, **host)
    with pytest.raises(runner.PlayFailed, match=r"kill: not over after 90 s.*: master: task 'Kill topologies' has"):
        runner.play("kill", inventory, {"run_id": "r1"}, tmp_path / "cluster")
    end_s = time.monotonic() + 10
    while running := [pid for pid in map(int, pids.read_text().split()) if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end_s, running
        time.sleep(0.05)


def test_a_play_begins_alone_with_the_connections_that_wait_for_it(tmp_path: Path) -> None:
    cluster = tmp_path / "feedbeef"
    marked = {**os.environ, runner.MARK: str(cluster)}
    inventory = inventory_of(tmp_path, ansible_host="127.0.0.1", ansible_port=1, ansible_user="nobody")
    sleep = shutil.which("sleep")
    with (
        subprocess.Popen(["ssh: /tmp/somewhere [mux]", "60"], executable=sleep, env=marked) as connection,
        subprocess.Popen(["sleep", "60"], env=marked, start_new_session=True) as earlier,
        subprocess.Popen(["sleep", "60"], env={**marked, runner.MARK: str(tmp_path / "another")}) as another,
    ):
        with pytest.raises(runner.MachineUnreachable):
            runner.play("kill", inventory, {"run_id": "r1"}, cluster)
        assert earlier.wait(10) == -signal.SIGKILL
        assert connection.poll() is None and another.poll() is None
        runner._end_plays(cluster)
        assert connection.wait(10) == -signal.SIGKILL and another.poll() is None
        another.kill()


def test_what_begins_while_the_others_are_ended_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, look, processes = tmp_path / "feedbeef", runner._kill_marked, []

    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], env={**os.environ, runner.MARK: str(cluster)})

    def look_and_begin(mark: bytes, but_connections: bool) -> int:
        number = look(mark, but_connections)
        if len(processes) < 3:
            processes.append(begin())
        return number

    monkeypatch.setattr(runner, "_kill_marked", look_and_begin)
    processes.append(begin())
    runner._end_plays(cluster)
    assert len(processes) == 3 and [each.wait(10) for each in processes] == [-signal.SIGKILL] * 3


def test_a_real_play_on_a_closed_port_tells_names_and_keeps_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SOME_CREDENTIAL", "hunter2")
    caplog.set_level("INFO", runner.log.name)
    inventory = inventory_of(tmp_path, ansible_host="127.0.0.1", ansible_port=1, ansible_user="nobody")
    with pytest.raises(runner.MachineUnreachable, match="master"):
        runner.play("kill", inventory, {"run_id": "stela-r1"}, tmp_path / "cluster")
    assert "stela-r1 kill: master Kill topologies: unreachable" in caplog.text
    kept = [file for file in (tmp_path / "cluster").rglob("*") if file.is_file()]
    assert any(file.name == "command" and json.loads(file.read_text())["command"] for file in kept)
    assert not [file for file in kept if "hunter2" in file.read_text(errors="replace")]
