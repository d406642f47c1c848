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


def test_the_same_suite_or_testbed_is_refused_by_name_of_its_holder(other: int) -> None:
    me = process_holder(os.getpid())
    night_state.take_reservation("quick", "local", "n1", process_holder(other), LATER, NOW)
    for suite, testbed in (("quick", "ec2"), ("stela", "local")):
        with pytest.raises(NightUnderWay, match=rf"suite quick .* on local \(night n1, process {other}\)"):
            night_state.take_reservation(suite, testbed, "n2", me, LATER, NOW)
    assert NightUnderWay.blame == "capacity"
    night_state.take_reservation("stela", "ec2", "n2", me, LATER, NOW)
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


def test_a_process_takes_its_own_suite_again_and_drops_only_its_own_night(tmp_path: Path) -> None:
    me = process_holder(os.getpid())
    for night in ("n1", "n2"):
        night_state.take_reservation("quick", "local", night, me, LATER, NOW)
    with pytest.raises(NightUnderWay):
        night_state.take_reservation("stela", "local", "n3", me, LATER, NOW)
    night_state.drop_reservation("quick", "n1")
    assert night_state.current_reservation("quick", "local", NOW) is not None
    for _ in range(2):
        night_state.drop_reservation("quick", "n2")
    assert night_state.current_reservation("quick", "local", NOW) is None
    (tmp_path / "state" / "nights" / "quick.json").write_text("{")  # a damaged file holds nothing
    night_state.take_reservation("stela", "local", "n1", me, LATER, NOW)


def test_a_backfill_does_not_take_the_night_of_the_schedule() -> None:
    night_state.take_reservation("quick", "local", "n1", Holder(0, "nightly.quick", run="scheduled"), LATER, NOW)
    with pytest.raises(NightUnderWay, match=r"DAG nightly\.quick, run scheduled"):
        night_state.take_reservation("quick", "local", "n2", Holder(0, "nightly.quick", run="backfill"), LATER, NOW)


def test_of_who_cannot_be_seen_only_the_end_is_known() -> None:
    for unseen in (Holder(0, "nightly.quick"), Holder(1, "another-boot/7", "another-boot/pid:[1]")):
        night_state.take_reservation("quick", "local", "n1", unseen, LATER, NOW)
        assert night_state.current_reservation("quick", "local", LATER - 1) is not None
        assert night_state.current_reservation("quick", "local", LATER) is None
        night_state.take_reservation("quick", "local", "n2", unseen, LATER, NOW)  # its own suite again
        night_state.drop_reservation("quick", "n2")
