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

from playbooks import errors, runner

PLAYBOOKS = Path(runner.__file__).parent


def event(kind: str, task: str = "Apply", host: str = "m1", **answer: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": task, "duration": 0.5, "res": answer}}


def results(*events: dict[str, Any]) -> list[runner.TaskResult]:
    return [result for result in map(runner.task_result, events) if result]


def test_an_unreachable_machine_is_infrastructure_even_after_another_failure() -> None:
    told = results(
        event("runner_on_failed", "Submit the topology with Flux", "master", msg="no", stderr="x"),
        event("runner_on_unreachable", host="m2", msg="Failed to connect to the host via ssh: timed out"),
    )
    failure = runner.failure("submit", told, "")
    assert type(failure) is errors.MachineUnreachable
    assert failure.blame == "infrastructure"
    assert "m2" in str(failure)
    assert "timed out" in str(failure)
    assert "1 more failed" in str(failure)


def test_a_refused_submission_is_the_system_under_test_and_shows_the_last_lines() -> None:
    stderr = "\n".join(f"line {number}" for number in range(40))
    told = results(
        event("runner_on_failed", "Submit the topology with Flux", "master", msg="ended with 1", stderr=stderr)
    )
    failure = runner.failure("submit", told, "")
    assert failure.blame == "system_under_test"
    assert "line 39" in str(failure)
    assert "line 20" not in str(failure)


def test_a_missing_variable_is_the_harness_even_in_a_storm_task() -> None:
    told = results(
        event("runner_on_failed", "Submit the topology with Flux", "master", msg="'submit_flux' is undefined")
    )
    failure = runner.failure("submit", told, "")
    assert type(failure) is errors.PlayFailed
    assert failure.blame == "harness"
    assert "submit_flux" in str(failure)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("cannot load the firewall: Error", "Storm was not started"),
        ("the firewall was gone, or other", "the run does not count"),
        ("the machine is somebody's: there is an account storm", "Rename or remove it on m1"),
    ],
)
def test_what_a_machine_cannot_be_used_for_is_the_users_to_mend(said: str, advice: str) -> None:
    failure = runner.failure("reset", results(event("runner_on_failed", stderr=said)), "")
    assert type(failure) is errors.PlayFailed and failure.blame == "configuration"
    assert advice in str(failure) and said in str(failure)


def test_a_full_local_disk_is_named() -> None:
    told = results(event("runner_on_failed", "Fetch what the run left", msg="[Errno 28] No space left on device: '/r'"))
    failure = runner.failure("collect", told, "")
    assert failure.blame == "capacity"
    assert "disk is full" in str(failure)


def test_a_play_that_dies_before_any_task_shows_what_ansible_printed() -> None:
    failure = runner.failure("deploy", [], "ERROR! the role 'nowhere' was not found")
    assert failure.blame == "harness"
    assert "nowhere" in str(failure)


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


def test_changed_is_counted_from_the_statistics_because_a_censored_task_hides_its_own() -> None:
    stats = {"event": "playbook_on_stats", "event_data": {"changed": {"m1": 2, "master": 1}}}
    assert sum(runner.changed_by_host(stats).values()) == 3
    summary = runner.summarise("deploy", results(event("runner_on_ok", changed=False)), 3, 1.0)
    assert (summary.ok, summary.changed, summary.failed) == (1, 3, 0)


def test_every_playbook_has_a_time_limit() -> None:
    assert set(runner.PLAYS_S) == {file.stem for file in PLAYBOOKS.glob("*.yml")}


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
    assert f"reset: not over after 180 s, its limit, and ended: m2: task {task!r} has been running for 190 s" in str(
        failure
    )
    assert "so are m3" in str(failure) and said in str(failure)


def test_flux_is_ended_on_the_machine_before_its_play_is() -> None:
    """What is still open at the play's limit is then ssh's or the machine's."""
    script = (Path(runner.HERE) / "roles/submit/files/submit.sh").read_text(encoding="utf-8")
    (limit,) = re.findall(r"(?m)^limit=(\d+)", script)
    assert int(limit) + 150 <= runner.PLAYS_S["submit"], "the copy of a jar over a slow link comes before it"
    assert "timeout -k 5 $limit sh -c" in script


@pytest.mark.parametrize("command", ["exec sleep 20", "trap '' TERM; exec sleep 20"])
def test_flux_that_was_ended_or_killed_is_said_to_have_waited_for_nimbus(tmp_path: Path, command: str) -> None:
    script = (Path(runner.HERE) / "roles/submit/files/submit.sh").read_text(encoding="utf-8")
    for there, here in (("/var/lib/barograph", str(tmp_path)), ("limit=120", "limit=0.2"), ("-k 5", "-k 0.2")):
        script = script.replace(there, here)
    done = subprocess.run(
        ["sh", "-c", script, "submit.sh", command], input="", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and "Flux had not ended after 0.2 s: Nimbus did not take the topology" in done.stderr


def test_without_a_task_ansible_itself_hung() -> None:
    assert runner.lateness("reset", 180, {}, now_s=200.0).blame == "harness"


def inventory_of(folder: Path, **host: Any) -> Path:
    groups = {name: {"hosts": {"master": None}} for name in ("master", "workers", "joining")}
    path = folder / "inventory.yaml"
    path.write_text(yaml.safe_dump({"all": {"hosts": {"master": host}, "children": groups}}))
    return path


def test_a_play_is_late_from_its_limit_on() -> None:
    assert runner.OpenTasks(0.0).is_late() and not runner.OpenTasks(600.0).is_late()


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
    with pytest.raises(errors.PlayFailed, match=r"kill: not over after 90 s.*: master: task 'Kill topologies' has"):
        runner.play("kill", inventory, {"run_id": "r1"}, tmp_path / "cluster", lambda _: None)
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
        with pytest.raises(errors.MachineUnreachable):
            runner.play("kill", inventory, {"run_id": "r1"}, cluster, lambda _: None)
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_CREDENTIAL", "hunter2")
    inventory = inventory_of(tmp_path, ansible_host="127.0.0.1", ansible_port=1, ansible_user="nobody")
    lines: list[str] = []
    with pytest.raises(errors.MachineUnreachable, match="master"):
        runner.play("kill", inventory, {"run_id": "stela-r1"}, tmp_path / "cluster", lines.append)
    assert lines
    assert all(line.startswith("stela-r1 kill: master Kill topologies: unreachable") for line in lines)
    kept = [file for file in (tmp_path / "cluster").rglob("*") if file.is_file()]
    assert any(file.name == "command" and json.loads(file.read_text())["command"] for file in kept)
    assert not [file for file in kept if "hunter2" in file.read_text(errors="replace")]
