"""Two nights at once: the second is refused; what a dead process holds is taken over."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.nights import night_state
from barograph.nights.night_state import NightUnderWay
from inventory.leases import holder
from inventory.leases.holder import Holder, process_holder

NOW, LATER = 1_000.0, 5_000.0
pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def other() -> int:
    """A process that lives as long as the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid  # type: ignore[misc] # a fixture's generator
        process.communicate(b"\n")


def test_the_same_suite_is_refused_by_name_of_its_holder(other: int) -> None:
    night_state.take_reservation("quick", "local", "n1", process_holder(other), LATER, NOW)
    with pytest.raises(NightUnderWay, match=rf"suite quick is being measured on local \(night n1, process {other}\)"):
        night_state.take_reservation("quick", "ec2", "n2", process_holder(os.getpid()), LATER, NOW)
    assert NightUnderWay.blame == "capacity"


def test_another_suite_on_the_same_testbed_is_refused_and_on_another_it_is_not(other: int) -> None:
    night_state.take_reservation("quick", "local", "n1", process_holder(other), LATER, NOW)
    with pytest.raises(NightUnderWay, match="suite quick"):
        night_state.take_reservation("stela", "local", "n2", process_holder(os.getpid()), LATER, NOW)
    night_state.take_reservation("stela", "ec2", "n2", process_holder(os.getpid()), LATER, NOW)
    found = night_state.current_reservation("anything", "ec2", NOW)
    assert found is not None and found.suite == "stela"


def test_a_dead_holder_and_an_end_that_has_come_hold_nothing(other: int) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    gone = process_holder(dead.pid)
    dead.wait()
    night_state.take_reservation("quick", "local", "n1", gone, LATER, NOW)
    night_state.take_reservation("stela", "local", "n2", process_holder(other), LATER, NOW)
    night_state.take_reservation("stela", "local", "n3", process_holder(os.getpid()), LATER, LATER)
    assert night_state.current_reservation("stela", "local", 2 * LATER) is None


def test_a_pid_that_was_used_again_holds_nothing(other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    night_state.take_reservation("quick", "local", "n1", process_holder(other), LATER, NOW)
    monkeypatch.setattr(holder, "process_start", lambda _pid: "another birth")
    assert night_state.current_reservation("quick", "local", NOW) is None


def test_the_same_process_takes_its_own_suite_again_but_not_another_ones_testbed() -> None:
    me = process_holder(os.getpid())
    night_state.take_reservation("quick", "local", "n1", me, LATER, NOW)
    night_state.take_reservation("quick", "local", "n2", me, LATER, NOW)
    with pytest.raises(NightUnderWay):
        night_state.take_reservation("stela", "local", "n3", me, LATER, NOW)


def test_only_its_own_night_drops_a_hold() -> None:
    night_state.take_reservation("quick", "local", "n1", process_holder(os.getpid()), LATER, NOW)
    night_state.drop_reservation("quick", "n0")
    assert night_state.current_reservation("quick", "local", NOW) is not None
    night_state.drop_reservation("quick", "n1")
    night_state.drop_reservation("quick", "n1")
    assert night_state.current_reservation("quick", "local", NOW) is None


def test_a_damaged_file_holds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "nights"
    folder.mkdir(parents=True)
    (folder / "quick.json").write_text("{")
    night_state.take_reservation("stela", "local", "n1", process_holder(os.getpid()), LATER, NOW)


def test_of_who_cannot_be_seen_only_the_end_is_known() -> None:
    for unseen in (Holder(0, "nightly.quick"), Holder(1, "another-boot/7", "another-boot/pid:[1]")):
        night_state.take_reservation("quick", "local", "n1", unseen, LATER, NOW)
        assert night_state.current_reservation("quick", "local", LATER - 1) is not None
        assert night_state.current_reservation("quick", "local", LATER) is None
        night_state.take_reservation("quick", "local", "n2", unseen, LATER, NOW)  # its own suite again
        night_state.drop_reservation("quick", "n2")
