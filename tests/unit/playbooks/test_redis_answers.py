"""Whether a machine can use the run's Redis, and what is reported where it cannot."""

import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.on_machine import load
from tests.support.ports import free_port

redis_answers = load("machine", "redis_answers")
PASSWORD = "a-password"  # of a server of this test


class Redis(socketserver.StreamRequestHandler):
    """Two commands of Redis' protocol."""

    def handle(self) -> None:
        auth, ping = (self.rfile.readline().decode().split() for _ in range(2))
        is_in = auth == ["AUTH", PASSWORD]
        answers = ["+OK", "+PONG"] if is_in and ping == ["PING"] else ["-WRONGPASS invalid", "-NOAUTH required"]
        self.wfile.write("".join(f"{line}\r\n" for line in answers).encode())


@pytest.fixture
def port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Redis) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(autouse=True)
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "redis"
    file.write_text(f"requirepass {PASSWORD}\n")
    monkeypatch.setattr(redis_answers, "SECRET", file)
    monkeypatch.setattr(redis_answers, "OUTPUT", tmp_path / "redis.out")
    return file


def test_who_knows_the_password_is_let_in(port: int) -> None:
    redis_answers.main(f"127.0.0.1:{port}", "0")


def test_a_wrong_password_is_reported_in_redis_own_words(port: int, secret: Path) -> None:
    secret.write_text("requirepass another\n")
    with pytest.raises(SystemExit, match=rf"Redis at 127\.0\.0\.1:{port} cannot be reached: -WRONGPASS invalid$"):
        redis_answers.main(f"127.0.0.1:{port}", "0")


def test_a_redis_that_did_not_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "redis.out").write_text("1:M starting\n1:M # Bad directive\n")
    with pytest.raises(SystemExit, match=r"refused / 1:M # Bad directive$"):
        redis_answers.main(f"127.0.0.1:{free_port()}", "0")
