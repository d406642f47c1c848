"""Whether a program came up, and its last words where it did not."""

import socket
from pathlib import Path

import pytest

from tests.support.on_machine import load
from tests.support.ports import free_port

listening = load("nimbus", "listening")


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(listening, "LOGS", tmp_path)
    return tmp_path


def test_what_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening.main("Nimbus", "nimbus", f"127.0.0.1:{server.getsockname()[1]}", "0")


def test_what_does_not_start_is_known_by_its_errors(logs: Path) -> None:
    (logs / "nimbus.log").write_text(
        "2026 INFO starting\n2026 ERROR died\njava.lang.IllegalArgumentException: no url\n"
        "\tat barograph.bridge.Settings.url(Settings.java:3)\n2026 INFO bye\n"
    )
    with pytest.raises(SystemExit) as told:
        listening.main("Nimbus", "nimbus", f"127.0.0.1:{free_port()}", "0", "nimbus.log", "nimbus.out")
    assert told.value.code == (
        "Nimbus does not start with the code of this run; it said: java.lang.IllegalArgumentException: no url"
    )


def test_what_ends_again_and_again_is_not_waited_for(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As supervisord logs it; of the run before and of other programs nothing counts."""
    monkeypatch.setattr(listening, "SUPERVISORD", supervisord := logs / "supervisord.log")
    supervisord.write_text("12:00:00,1 WARN exited: nimbus (exit status 1; not expected)\n" * 9)
    looks = []

    def ends(_address: object) -> bool:
        looks.append(1)
        with supervisord.open("a") as log:
            log.write("12:00:01,2 WARN exited: nimbus (exit status 1; not expected)\n")
            log.write("12:00:01,3 INFO exited: nimbus-other (exit status 0; expected)\n")
        return False

    monkeypatch.setattr(listening, "listens", ends)
    (logs / "nimbus.log").write_text("java.lang.IllegalStateException: half merged\n")
    with pytest.raises(SystemExit, match=r"it said: java\.lang\.IllegalStateException: half merged"):
        listening.main("Nimbus", "nimbus", "master:6627", "60", "nimbus.log")
    assert len(looks) == listening.EXITS


def test_one_end_is_forgiven(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "SUPERVISORD", supervisord := logs / "supervisord.log")
    answers = iter([False, False, True])

    def comes(_address: object) -> bool:
        supervisord.write_text("12:00:01,2 WARN exited: nimbus (exit status 1; not expected)\n")
        return next(answers)

    monkeypatch.setattr(listening, "listens", comes)
    listening.main("Nimbus", "nimbus", "master:6627", "60")


def test_without_an_error_the_last_lines_are_told(logs: Path) -> None:
    (logs / "x.out").write_text("".join(f"line {n}\n" for n in range(9)))
    assert listening.last_words([logs / "x.out"]) == "line 5 / line 6 / line 7 / line 8"
    assert listening.last_words([logs / "none"]) == "its logs are empty"
