"""What every testbed keeps, over the whole dict of testbeds."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from inventory import TESTBEDS, lan, leases
from inventory.ec2.pace import Pace
from inventory.ec2.testbed import Ec2Testbed
from inventory.errors import CapacityError, ConfigurationError, InfrastructureError, InventoryError, RemoteTimeoutError
from inventory.existing import ExistingTestbed
from inventory.fake import FakeTestbed
from inventory.local import LocalTestbed
from inventory.machine_types import named
from inventory.reaper import reap
from inventory.remote import Remote
from inventory.testbed import (
    Connecting,
    Faulting,
    GivingBack,
    Growing,
    Machine,
    MachineRequest,
    MachineType,
    Pricing,
    Prolonging,
    Recalling,
    Sweeping,
)
from inventory.testbed import Testbed as AnyTestbed  # pytest collects what is called Test…
from tests.cloud.cloud import running
from tests.emulab.world import world
from tests.existing.lab import Lab, lab

SMALL = MachineType("small", cores=0.25, memory_mb=256, bandwidth_mbit=100, slots=1)
WANTED = (MachineRequest("master", SMALL), MachineRequest("m1", SMALL))
# These get their machines from tests.cloud, tests.emulab (both ways, below) and tests.existing.
RENTED = ("ec2", "emulab", "existing")
EMULAB = {"emulab portal": "portal", "emulab classic": "classic"}
CLOUD = pytest.param("ec2", marks=pytest.mark.integration)
LAB = pytest.param("existing", marks=pytest.mark.integration)
MARKS = {"local": [pytest.mark.integration]}


def _broken_local(folder: Path) -> AnyTestbed:
    (folder / "empty").mkdir()
    return LocalTestbed(root=folder / "empty")  # nothing to start in there


def _broken_fake(folder: Path) -> AnyTestbed:
    return FakeTestbed(fails_at="m1")


class Spoiled(ExistingTestbed):
    """On its second machine the claim cannot be written."""

    def __init__(self, there: Lab) -> None:
        super().__init__(there.options)
        self._there = there

    def acquire(self, lease: leases.Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        self._there.sh("m1", "rm -rf /var/lib/barograph-guard; touch /var/lib/barograph-guard")
        try:
            return super().acquire(lease, requests)
        finally:
            self._there.sh("m1", "rm -f /var/lib/barograph-guard")


# A testbed that fails while it acquires.
BROKEN: dict[str, Callable[[Path], AnyTestbed]] = {"local": _broken_local, "fake": _broken_fake}


@dataclass
class Site:
    """One testbed with a state folder of its own, and how to get one that fails while it acquires."""

    testbed: AnyTestbed
    broken: Callable[[Path], AnyTestbed]

    def take(self, ttl_s: float = 300.0) -> leases.Lease:
        testbed = self.testbed
        return leases.take("contract test", "series", testbed.name, ttl_s, site=testbed.site(), shared=testbed.shared)

    def connect(self, machine: Machine) -> Remote:
        assert isinstance(self.testbed, Connecting)
        return self.testbed.connect(machine)


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param(name, marks=MARKS.get(name, [])) for name in TESTBEDS if name not in RENTED),
        CLOUD,
        LAB,
        *EMULAB,
    ],
)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    # Podman wants short paths, and pytest's own are long.
    folder = Path(tempfile.mkdtemp(prefix="bt", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_STATE", str(folder))
        # Ranges of the tests' own, so that a run that is going on is not in the way.
        patch.setenv(lan.CONTROL[0], "10.215.0.0/24")
        patch.setenv(lan.EXPERIMENT[0], "10.216.0.0/24")
        with _site(request.param, folder) as made:
            yield made
            reap(now=time.time() + 1e6, testbeds={made.testbed.name: lambda: made.testbed})
    shutil.rmtree(folder)


@contextmanager
def _site(name: str, folder: Path) -> Iterator[Site]:
    if name == "ec2":
        with running(machines=True) as cloud, pytest.MonkeyPatch.context() as patch:
            for variable, value in cloud.environment().items():
                patch.setenv(variable, value)
            options = cloud.options(instance_types={SMALL.name: "c7a.medium"})
            yield Site(Ec2Testbed(options), lambda _folder: Ec2Testbed(options, pace=Pace(ready_s=0)))
        return
    if name == "existing":
        with lab(folder / "lab", (*WANTED, *(MachineRequest(name, SMALL) for name in ("m2", "m3")))) as there:
            yield Site(there.testbed(), lambda _folder: Spoiled(there))
        return
    if name not in EMULAB:
        yield Site(TESTBEDS[name](), BROKEN[name])
        return
    with world(EMULAB[name], folder) as there:
        yield Site(there.testbed(), lambda _folder: there.broken())


@pytest.fixture(scope="module")
def machines(site: Site) -> Iterator[tuple[Machine, ...]]:
    lease = site.take()
    yield site.testbed.acquire(lease, WANTED)
    site.testbed.release(lease)
    leases.drop(lease)


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
    (lease,) = leases.read_all()
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


@pytest.fixture
def alone(site: Site) -> Site:
    for lease in leases.read_all():
        site.testbed.release(lease)
        leases.drop(lease)
    return site


def test_release_ends_everything_and_may_be_repeated(alone: Site) -> None:
    lease = alone.take()
    machines = alone.testbed.acquire(lease, WANTED)
    alone.testbed.release(lease)
    alone.testbed.release(lease)
    leases.drop(lease)
    leases.drop(lease)
    assert alone.testbed.leftovers() == ()
    with pytest.raises((InfrastructureError, FileNotFoundError)):
        alone.connect(machines[0])


def _need(testbed: AnyTestbed, ability: type) -> None:
    """An ability that a testbed has not is none of its contract."""
    if not isinstance(testbed, ability):
        pytest.skip(f"no {ability.__name__}")


def _gone(site: Site, machine: Machine) -> bool:
    """Whether the machine does not answer; its keys may be gone too."""
    try:
        site.connect(machine).close()
    except (InfrastructureError, FileNotFoundError):
        return True
    return False


@pytest.fixture
def three(alone: Site) -> Iterator[tuple[leases.Lease, tuple[Machine, ...]]]:
    lease = alone.take()
    yield lease, alone.testbed.acquire(lease, (*WANTED, MachineRequest("m2", SMALL)))
    alone.testbed.release(lease)
    leases.drop(lease)


Three = tuple[leases.Lease, tuple[Machine, ...]]


def test_a_crashed_machine_is_silent_and_comes_back_with_its_disk(alone: Site, three: Three, tmp_path: Path) -> None:
    _, (master, m1, _) = three
    testbed = alone.testbed
    _need(testbed, Faulting)
    _need(testbed, Faulting)
    assert isinstance(testbed, Faulting)
    (tmp_path / "mark").write_text("kept")
    before = alone.connect(m1)
    before.put(tmp_path / "mark", "/root/mark")
    testbed.crash(m1)
    testbed.crash(m1)
    assert _gone(alone, m1)
    assert not _gone(alone, master)
    testbed.restart(m1)
    testbed.restart(m1)
    with alone.connect(m1) as after:
        assert after.run(["cat", "/root/mark"]).stdout == "kept"
        assert after.run(["hostname"]).stdout == "m1\n"
    with pytest.raises(InfrastructureError, match="m1"):
        before.run(["true"], timeout_s=5)
    before.close()


def test_a_restarted_machine_can_crash_again(alone: Site, three: Three) -> None:
    _, (_, m1, _) = three
    _need(alone.testbed, Faulting)
    assert isinstance(alone.testbed, Faulting)
    for _ in range(2):
        alone.testbed.crash(m1)
        assert _gone(alone, m1)
        alone.testbed.restart(m1)
        assert not _gone(alone, m1)


def test_machines_given_back_are_gone_and_the_rest_stays(alone: Site, three: Three) -> None:
    lease, (master, m1, m2) = three
    testbed = alone.testbed
    _need(testbed, GivingBack)
    assert isinstance(testbed, GivingBack)
    assert leases.held(lease) == ("master", "m1", "m2")
    testbed.give_back(lease, [m1])
    testbed.give_back(lease, [m1])
    assert leases.held(lease) == ("master", "m2")
    assert [_gone(alone, machine) for machine in (master, m1, m2)] == [False, True, False]
    assert testbed.leftovers() == ()
    for broken in (testbed.crash, testbed.restart) if isinstance(testbed, Faulting) else ():
        with pytest.raises(InfrastructureError, match=r"no .*machine m1 \(given back or released\)"):
            broken(m1)
    testbed.release(lease)
    assert [_gone(alone, machine) for machine in (master, m2)] == [True, True]
    assert leases.held(lease) == ()


def test_a_machine_that_crashed_can_be_given_back_and_released(alone: Site, three: Three) -> None:
    lease, (_, m1, m2) = three
    _need(alone.testbed, Faulting)
    assert isinstance(alone.testbed, Faulting)
    assert isinstance(alone.testbed, GivingBack)
    alone.testbed.crash(m1)
    alone.testbed.crash(m2)
    alone.testbed.give_back(lease, [m1])
    assert leases.held(lease) == ("master", "m2")
    alone.testbed.release(lease)
    alone.testbed.give_back(lease, [m2])
    assert alone.testbed.leftovers() == ()


def test_release_of_a_lease_that_holds_nothing(alone: Site) -> None:
    lease = alone.take()
    alone.testbed.release(lease)
    leases.drop(lease)
    assert alone.testbed.leftovers() == ()


def test_acquire_without_a_lease_on_record(alone: Site) -> None:
    lease = alone.take()
    leases.drop(lease)
    with pytest.raises(InfrastructureError, match="not on record"):
        alone.testbed.acquire(lease, WANTED)
    assert alone.testbed.leftovers() == ()


def test_acquire_is_all_or_nothing(alone: Site, tmp_path: Path) -> None:
    lease = alone.take()
    broken = alone.broken(tmp_path)
    with pytest.raises(InventoryError) as failure:
        broken.acquire(lease, WANTED)
    leases.drop(lease)
    assert failure.value.blame == "infrastructure"
    assert broken.leftovers() == ()


def test_what_lost_its_lease_is_a_leftover_and_swept(alone: Site) -> None:
    lease = alone.take()
    alone.testbed.acquire(lease, WANTED)
    leases.drop(lease)
    assert isinstance(alone.testbed, Sweeping)
    assert alone.testbed.leftovers() == (f"machines of {lease.lease_id}",)
    assert alone.testbed.sweep() == (f"machines of {lease.lease_id}",)
    assert alone.testbed.leftovers() == ()


def test_the_reaper_ends_an_expired_lease(alone: Site) -> None:
    lease = alone.take(ttl_s=100)
    alone.testbed.acquire(lease, WANTED)
    known = {alone.testbed.name: lambda: alone.testbed}
    later = time.time() + 101
    assert [one.why for one in reap(later, dry_run=True, testbeds=known)] == ["expired"]
    assert leases.read(lease.lease_id) == lease
    assert [one.error for one in reap(later, testbeds=known)] == [None]
    assert leases.read(lease.lease_id) is None
    assert alone.testbed.leftovers() == ()


def test_check_refuses_what_makes_no_sense(site: Site) -> None:
    for wrong in ((), (WANTED[0], WANTED[0])):
        with pytest.raises(ConfigurationError, match="machine"):
            site.testbed.check(wrong)


def test_check_says_what_is_too_much(site: Site) -> None:
    if site.testbed.whole_machines:
        pytest.skip("it gives machines as they are")
    giant = MachineRequest("m1", replace(SMALL, cores=1000.0))
    with pytest.raises(CapacityError, match=r"1 machines need 1000 cores, this \w+ has \d+"):
        site.testbed.check([giant])
    hog = MachineRequest("m1", replace(SMALL, memory_mb=10**8))
    with pytest.raises(CapacityError, match=r"1 machines need .* of memory"):
        site.testbed.check([hog])
    with pytest.raises(CapacityError):
        site.testbed.acquire(alone_lease := _unrecorded(site), [giant])
    assert leases.read(alone_lease.lease_id) is None and site.testbed.leftovers() == ()


def _unrecorded(site: Site) -> leases.Lease:
    return leases.Lease("00000000", "nobody", "series", site.testbed.name, 0.0, 1.0, 1, "")


# Abilities of rented machines: a testbed that has not the ability has nothing to keep.


def _needs(testbed: AnyTestbed, ability: type) -> None:
    if not isinstance(testbed, ability):
        pytest.skip(f"{testbed.name} has not the ability {ability.__name__}")


def test_machines_are_added_to_a_lease_and_given_back(alone: Site, three: Three) -> None:
    lease, (_, m1, _) = three
    testbed = alone.testbed
    _needs(testbed, Growing)
    assert isinstance(testbed, Growing)
    assert isinstance(testbed, GivingBack)
    (m3,) = testbed.grow(lease, [MachineRequest("m3", SMALL)])
    assert m3.name == "m3" and (m3.boot_s is None or m3.boot_s >= 0)
    assert leases.held(lease) == ("master", "m1", "m2", "m3")
    with alone.connect(m3) as remote:
        assert remote.run(["hostname"]).stdout.strip() == "m3"
    with pytest.raises(ConfigurationError, match="has m3 already"):
        testbed.grow(lease, [MachineRequest("m3", SMALL)])
    testbed.give_back(lease, [m3])
    assert leases.held(lease) == ("master", "m1", "m2")
    assert [_gone(alone, machine) for machine in (m3, m1)] == [True, False]


def test_added_machines_go_with_the_lease(alone: Site, three: Three) -> None:
    lease, _ = three
    _needs(alone.testbed, Growing)
    assert isinstance(alone.testbed, Growing)
    (m3,) = alone.testbed.grow(lease, [MachineRequest("m3", SMALL)])
    alone.testbed.release(lease)
    assert _gone(alone, m3) and leases.held(lease) == () and alone.testbed.leftovers() == ()


def test_a_longer_lease_may_be_told_again_and_about_machines_that_are_gone(alone: Site, three: Three) -> None:
    lease, machines = three
    testbed = alone.testbed
    _needs(testbed, Prolonging)
    assert isinstance(testbed, Prolonging)
    longer = leases.renew(lease, 5000)
    testbed.prolong(longer, machines)
    testbed.prolong(longer, machines)
    assert [_gone(alone, machine) for machine in machines] == [False] * 3


def test_twice_the_hours_cost_twice_as_much(site: Site) -> None:
    testbed = site.testbed
    _needs(testbed, Pricing)
    assert isinstance(testbed, Pricing)
    requests = [MachineRequest("master", named("master")), MachineRequest("m1", named("type_1"))]
    one, two = testbed.estimate(requests, 1.0), testbed.estimate(requests, 2.0)
    assert one.total_usd > 0 and two.total_usd == pytest.approx(2 * one.total_usd)
    assert testbed.estimate(requests[:1], 1.0).total_usd < one.total_usd
    assert testbed.budget_usd() > 0 and all(one.lines) and len(one.prices_of) == len("2026-11-21")


def test_nothing_is_recalled_that_nobody_takes_away(alone: Site, three: Three) -> None:
    lease, _ = three
    _needs(alone.testbed, Recalling)
    assert isinstance(alone.testbed, Recalling)
    assert alone.testbed.recalled(lease) == ()
