"""What every testbed keeps, over the whole dict of testbeds."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory.leases import registry
from inventory.leases.reaper import reap
from inventory.machines import Machine, MachineRequest
from inventory.remote.ssh import Remote, RemoteTimeoutError
from inventory.simulated import SimulatedTestbed
from inventory.testbed import SupportsSweep
from tests.contract.sites import SMALL, WANTED, Site, gone


@pytest.fixture
def worker(site: Site, machines: Sequence[Machine]) -> Iterator[Remote]:
    with site.connect(machines[1]) as remote:
        yield remote


def test_machines_are_those_asked_for_in_order(site: Site, machines: Sequence[Machine]) -> None:
    assert [m.name for m in machines] == [r.name for r in WANTED]
    assert site.testbed.whole_machines or [m.type for m in machines] == [r.type for r in WANTED]
    assert len({m.experiment_address for m in machines}) == len({m.inside_address for m in machines}) == len(WANTED)
    assert len({(m.control_address, m.ssh_port) for m in machines}) == len(WANTED)


def test_each_machine_answers_with_its_name(site: Site, machines: Sequence[Machine]) -> None:
    for machine in machines:
        with site.connect(machine) as remote:
            assert remote.run(["hostname"]).stdout.strip() == machine.name


def test_what_a_live_lease_holds_is_no_leftover(site: Site, machines: Sequence[Machine]) -> None:
    assert site.testbed.leftovers() == ()


def test_reaping_beside_a_live_lease_leaves_it_alone(site: Site, machines: Sequence[Machine]) -> None:
    assert reap(testbeds={site.testbed.name: lambda: site.testbed}) == ()
    with site.connect(machines[0]) as remote:
        assert remote.run(["true"]).code == 0


def test_a_second_run_is_told_who_holds_the_testbed(site: Site, machines: Sequence[Machine]) -> None:
    if site.testbed.shared:
        pytest.skip("several leases may hold machines of it at once")
    with pytest.raises(
        CapacityError, match=rf"{site.testbed.name} is in use: lease \w+ of contract test .*{os.getpid()}"
    ):
        site.take()


def test_a_lease_acquires_once(site: Site, machines: Sequence[Machine]) -> None:
    (lease,) = registry.read_all()
    with pytest.raises(ConfigurationError, match="holds machines already"):
        site.testbed.acquire(lease, WANTED)


def test_run_gives_output_and_code(worker: Remote) -> None:
    assert worker.run(["echo", "a b"]).stdout == "a b\n"
    assert worker.run(["false"]).code == 1
    missing = worker.run(["cat", "/nowhere"])
    assert missing.code == 1 and "No such file" in missing.stderr


def test_run_is_no_shell(worker: Remote) -> None:
    text = "$HOME; 'quoted' && false | *"
    assert worker.run(["echo", text]).stdout == f"{text}\n"


def test_an_unknown_program_is_127(worker: Remote) -> None:
    assert worker.run(["no-such-program"]).code == 127


def test_a_command_over_its_limit_is_infrastructure(worker: Remote) -> None:
    with pytest.raises(RemoteTimeoutError, match=r"m1: `sleep 30` still ran after 1 s"):
        worker.run(["sleep", "30"], timeout_s=1)
    assert worker.run(["true"]).code == 0


def test_files_go_there_and_back_with_their_mode(worker: Remote, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("secret\n")
    (tmp_path / "here").chmod(0o600)
    worker.put(tmp_path / "here", "/root/there")
    assert worker.run(["stat", "-c", "%a", "/root/there"]).stdout == "600\n"
    worker.get("/root/there", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "secret\n"


def test_a_file_that_is_not_there(worker: Remote, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        worker.get("/root/nothing", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_closed_connection_does_not_answer(site: Site, machines: Sequence[Machine]) -> None:
    remote = site.connect(machines[1])
    remote.close()
    remote.close()
    with pytest.raises(InfrastructureError, match=r"m1 .*does not answer"):
        remote.run(["true"])


# The tests below take the testbed's lease themselves, so they come after those that share one.


def test_release_ends_everything_and_may_be_repeated(alone: Site) -> None:
    lease = alone.take()
    machines = alone.testbed.acquire(lease, WANTED)
    alone.testbed.release(lease)
    alone.testbed.release(lease)
    registry.drop(lease)
    registry.drop(lease)
    assert alone.testbed.leftovers() == ()
    assert gone(alone, machines[0])


def test_release_of_a_lease_that_holds_nothing(alone: Site) -> None:
    lease = alone.take()
    alone.testbed.release(lease)
    registry.drop(lease)
    assert alone.testbed.leftovers() == ()


def test_acquire_without_a_lease_on_record(alone: Site) -> None:
    lease = alone.take()
    registry.drop(lease)
    with pytest.raises(InfrastructureError, match="not on record"):
        alone.testbed.acquire(lease, WANTED)
    assert alone.testbed.leftovers() == ()


def test_acquire_is_all_or_nothing(alone: Site, tmp_path: Path) -> None:
    lease = alone.take()
    broken = alone.broken(tmp_path)
    with pytest.raises(BarographError) as failure:
        broken.acquire(lease, WANTED)
    registry.drop(lease)
    assert failure.value.blame == "infrastructure"
    assert broken.leftovers() == ()


def test_what_lost_its_lease_is_a_leftover_and_swept(alone: Site) -> None:
    if not isinstance(alone.testbed, SupportsSweep):
        pytest.skip("it does not sweep")
    lease = alone.take()
    alone.testbed.acquire(lease, WANTED)
    registry.drop(lease)
    assert alone.testbed.leftovers() == (f"machines of {lease.lease_id}",)
    assert alone.testbed.sweep() == (f"machines of {lease.lease_id}",)
    assert alone.testbed.leftovers() == ()


def test_the_reaper_ends_an_expired_lease(alone: Site) -> None:
    lease = alone.take(ttl_s=100)
    alone.testbed.acquire(lease, WANTED)
    known = {alone.testbed.name: lambda: alone.testbed}
    later = time.time() + 101
    assert [one.why for one in reap(later, dry_run=True, testbeds=known)] == ["expired"]
    assert registry.read(lease.lease_id) == lease
    assert [one.error for one in reap(later, testbeds=known)] == [None]
    assert registry.read(lease.lease_id) is None
    assert alone.testbed.leftovers() == ()


def test_check_refuses_what_makes_no_sense(site: Site) -> None:
    for wrong in ((), (WANTED[0], WANTED[0])):
        with pytest.raises(ConfigurationError, match="machine"):
            site.testbed.check(wrong)


def test_check_says_what_is_too_much(site: Site) -> None:
    if site.testbed.whole_machines:
        pytest.skip("it gives machines as they are")
    if isinstance(site.testbed, SimulatedTestbed):
        pytest.skip("it has as many as are asked for")
    giant = MachineRequest("m1", replace(SMALL, cores=1000.0))
    with pytest.raises(CapacityError, match=r"1 machines need 1000 cores, this \w+ has \d+"):
        site.testbed.check([giant])
    hog = MachineRequest("m1", replace(SMALL, memory_mb=10**8))
    with pytest.raises(CapacityError, match=r"1 machines need .* of memory"):
        site.testbed.check([hog])
    with pytest.raises(CapacityError):
        site.testbed.acquire(alone_lease := _unrecorded(site), [giant])
    assert registry.read(alone_lease.lease_id) is None and site.testbed.leftovers() == ()


def _unrecorded(site: Site) -> registry.Lease:
    return registry.Lease("00000000", "nobody", "series", site.testbed.name, 0.0, 1.0, 1, "")
