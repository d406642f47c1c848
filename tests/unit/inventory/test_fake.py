from pathlib import Path

import pytest

from barograph.errors import InfrastructureError
from inventory.leases import registry
from inventory.machines import MACHINE_TYPES, MachineRequest
from inventory.remote.ssh import Result
from tests.support.fakes.testbed import FakeTestbed, ProgramResult

WANTED = [MachineRequest("m1", MACHINE_TYPES["type_1"])]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))


def test_a_dead_testbed_is_infrastructure() -> None:
    testbed = FakeTestbed()
    lease = registry.take("me", "s", "fake", 60)
    (machine,) = testbed.acquire(lease, WANTED)
    remote = testbed.connect(machine)
    testbed.die()
    with pytest.raises(InfrastructureError, match=r"m1 \(fake\) does not answer: no route to host"):
        remote.run(["true"])
    testbed.release(lease)
    with pytest.raises(InfrastructureError, match="testbed fake does not answer"):
        testbed.acquire(lease, WANTED)


def test_a_program_can_be_given_and_commands_are_kept() -> None:
    testbed = FakeTestbed()
    (machine,) = testbed.acquire(registry.take("me", "s", "fake", 60), WANTED)
    testbed.machine("m1").programs["supervisorctl"] = lambda it, argv: ProgramResult(
        Result(f"{it.name}: {argv[0]}", "", 3)
    )
    with testbed.connect(machine) as remote:
        assert remote.run(["supervisorctl", "status"]) == Result("m1: status", "", 3)
    assert testbed.machine("m1").commands == [["supervisorctl", "status"]]
