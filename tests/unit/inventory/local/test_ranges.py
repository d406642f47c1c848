"""Two harnesses on one box, each with a state folder of its own: an address range is one's alone."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from barograph.errors import CapacityError
from inventory.files import hold_lock
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.local import lan
from inventory.local.testbed import LocalTestbed
from inventory.machines import MACHINE_TYPES, MachineRequest

FIRST, SECOND = "aaaaaaaa", "bbbbbbbb"


@pytest.fixture
def testbeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, LocalTestbed]:
    """By lease; nothing is made, and once ranges are taken others can take theirs."""

    def start(*_: object) -> None:
        with hold_lock(lan.LOCK, "looking", 5.0):
            pass

    monkeypatch.setattr(lan, "LOCK", tmp_path / "lan.lock")
    monkeypatch.setattr(lan, "guard_ranges", lambda _lease_id: None)
    for name in ("require_new", "hold"):
        monkeypatch.setattr(registry, name, lambda *_: None)
    for name in ("check", "release"):
        monkeypatch.setattr(LocalTestbed, name, lambda *_: None)
    monkeypatch.setattr(LocalTestbed, "_identify", lambda *_: ())
    monkeypatch.setattr(LocalTestbed, "_start", start)
    made = {}
    for lease_id in (FIRST, SECOND):
        monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / lease_id))
        made[lease_id] = LocalTestbed(root=tmp_path)
    return made


def test_of_two_that_look_at_the_same_time_one_takes_the_ranges(
    testbeds: dict[str, LocalTestbed], monkeypatch: pytest.MonkeyPatch
) -> None:
    routes: list[str] = []
    outcomes: dict[str, str] = {}

    def acquire(lease_id: str) -> None:
        lease = Lease(lease_id, "ann", "s1", "local", 0.0, 1.0, 1, "")
        try:
            testbeds[lease_id].acquire(lease, [MachineRequest("m1", MACHINE_TYPES["type_1"])])
            outcomes[lease_id] = "it has machines"
        except CapacityError as refused:
            outcomes[lease_id] = str(refused)

    other = threading.Thread(target=acquire, args=(SECOND,))

    def build(lease_id: str, _seats: Sequence[lan.LanEndpoint], _state: Path) -> None:
        if lease_id == FIRST:
            other.start()
            other.join(1.0)
        routes.append(f"10.213.0.0/24 by b{lease_id}ctl")

    monkeypatch.setattr(lan, "build", build)
    monkeypatch.setattr(lan, "routes_in_use", lambda _lease_id: list(routes))
    acquire(FIRST)
    other.join(30)
    assert outcomes[FIRST] == "it has machines"
    assert f"are in use on this box: 10.213.0.0/24 by b{FIRST}ctl;" in outcomes[SECOND]
