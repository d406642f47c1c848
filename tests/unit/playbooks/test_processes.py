"""Which processes of a machine are ended: those that were noted as they began, and no others."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from inventory.existing import ownership
from playbooks import runner

NO_FIREWALL_NEEDED = {"BAROGRAPH_FIREWALL": "/"}  # its mark is there
SCRIPT = Path(runner.HERE) / "roles" / "machine" / "files" / "processes.sh"
WORD = "org.apache.storm.daemon.worker.Worker"
Start = Callable[..., int]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "var" / "lib" / "barograph" / "processes"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def start(notes: Path) -> Iterator[Start]:
    """Starts a program that waits, with the word in its command line."""
    started: list[subprocess.Popen[bytes]] = []

    def one(*before: str) -> int:
        waits = ["sh", "-c", "read line", f"/opt/barograph/{WORD}"]
        argv = ["sh", str(SCRIPT), "run", *waits] if before == ("noted",) else waits
        environment = {**os.environ, **NO_FIREWALL_NEEDED, "BAROGRAPH_PROCESSES": str(notes)}
        started.append(subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment))
        pid = started[-1].pid
        while Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2:3] != [b"read line"]:
            pass
        return pid

    yield one
    for process in started:
        process.kill()
        process.communicate()


def listed(notes: Path, word: str = WORD) -> list[int]:
    environment = {**os.environ, "BAROGRAPH_PROCESSES": str(notes)}
    done = subprocess.run(
        ["sh", str(SCRIPT), "list", word], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return [int(line) for line in done.stdout.splitlines()]


def test_ours_are_those_that_were_noted(start: Start, notes: Path) -> None:
    ours, theirs = start("noted"), start()
    assert listed(notes) == [ours]
    assert listed(notes, "nimbus") == []
    assert theirs != ours and Path(f"/proc/{theirs}").exists()


def test_a_number_that_has_become_anothers_is_forgotten(start: Start, notes: Path) -> None:
    theirs = start()
    (notes / str(theirs)).write_text("1\n")
    (notes / "999999999").write_text("1\n")
    assert listed(notes) == []
    assert list(notes.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_process_of_another_user_is_not_ours_whatever_is_noted(start: Start, notes: Path) -> None:
    ours = start("noted")
    os.chown(notes / str(ours), 65534, 65534)
    assert listed(notes) == []
    assert (notes / str(ours)).exists()


def clear(root: Path) -> None:
    environment = {**os.environ, "BAROGRAPH_ROOT": str(root)}
    script = ownership.CLEAR_SCRIPT.read_text()
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_machine_of_others_loses_only_what_was_noted(start: Start, notes: Path, tmp_path: Path) -> None:
    ours, theirs, reused = start("noted"), start(), start()
    (notes / str(reused)).write_text("1\n")
    os.mkfifo(notes / str(theirs))
    clear(tmp_path)
    assert os.waitid(os.P_PID, ours, os.WEXITED | os.WNOWAIT) is not None
    for pid in (theirs, reused):
        assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None, "it runs"


def test_a_link_in_the_place_of_a_note_is_not_written_through(notes: Path, tmp_path: Path) -> None:
    others = tmp_path / "decisions.jsonl"
    others.write_text("a decision")
    shell = f'ln -s {others} "$BAROGRAPH_PROCESSES/$$" && exec sh {SCRIPT} run true'
    environment = {**os.environ, **NO_FIREWALL_NEEDED, "BAROGRAPH_PROCESSES": str(notes)}
    subprocess.run(["sh", "-c", shell], env=environment, check=True, timeout=60)
    assert others.read_text() == "a decision"
    (note,) = notes.iterdir()
    assert not note.is_symlink() and note.read_text().strip().isdigit()


def test_nothing_starts_before_the_firewall_is_loaded(notes: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "BAROGRAPH_PROCESSES": str(notes), "BAROGRAPH_FIREWALL": str(tmp_path / "loaded")}
    argv = ["sh", str(SCRIPT), "run", "echo", "began"]

    def begin() -> tuple[int, str]:
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    assert begin() == (1, "echo waits for the firewall\n")
    (tmp_path / "loaded").touch()
    assert begin() == (0, "began\n")


STRAY, THEIR_NUMBER = 64910, 64911
STRAYS = """
import os, signal
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
print(os.getpid(), flush=True)
signal.pause()
"""


def as_user(number: int) -> list[str]:
    return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups"]


def stray(number: int) -> int:
    """What has left its parent twice and runs as that user; its process number."""
    argv = [*as_user(number), sys.executable, "-S", "-c", STRAYS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/") as process:
        assert process.stdout is not None
        return int(process.stdout.readline())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become others")
def test_a_double_fork_ends_with_the_lease_and_nothing_of_a_user_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        f"storm:x:{STRAY}:{STRAY}:Barograph:/nonexistent:/usr/sbin/nologin\n"
        f"barograph:x:{THEIR_NUMBER}:{THEIR_NUMBER}:Ann's weather:/home/b:/bin/sh\n"
    )
    (tmp_path / "tmp").mkdir()
    for name, number in (("ours", STRAY), ("theirs", THEIR_NUMBER)):
        (tmp_path / "tmp" / name).touch()
        os.chown(tmp_path / "tmp" / name, number, number)
    ours, theirs = stray(STRAY), stray(THEIR_NUMBER)
    try:
        clear(tmp_path)
        assert not runs(ours) and runs(theirs)
        assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["theirs"]
    finally:
        for pid in (ours, theirs):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Path]:
    """A machine on which Barograph has made the user STRAY."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"storm:x:{STRAY}:{STRAY}:Barograph:/nonexistent:/usr/sbin/nologin\n")
    yield tmp_path
    subprocess.run(["pkill", "-KILL", "-U", f"{STRAY}"], check=False, timeout=60)


def of_user(number: int) -> list[int]:
    done = subprocess.run(["pgrep", "-r", "R,S,D,T", "-U", f"{number}"], capture_output=True, text=True, timeout=60)
    return [int(line) for line in done.stdout.split()]


def await_user(number: int) -> None:
    until_s = time.monotonic() + 30
    while not of_user(number):
        assert time.monotonic() < until_s
        time.sleep(0.02)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become others")
@pytest.mark.parametrize("own", [False, True])
def test_namespaces_of_its_own_hide_a_stray_and_a_container_of_the_same_number_stays(own: bool, accounts: Path) -> None:
    if own and subprocess.run([*as_user(STRAY), "unshare", "--user", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("nobody may make a user namespace here, as in a chroot")
    names, waits = ["unshare", "--pid", "--fork"], ["sleep", "600"]
    argv = [*as_user(STRAY), *names, "--user", "--map-root-user", *waits] if own else [*names, *as_user(STRAY), *waits]
    with subprocess.Popen(argv) as process:
        await_user(STRAY)
        clear(accounts)
        assert bool(of_user(STRAY)) != own
        if not own:
            os.kill(of_user(STRAY)[0], signal.SIGKILL)
        process.wait(30)


CHAIN = """
import os, time
until_s = time.monotonic() + 60
while time.monotonic() < until_s:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become others")
def test_a_chain_of_processes_ends_though_none_of_them_stays(accounts: Path) -> None:
    subprocess.run([*as_user(STRAY), sys.executable, "-S", "-c", CHAIN], check=True, timeout=60)
    clear(accounts)
    pause_s, before = 0.3, of_user(STRAY)
    time.sleep(pause_s)
    assert before == of_user(STRAY) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become others")
def test_what_cron_would_begin_goes_before_what_it_has_begun(accounts: Path) -> None:
    table = accounts / "var" / "spool" / "cron" / "storm"
    table.parent.mkdir(parents=True)
    table.touch()
    os.chown(table, STRAY, STRAY)
    begins = f"while [ -e {table} ]; do {' '.join(as_user(STRAY))} sleep 600 & sleep 0.02; done"
    with subprocess.Popen(["sh", "-c", begins]) as cron:
        try:
            await_user(STRAY)
            clear(accounts)
        finally:
            table.unlink(missing_ok=True)
            cron.wait(30)
    assert of_user(STRAY) == []


def runs(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
