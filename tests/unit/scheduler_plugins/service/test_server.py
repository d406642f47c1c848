from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import scheduler_plugins
from barograph.policy_service import HttpService, ServiceUnreachable
from barograph.run.monitor import Patience
from scheduler_plugins.model import Decision, Memory, Observation
from scheduler_plugins.service.messages import VERSION
from scheduler_plugins.service.policy_call import (
    DECIDE_S,
    HANG_FILE,
    HANG_S,
    HangWatch,
    TimedDecisions,
    hang_of,
    waited_for_cpu_s,
)
from scheduler_plugins.service.run_snapshot import RunSnapshot
from scheduler_plugins.service.server import PolicyServer, main
from scheduler_plugins.service.state import ServiceState
from tests.support.ports import free_port
from tests.support.rounds import PLACED, line, only_topology
from tests.support.rounds import request as round_request


@contextmanager
def serving(server: PolicyServer) -> Iterator[PolicyServer]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PolicyServer]:
    with serving(PolicyServer(("127.0.0.1", 0), "secret", ServiceState(tmp_path))) as one:
        yield one


def call(
    server: PolicyServer, path: str, body: Any = None, token: str = "secret", **headers: str
) -> tuple[int, dict[str, Any]]:
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(url, data=data, headers={"Authorization": f"Bearer {token}", **named})
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_round_over_http(server: PolicyServer) -> None:
    assert call(server, "/configure", {"run_id": "r1", "policy": "stela", "parameters": {}, "window_s": 30})[0] == 200
    status, answer = call(server, "/schedule", round_request(1000.0))
    assert status == 200 and answer["decision_id"] == "d1" and answer["policy"] == "stela"
    assert call(server, "/state")[1]["run_id"] == "r1"


def test_a_bridge_of_another_version_is_refused(server: PolicyServer) -> None:
    status, answer = call(server, "/schedule", round_request(1000.0) | {"v": VERSION - 1})
    assert status == 400 and f"v is {VERSION - 1}; allowed is {VERSION}" in answer["error"]


def test_a_worker_that_begins_is_told_what_is_on_record(server: PolicyServer) -> None:
    call(server, "/configure", {"run_id": "r1", "policy": "even"})
    call(server, "/schedule", round_request(1000.0, PLACED))
    spouts = {
        "task": [5],
        "due": [60],
        "emitted": [50],
        "behind": [10],
        "behind_ms": [90.0],
        "missed": [0],
        "late": [0],
    }
    posted = json.loads(line(1001.0, "m1", {"centre": (1, 1)})) | {"spouts": spouts}
    assert call(server, "/samples", json.dumps(posted).encode())[1] == {"input_rate_factor": 1.0}
    call(server, "/input_rate", {"factor": 2})
    status, answer = call(server, "/samples", b"", X_Barograph_Topology=posted["topology"])
    assert (status, answer["input_rate_factor"], answer["topology"]) == (200, 2.0, posted["topology"])
    assert answer["schedules"] == {"5": {"t": 1001.0, "behind": 10}}
    assert [factor for _, factor in answer["input_rates"]] == [1.0, 2.0]


def test_without_the_token_nothing_is_answered(server: PolicyServer) -> None:
    assert call(server, "/state", token="guess")[0] == 401
    assert call(server, "/schedule", round_request(1000.0), token="")[0] == 401


def test_bad_calls_are_answered_not_died_of(server: PolicyServer) -> None:
    assert call(server, "/nothing")[0] == 404
    assert call(server, "/schedule", b"{not json")[0] == 400
    assert call(server, "/schedule", {"v": VERSION, "t": 1.0, "machines": []})[0] == 400
    assert call(server, "/scale", {"event_id": "e", "kind": "scale_out", "joined": ["m1"]})[0] == 409
    assert call(server, "/state")[0] == 200


class SlowPolicy:
    """Decides nothing, and that only once it may."""

    def __init__(self) -> None:
        self.asked, self.released, self.times = threading.Event(), threading.Event(), 0

    def __call__(self, _observation: Observation, memory: Memory) -> Decision:
        self.times += 1
        self.asked.set()
        self.released.wait(30)
        return Decision(memory=memory)


@pytest.fixture
def slow(server: PolicyServer) -> Iterator[SlowPolicy]:
    policy = SlowPolicy()
    server.state.configure({"run_id": "r1", "policy": "stela"})
    server.state.policy = policy
    yield policy
    policy.released.set()


def test_everybody_is_answered_while_the_policy_decides(server: PolicyServer, slow: SlowPolicy) -> None:
    server.decisions.limit_s = 30.0
    answers: list[Any] = []
    nimbus = threading.Thread(target=lambda: answers.append(call(server, "/schedule", round_request(1000.0, PLACED))))
    nimbus.start()
    assert slow.asked.wait(30)
    status, state = call(server, "/state")
    assert status == 200 and only_topology(state)["tasks_placed"] == 6 and answers == []
    assert call(server, "/samples", b"")[0] == 200
    slow.released.set()
    nimbus.join(30)
    assert answers[0][0] == 200 and server.state.policy_error is None


def test_a_policy_that_takes_too_long_has_failed_and_says_how_long_it_took(
    server: PolicyServer, slow: SlowPolicy
) -> None:
    server.decisions.limit_s, server.decisions.waited_s = 0.05, lambda _thread: 0.0
    status, answer = call(server, "/schedule", round_request(1000.0, PLACED))
    assert status == 200 and answer["topologies"] == {} and "policy failed" in answer["reason"]
    said = call(server, "/state")[1]["policy_error"]
    assert re.search(r"its decide has not answered after \d+\.\d s; allowed: 0\.05 s; it is at ", said)
    assert call(server, "/schedule", round_request(1002.0, PLACED))[0] == 200
    assert slow.times == 1, "it is not asked again while it may still be computing"
    slow.released.set()
    (thread,) = server.decisions._unheard
    thread.join(30)
    assert re.search(r"its decide took \d+\.\d s", call(server, "/state")[1]["policy_error"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "its decision is no Decision: None"),
        ({"placement": {}}, "its decision is no Decision: {'placement': {}}"),
        (Decision(executors=None), "its decision is not as the contract has it: TypeError: "),  # type: ignore[arg-type]
        (Decision(release=7), "its decision is not as the contract has it: TypeError: "),  # type: ignore[arg-type]
    ],
)
def test_a_policy_that_answers_nonsense_has_not_hung(server: PolicyServer, answer: Any, said: str) -> None:
    server.state.policy = lambda _observation, _memory: answer
    server.decisions.limit_s = 10.0
    status, decided = call(server, "/schedule", round_request(1000.0, PLACED))
    assert status == 200 and decided["topologies"] == {}
    assert call(server, "/state")[1]["policy_error"].startswith(said)


def test_a_policy_that_the_box_kept_from_a_cpu_has_not_failed(server: PolicyServer, slow: SlowPolicy) -> None:
    """It is not asked twice at once; when it has had its time, it has failed."""
    server.decisions.limit_s, server.decisions.waited_s = 0.05, lambda _thread: 1e6
    for t in (1000.0, 1002.0):
        status, answer = call(server, "/schedule", round_request(t, PLACED))
        assert status == 200 and answer["topologies"] == {}
        assert answer["reason"].startswith("held: the box is busy: decide had ")
    assert call(server, "/state")[1]["policy_error"] is None and slow.times == 1
    server.decisions.waited_s = lambda _thread: 0.0
    call(server, "/schedule", round_request(1004.0, PLACED))
    assert "its decide has not answered after " in call(server, "/state")[1]["policy_error"]


def test_a_policy_that_answers_late_because_the_box_was_busy_is_asked_again(
    server: PolicyServer, slow: SlowPolicy
) -> None:
    server.decisions.limit_s, server.decisions.waited_s = 0.05, lambda _thread: 1e6
    call(server, "/schedule", round_request(1000.0, PLACED))
    slow.released.set()
    (thread,) = server.decisions._unheard
    thread.join(30)
    server.decisions.limit_s = 30.0
    call(server, "/schedule", round_request(1002.0, PLACED))
    assert slow.times == 2 and call(server, "/state")[1]["policy_error"] is None


def test_the_kernel_says_how_long_a_thread_waited_for_a_cpu() -> None:
    """More threads that compute than there are CPUs, in processes of their own, or else they wait for Python's lock."""
    waits = "import threading; from scheduler_plugins.service.policy_call import waited_for_cpu_s as w\n"
    waits += "import os, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); end = time.monotonic() + 0.5\n"
    waits += "while time.monotonic() < end: pass\nprint(w(threading.current_thread()))"
    root = str(Path(scheduler_plugins.__file__).parents[1])
    argv, environment = [sys.executable, "-c", waits], {**os.environ, "PYTHONPATH": root}
    both = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    assert sum(float(each.communicate(timeout=60)[0]) for each in both) > 0.1
    sleeper = threading.Thread(target=time.sleep, args=(0.2,))
    sleeper.start()
    assert waited_for_cpu_s(sleeper) < 0.2
    sleeper.join()


def test_the_next_run_begins_without_the_policy_that_still_computes(tmp_path: Path) -> None:
    restarted, slow = threading.Event(), SlowPolicy()
    server = PolicyServer(
        ("127.0.0.1", 0), "secret", ServiceState(tmp_path), decisions=TimedDecisions(0.05), restart=restarted.set
    )
    with serving(server):
        server.state.policy = slow
        call(server, "/schedule", round_request(1000.0, PLACED))
        status, answer = call(server, "/configure", {"run_id": "r2", "policy": "stela"})
        assert status == 503 and "still decides" in answer["error"]
        assert restarted.wait(30)
        slow.released.set()
        for thread in server.decisions._unheard:
            thread.join(30)
        assert call(server, "/configure", {"run_id": "r2", "policy": "stela"})[0] == 200


@contextmanager
def process(folder: Path, script: str) -> Iterator[tuple[subprocess.Popen[bytes], HttpService]]:
    """The service in a process of its own, as on a master, and its client."""
    (folder / "token").write_text("secret")
    (folder / "serve.py").write_text(script)
    port = free_port()
    argv = [sys.executable, "serve.py", "--listen", f"127.0.0.1:{port}", "--token-file", "token", "--log-dir", "."]
    root = str(Path(scheduler_plugins.__file__).parents[1])
    started = subprocess.Popen(argv, cwd=folder, env={**os.environ, "PYTHONPATH": root})
    try:
        yield started, HttpService("127.0.0.1", folder / "token", port=port, patience_s=60.0)
    finally:
        started.kill()
        started.wait()


SERVE = """
import os, sys
from scheduler_plugins.service import server, state
def decide(*_):
    {decides}
server.HANG_S = {hang_s}
if not os.path.exists("begun"):
    open("begun", "w").close()
    state.bind = lambda *_: decide
sys.exit(server.main())
"""


def test_a_policy_that_never_ends_does_not_reach_into_the_next_run(tmp_path: Path) -> None:
    with process(tmp_path, SERVE.format(decides="while True: pass", hang_s=HANG_S)) as (started, client):
        client.configure("r1", "stela", {}, 1, 60.0)
        while client.state().policy_error is None:  # on a busy box it has its time after some rounds
            client._call("/schedule", round_request(1000.0, PLACED))
            time.sleep(0.05)
        assert "it is at " in str(client.state().policy_error)
        client.configure("r2", "stela", {}, 1, 60.0)
        client._call("/schedule", round_request(1000.0, PLACED))
        assert client.state().run_id == "r2" and client.state().policy_error is None
        assert started.poll() is None, "supervisord has nothing to restart"


def test_a_policy_that_hangs_in_one_call_ends_the_service_and_the_next_one_says_so(tmp_path: Path) -> None:
    script = SERVE.format(decides="sum(range(10**12))", hang_s=1.2)
    with process(tmp_path, script) as (started, client):
        client.configure("r1", "stela", {}, 1, 60.0)
        with pytest.raises(ServiceUnreachable):
            client._call("/schedule", round_request(1000.0, PLACED))
        assert started.wait(30) == 1, "supervisord starts it again"
    with process(tmp_path, script) as (_, client):
        hang = answered(client).policy_hang
        assert hang is not None and hang["run_id"] == "r1" and 'serve.py", line 5 in decide' in hang["why"]
        client.configure("r2", "stela", {}, 1, 60.0)
        assert client.state().run_id == "r2" and client.state().policy_hang is None
    with process(tmp_path, script) as (_, client):
        assert answered(client).policy_hang is None


def answered(client: HttpService) -> RunSnapshot:
    """What it says, once it has begun."""
    for _ in range(600):
        with suppress(ServiceUnreachable):
            return client.state()
        time.sleep(0.1)
    pytest.fail("it does not begin")


def test_a_process_that_stood_still_while_no_policy_decided_accuses_none() -> None:
    dump = 'r1\nTimeout (0:00:08)!\nThread 0x1 (most recent call first):\n  File "/x/service.py", line 7 in decide\n'
    assert hang_of(dump) is None
    policy = '\nThread 0x2 (most recent call first):\n  File "/x/metis.py", line 3 in cut\n'
    policy += '  File "/x/policy_call.py", line 63 in ask_policy\n'
    assert hang_of(dump + policy) == {
        "run_id": "r1",
        "why": 'its decide hung in one call and kept Python from all else: "/x/metis.py", line 3 in cut',
    }


def test_no_alarm_is_set_before_there_is_a_thread_that_puts_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms: list[float] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda limit_s, **_: alarms.append(limit_s))
    watch = HangWatch(tmp_path / HANG_FILE, 0.8)

    def fail(_thread: threading.Thread) -> None:
        assert not alarms
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with watch:
            assert not alarms, "it decides all the same"
    with watch:
        assert alarms, "the next one has its thread"
        while len(alarms) < 2:
            time.sleep(0.05)


def test_a_policy_that_hangs_is_ended_before_the_harness_gives_the_service_up() -> None:
    assert 4 * DECIDE_S < HANG_S < Patience().unreachable_s - 5


def raw(server: PolicyServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30)


def test_of_a_stranger_no_body_is_read(server: PolicyServer) -> None:
    with raw(server) as connection:
        connection.sendall(b"POST /samples HTTP/1.1\r\nAuthorization: Bearer guess\r\nContent-Length: 9999999\r\n\r\n")
        answer = connection.makefile("rb").read()  # to the end: the service closes, though nothing was sent
    assert answer.startswith(b"HTTP/1.1 401") and b"Connection: close" in answer


@pytest.mark.parametrize("said", ["Content-Length: 16777217", "Content-Length: many", "Transfer-Encoding: chunked"])
def test_a_body_without_an_allowed_length_is_refused(server: PolicyServer, said: str) -> None:
    with raw(server) as connection:
        connection.sendall(f"POST /samples HTTP/1.1\r\nAuthorization: Bearer secret\r\n{said}\r\n\r\n".encode())
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 413")


HEAD = b"POST /samples HTTP/1.1\r\nAuthorization: Bearer secret\r\nContent-Length: 999999\r\n\r\n"


@pytest.mark.parametrize(("begin", "drop"), [(b"", b""), (b"POST /samples HT", b"x"), (HEAD, b"x")])
def test_whoever_sends_slowly_is_not_waited_for(
    server: PolicyServer, begin: bytes, drop: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_plugins.service.server.REQUEST_S", 0.3)
    with raw(server) as connection:
        connection.sendall(begin)
        connection.settimeout(0.05)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                assert connection.recv(100) == b""
                return
            except TimeoutError:
                with suppress(OSError):
                    connection.sendall(drop)
            except ConnectionResetError:
                return  # a drop was on its way
        pytest.fail("the service waits for ever")


def test_code_on_the_machines_cannot_say_what_the_run_does(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"of the harness").hexdigest()
    server = PolicyServer(("127.0.0.1", 0), "secret", ServiceState(tmp_path), harness_sha256=digest)
    with serving(server):
        assert call(server, "/schedule", round_request(1000.0))[0] == 200
        assert call(server, "/samples", b"")[0] == 200
        assert call(server, "/state")[0] == 401
        assert call(server, "/configure", {"run_id": "r"}, X_Barograph_Harness="guess")[0] == 401
        assert call(server, "/input_rate", {"factor": 9})[0] == 401
        assert call(server, "/state", token="of the harness", X_Barograph_Harness="of the harness")[0] == 401
        assert call(server, "/state", X_Barograph_Harness="of the harness")[0] == 200
        (tmp_path / "token").write_text("secret")
        (tmp_path / "harness_token").write_text("of the harness")
        client = HttpService("127.0.0.1", tmp_path / "token", port=server.server_address[1])
        client.configure("r1", "stela", {}, 1, 60.0)
        assert client.state().run_id == "r1"


def test_what_cannot_be_written_is_said(server: PolicyServer, tmp_path: Path) -> None:
    (tmp_path / "decisions.jsonl").mkdir()
    status, answer = call(server, "/schedule", round_request(1000.0))
    assert status == 500 and "IsADirectoryError" in answer["error"]
    assert call(server, "/state")[0] == 200


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::", "*"])
def test_the_service_is_not_for_every_address(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--listen", f"{address}:8700", "--token-file", "/nowhere", "--log-dir", "/nowhere"])
    assert "every address; give the one of the control LAN" in capsys.readouterr().err


@pytest.mark.parametrize(("token", "harness"), [("", b"of the harness"), ("secret", b"")])
def test_with_an_empty_token_nothing_is_served(token: str, harness: bytes, tmp_path: Path) -> None:
    digest = hashlib.sha256(harness).hexdigest()
    with pytest.raises(ValueError, match="a token is empty"):
        PolicyServer(("127.0.0.1", 0), token, ServiceState(tmp_path), harness_sha256=digest)


def test_a_cluster_of_workers_connects_at_once_while_the_server_is_busy(tmp_path: Path) -> None:
    """It listens and accepts nothing yet: the kernel holds the connections, and loses none to repeat after a second."""
    with PolicyServer(("127.0.0.1", 0), "secret", ServiceState(tmp_path)) as busy, ExitStack() as connections:
        for _ in range(40):
            connections.enter_context(socket.create_connection(("127.0.0.1", busy.server_port), 0.9))
