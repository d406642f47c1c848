"""Both ways to Emulab under the same expectations, over the same fake nodes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.emulab import testbed as experiments
from inventory.emulab.testbed import EmulabTestbed
from inventory.leases import registry
from inventory.machines import MACHINE_TYPES, MachineRequest
from inventory.remote.ssh import Result, connect
from inventory.testbed import SupportsGrow, SupportsProlong
from tests.conftest import AT_NIGHT
from tests.support.emulab.portal import Dropped as PortalDropped
from tests.support.emulab.ssh_server import Dropped as OpsDropped
from tests.support.emulab.world import IMPATIENT, World, world

TYPE = replace(MACHINE_TYPES["type_1"], name="small")
WANTED = [MachineRequest(name, TYPE) for name in ("master", "m1", "m2")]


@pytest.fixture(params=["portal", "classic"])
def there(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / "state"))
    with world(request.param, tmp_path) as made:
        yield made


def take(testbed: EmulabTestbed, ttl_s: float = 3600) -> registry.Lease:
    return registry.take("ann", "series", testbed.name, ttl_s, site=testbed.site(), shared=testbed.shared)


def test_machines_are_where_emulab_says_and_let_us_in(there: World) -> None:
    testbed = there.testbed()
    testbed.check(WANTED)
    lease = take(testbed)
    machines = testbed.acquire(lease, WANTED)
    assert [machine.name for machine in machines] == ["master", "m1", "m2"]
    assert len({machine.experiment_address for machine in machines}) == 3
    assert all(machine.experiment_address.startswith("10.") for machine in machines)
    assert all(machine.inside_address == machine.control_address for machine in machines)
    assert all(machine.boot_s is not None and machine.boot_s > 0 for machine in machines)
    for machine in machines:
        with connect(machine) as remote:
            assert remote.run(["hostname"]).stdout == f"{machine.name}\n"
    assert experiments.lease_of_experiment(there.experiments[0]) == lease.lease_id and len(there.experiments[0]) == 16


def test_another_process_releases_from_the_lease_alone(there: World) -> None:
    testbed = there.testbed()
    lease = take(testbed)
    machines = testbed.acquire(lease, WANTED)
    recorded = registry.read(lease.lease_id)
    assert recorded is not None
    for _ in range(2):
        there.reaper().release(recorded)
    assert there.empty
    assert not machines[0].known_hosts.exists()


def test_a_reaper_without_options_finds_what_lost_its_lease(there: World) -> None:
    testbed = there.testbed()
    lost, kept = take(testbed), take(testbed)
    testbed.acquire(lost, WANTED)
    testbed.acquire(kept, WANTED)
    registry.drop(lost)
    assert there.reaper().leftovers() == (f"machines of {lost.lease_id}",)
    assert there.reaper().sweep() == (f"machines of {lost.lease_id}",)
    assert [experiments.lease_of_experiment(name) for name in there.experiments] == [kept.lease_id]
    assert experiments.recorded_sites() == [dict(testbed.site())]
    testbed.release(kept)
    registry.drop(kept)
    assert there.reaper().sweep() == () and experiments.recorded_sites() == []


def test_a_place_that_refuses_does_not_keep_the_others(there: World) -> None:
    testbed = there.testbed()
    experiments.add_site({"access": "portal", "endpoint": "http://127.0.0.1:1", "project": "storm"})
    lost = take(testbed)
    testbed.acquire(lost, WANTED)
    registry.drop(lost)
    with pytest.raises(InfrastructureError, match=r"portal at http://127.0.0.1:1 does not answer"):
        there.reaper(replace(IMPATIENT, busy_s=0.1)).sweep()
    assert there.empty


def test_another_harness_is_left_alone(there: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    testbed = there.testbed()
    testbed.acquire(take(testbed), WANTED)
    sites = experiments.recorded_sites()
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / "another"))
    experiments.add_site(sites[0])
    assert there.reaper().sweep() == ()
    assert len(there.experiments) == 1


def test_a_reaper_that_was_never_there_asks_nobody(there: World) -> None:
    there.close()
    assert there.reaper().leftovers() == () and there.reaper().sweep() == ()


def test_too_many_machines_is_capacity_and_nothing_stays(there: World) -> None:
    testbed = there.testbed()
    many = [MachineRequest(name, TYPE) for name in ("master", *(f"m{n}" for n in range(1, 9)))]
    with pytest.raises(CapacityError, match=r"reservation violation: 9 nodes .* only 6 available"):
        testbed.acquire(take(testbed), many)
    assert there.empty


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (WANTED[:1], r"1 machine\(s\) asked for; ask for master and at least one worker"),
        ([WANTED[0], WANTED[0]], r"\['master'\] are asked for twice"),
        ([WANTED[0], MachineRequest("m-1", TYPE)], r"\['m-1'\] are not allowed; lower case letters and digits"),
        ([WANTED[0], MachineRequest("m" * 16, TYPE)], "at most 15"),
    ],
)
def test_names_that_make_no_host(there: World, wanted: list[MachineRequest], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        there.testbed().check(wanted)


def test_a_refused_key_and_a_missing_sudo_are_told_at_once(there: World) -> None:
    testbed = there.testbed()
    there.nodes.sudo = Result("", "sudo: a password is required\n", 1)
    with pytest.raises(ConfigurationError, match=r"master: user ann may not become root .*image of Emulab"):
        testbed.acquire(take(testbed), WANTED)
    there.nodes.refuse_logins()
    with pytest.raises(ConfigurationError, match=r"master refuses .*/id for ann; upload its public half"):
        testbed.acquire(take(testbed), WANTED)
    assert there.empty


def test_a_node_that_never_shows_a_host_key(there: World) -> None:
    there.ops.silent_keys = 10**6
    testbed = there.testbed(replace(IMPATIENT, ssh_s=0.2))
    with pytest.raises(InfrastructureError, match=r"master .* shows 127.0.0.1 no host key after 0.2 s"):
        testbed.acquire(take(testbed), WANTED)
    assert there.empty


def test_a_slow_node_is_waited_for(there: World) -> None:
    there.ops.silent_keys = 3
    testbed = there.testbed()
    assert len(testbed.acquire(take(testbed), WANTED)) == 3


def test_known_hosts_of_the_users_own(there: World, tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("127.0.0.99 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ6xq9DpGYwqQKz3xqzGj0Y2k2qk2m1b\n")
    testbed = there.testbed(known_hosts=str(tmp_path / "nodes"))
    with pytest.raises(ConfigurationError, match=r"nodes has no key of \[127.0.0.11\]:\d+, .*add them"):
        testbed.acquire(take(testbed), WANTED)
    assert there.empty


def test_what_cannot_be_done_is_no_ability(there: World) -> None:
    testbed = there.testbed()
    classic = testbed.site()["access"] == "classic"
    assert isinstance(testbed, SupportsProlong)
    assert isinstance(testbed, SupportsGrow) == classic


def test_without_options_nothing_can_be_acquired(there: World) -> None:
    with pytest.raises(ConfigurationError, match=r"testbed\.options\.emulab is missing"):
        there.reaper().check(WANTED)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_line_that_dies_at_the_nth_request_leaves_nothing(there: World, when: str) -> None:
    """For every n, by day every fourth, until acquire and release pass without the n-th request being reached."""
    died, step = 0, 1 if AT_NIGHT else 4
    for n in range(1, 200, step):
        testbed = there.testbed()
        lease = take(testbed)
        begun, reached = _requests(there), _die_at(there, n, when)
        try:
            testbed.acquire(lease, WANTED[:2])
            testbed.release(lease)
        except InfrastructureError:
            pass
        died += len(reached)
        whole = max(now - then for now, then in zip(_requests(there), begun, strict=True)) < n
        _die_at(there, -1, when)
        testbed.release(lease)
        assert there.empty, f"request {n}"
        registry.drop(lease)
        assert there.reaper().leftovers() == ()
        if whole:
            break
    assert whole and died * step > 8


def _requests(there: World) -> tuple[int, int]:
    return len(there.portal.seen), there.ops.count


def _die_at(there: World, n: int, when: str) -> list[int]:
    """The line dies once, at the n-th request from now; the list gets an entry when it does."""
    portal_n, ops_n, reached = len(there.portal.seen) + n, there.ops.count + n, []

    def portal(count: int, *_: object) -> None:
        if count == portal_n and n > 0:
            reached.append(count)
            raise PortalDropped

    def ops(count: int, *_: object) -> None:
        if count == ops_n and n > 0:
            reached.append(count)
            raise OpsDropped

    quiet = lambda *_: None  # noqa: E731
    there.portal.hook, there.portal.after = (portal, quiet) if when == "before" else (quiet, portal)
    there.ops.hook, there.ops.after = (ops, quiet) if when == "before" else (quiet, ops)
    return reached
