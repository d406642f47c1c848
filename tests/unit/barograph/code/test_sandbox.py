"""What code of others can see, change and reach while it is built or asked."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.child_processes import ChildProcess
from barograph.code import BuildFailed, SandboxUnavailable, build, sandbox
from barograph.code.build import run_program
from barograph.code.sandbox import HOME, UID, Resources, Sandbox, connect, give_to_sandbox, registry_access
from barograph.code.store import log_end
from playbooks.storm_home.assemble import remove_tree
from tests.support.short_folder import short_folder

HOST = "registry.example.org"
FETCH = """
import http.client, sys
way = http.client.HTTPConnection("127.0.0.1", 3128, timeout=10)
way.set_tunnel(sys.argv[1], int(sys.argv[2]))
way.connect()
way.sock.sendall(b"question")
print(way.sock.recv(100).decode())
"""
REACH = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)
    print("reached")
except OSError as error:
    print("not reached:", error)
"""

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program in a sandbox with one folder of its own; returns what it wrote."""
    tree = tmp_path / "tree"
    tree.mkdir()
    give_to_sandbox(tree)

    def one(*argv: str, hosts: tuple[str, ...] = (), readable: tuple[Path, ...] = ()) -> str:
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        run_program(argv, Sandbox("/build/tree", {tree: "/build/tree"}, readable, hosts), log, limit_s=60)
        return log.read_text().removeprefix(f"$ {' '.join(argv)}\n")

    return one


@pytest.fixture
def service() -> Iterator[int]:
    """The port of something that listens on this box's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A registry that answers; the hosts that were connected to."""
    connected = []

    def connect(host: str) -> socket.socket:
        connected.append(host)
        ours, theirs = socket.socketpair()
        threading.Thread(target=lambda: theirs.sendall(b"answer to " + theirs.recv(100)), daemon=True).start()
        return ours

    monkeypatch.setattr("barograph.code.sandbox.connect", connect)
    return connected


def test_it_is_nobody_here_without_any_right(run: Run, tmp_path: Path) -> None:
    seen = run("sh", "-c", "id -u; id -G; grep -E 'Cap(Eff|Prm|Bnd|Inh)|NoNewPrivs' /proc/self/status; touch new")
    uid, groups, *status = seen.splitlines()
    assert (int(uid), groups) == (UID, str(UID))
    assert {line.split()[1].strip("0") for line in status} == {"", "1"}
    assert (tmp_path / "tree" / "new").stat().st_uid in (UID, os.geteuid() or UID)


def test_it_sees_no_file_of_the_box_but_programs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("for it")
    (tmp_path / "secret").write_text("not for it")
    looks = f"ls -A {tmp_path} /root /home /var /run /etc/shadow /etc/ssh 2>/dev/null; cat {tmp_path}/given"
    assert run("sh", "-c", looks, readable=(tmp_path / "given",)) == f"{tmp_path}:\ngiven\nfor it"
    with pytest.raises(BuildFailed, match="Read-only file system"):
        run("touch", "/usr/bin/new")


def test_it_sees_no_process_of_the_box(run: Run) -> None:
    assert str(os.getpid()) not in run("sh", "-c", "ls -d /proc/[0-9]* | tr -d /proc").split()


def test_without_registries_there_is_no_network(run: Run, service: int) -> None:
    assert "not reached" in run("python3", "-c", REACH, "127.0.0.1", str(service))
    assert run("sh", "-c", "ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]


def test_a_registry_is_reached_and_nothing_else(run: Run, service: int, registry: list[str]) -> None:
    assert run("python3", "-c", FETCH, HOST, "443", hosts=(HOST,)).strip() == "answer to question"
    assert registry == [HOST]
    assert "not reached" in run("python3", "-c", REACH, "127.0.0.1", str(service), hosts=(HOST,))
    for host, port in (("example.org", "443"), (HOST, "80"), ("127.0.0.1", "443"), (f"{HOST}.example.org", "443")):
        with pytest.raises(BuildFailed, match=f"'CONNECT {host}:{port}' is refused; set BAROGRAPH_BUILD_REGISTRIES"):
            run("python3", "-c", FETCH, host, port, hosts=(HOST,))
    assert registry == [HOST]


def test_a_registry_that_is_silent_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(host: str) -> socket.socket:
        raise OSError("no route")

    monkeypatch.setattr("barograph.code.sandbox.connect", connect)
    with pytest.raises(BuildFailed, match=f"network: {HOST} cannot be reached: no route"):
        run("python3", "-c", FETCH, HOST, "443", hosts=(HOST,))


def test_registries_are_reached_through_the_boxes_own_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://ann:p%40ss@127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        asked: list[bytes] = []

        def answer() -> None:
            connection, _ = proxy.accept()
            asked.append(connection.recv(4096))
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            connection.sendall(b"answer to " + connection.recv(100))

        thread = threading.Thread(target=answer)
        thread.start()
        with connect(HOST) as way:
            way.sendall(b"question")
            assert way.recv(100) == b"answer to question"
        thread.join()
    assert asked[0].startswith(f"CONNECT {HOST}:443 ".encode())
    assert b"Proxy-Authorization: Basic YW5uOnBAc3M=" in asked[0]


def test_a_box_without_bubblewrap_runs_nothing_of_others(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap") as refused:
        run("true")
    assert refused.value.blame == "configuration"


def test_a_box_that_cannot_make_a_sandbox_runs_nothing_of_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PROGRAMS", ())
    with pytest.raises(SandboxUnavailable, match=r"this box cannot make one: .*nice"):
        run("true")


def test_what_is_given_to_a_sandbox_is_never_what_a_link_names(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "mine")
    give_to_sandbox(tmp_path / "tree")
    assert (tmp_path / "mine").stat().st_uid == os.geteuid()


def test_java_has_the_sandboxes_home(run: Run) -> None:
    assert f"user.home = {HOME}" in run("java", "-XshowSettings:properties", "-version")


def test_no_process_of_a_sandbox_has_a_variable_of_the_user(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root, a program can read what bubblewrap itself was started with: /proc/1/environ."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-value")
    started: list[dict[str, str]] = []

    class Child(ChildProcess):
        def __init__(self, *arguments: Any, environment: dict[str, str] | None = None, **options: Any) -> None:
            started.append(dict(os.environ) if environment is None else environment)
            super().__init__(*arguments, environment=environment, **options)

    monkeypatch.setattr(build, "ChildProcess", Child)
    assert "planted-value" not in run("env")
    assert [set(variables) for variables in started] == [{"PATH"}]


GREEDY = {
    "memory": "import time; x = bytearray(150 * 1024**2); time.sleep(600)",
    "disk": "import time; [open(f'{n}', 'wb').write(bytes(30 * 1024**2)) for n in range(3)]; time.sleep(600)",
    "disk, by removed files": (
        "import os, time; all = [open(f'{n}', 'wb') for n in range(3)]; [os.remove(f'{n}') for n in range(3)];"
        "[(f.write(bytes(30 * 1024**2)), f.flush()) for f in all]; time.sleep(600)"
    ),
    "disk, by names": "import time; [open(f'{n}', 'wb').close() for n in range(20000)]; time.sleep(600)",
    "disk, by the log": (
        "import os, time; file = os.open('file', os.O_CREAT | os.O_WRONLY);"
        "[os.write(to, b'.' * 1024**2) for n in range(40) for to in (1, file)]; time.sleep(600)"
    ),
    "disk, below": (
        "import os, time; [(os.mkdir('d' * 20), os.chdir('d' * 20)) for n in range(1500)];"
        "[open(f'{n}', 'wb').write(bytes(30 * 1024**2)) for n in range(3)]; time.sleep(600)"
    ),
}


@pytest.mark.parametrize("what", GREEDY)
def test_a_program_that_takes_too_much_is_ended(
    what: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "LOOK_S", 0.1)
    monkeypatch.setattr(sandbox, "DISK_LOOK_S", 0.1)
    little = Sandbox("/build/tree", {tmp_path / "tree": "/build/tree"}, resources=Resources(64, 64))
    kind = what.partition(",")[0]
    try:
        with pytest.raises(BuildFailed, match=rf"it takes \d+ MB of {kind}, allowed are 64; it was ended"):
            run_program(["python3", "-S", "-c", GREEDY[what]], little, tmp_path / "log", limit_s=60)
        give_to_sandbox(tmp_path / "tree")
    finally:
        remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    assert len(log_end(tmp_path / "log")) < 700


def test_files_in_memory_and_single_files_have_a_size(run: Run, tmp_path: Path) -> None:
    little = Sandbox(
        "/build/tree", {tmp_path / "tree": "/build/tree"}, resources=Resources(disk_mb=2, memory_files_mb=1)
    )
    for place in ("/tmp", "/dev/shm", "/build/tree"):
        writes = f"head -c 3000000 /dev/zero > {place}/file; stat -c %s {place}/file"
        run_program(["sh", "-c", writes], little, tmp_path / "log", limit_s=60)
    *_, tmp, _, _, shm, _, _, tree = (tmp_path / "log").read_text().splitlines()
    assert int(tmp) <= 1024**2 and int(shm) <= 1024**2 and int(tree) == 2 * 1024**2


@pytest.mark.skipif(os.geteuid() != 0, reason="the user's own processes would count")
def test_processes_are_counted(run: Run, tmp_path: Path) -> None:
    little = Sandbox("/build/tree", {tmp_path / "tree": "/build/tree"}, resources=Resources(processes=12))
    forks = "for n in $(seq 30); do sleep 20 & done"
    with pytest.raises(BuildFailed, match=r"[Cc]annot fork|Resource temporarily unavailable"):
        run_program(["sh", "-c", forks], little, tmp_path / "log", limit_s=60)


def test_the_kernel_ends_it_first_and_what_measures_goes_before_it(run: Run) -> None:
    assert run("sh", "-c", "cat /proc/self/oom_score_adj; nice").split() == ["1000", f"{os.nice(0) + 10}"]


def test_a_launcher_that_ended_before_its_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, gone, over = socket.recv_fds, threading.Event(), threading.Event()

    def late(*given: Any) -> Any:
        assert gone.wait(30)
        return receive(*given)

    monkeypatch.setattr(socket, "recv_fds", late)

    def build(folder: Path) -> None:
        before = set(threading.enumerate())
        with registry_access(folder, (HOST,), folder / "log") as path:
            (server,) = set(threading.enumerate()) - before
            with socket.socket(socket.AF_UNIX) as launcher, socket.create_server(("127.0.0.1", 0)) as listening:
                launcher.connect(str(path))
                socket.send_fds(launcher, [b"1"], [listening.fileno()])
            gone.set()
            server.join(30)
        over.set()

    with short_folder() as folder:
        threading.Thread(target=build, args=(folder,), daemon=True).start()
        assert over.wait(20), "whoever ends the build waits for ever, with its lock"
