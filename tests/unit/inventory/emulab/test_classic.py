"""The ops host's side: the NS file, what commands print, growing and giving back, ends."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.emulab import classic
from inventory.emulab.classic import GUARD_SCRIPT
from inventory.emulab.testbed import ClassicEmulabTestbed
from inventory.leases import registry
from inventory.machines import MACHINE_TYPES, MachineRequest
from tests.support.emulab import ns
from tests.support.emulab.world import IMPATIENT, World, world

WANTED = [MachineRequest(name, MACHINE_TYPES["type_1"]) for name in ("master", "m1", "m2")]
MORE = [MachineRequest("m3", MACHINE_TYPES["type_1"])]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / "state"))
    with world("classic", tmp_path) as made:
        yield made


def take(there: World, ttl_s: float = 3600) -> registry.Lease:
    return registry.take("ann", "series", "emulab", ttl_s, site=there.testbed().site(), shared=True)


def grown(there: World) -> ClassicEmulabTestbed:
    testbed = there.testbed()
    assert isinstance(testbed, ClassicEmulabTestbed)
    return testbed


def test_the_ns_file_is_what_the_parser_reads() -> None:
    slow = replace(MACHINE_TYPES["type_2"], bandwidth_mbit=10)
    seats = classic.assign_ns_nodes([*WANTED, MachineRequest("m3", slow)], {})
    parsed = ns.parse(classic.ns_file_text(seats, "UBUNTU22-64-STD"))
    assert parsed.hardware == {"master": "pc3000", "m1": "pc3000", "m2": "pc3000", "m3": "d710"}
    assert (parsed.members, parsed.lan_mbit, parsed.slower) == (("master", "m1", "m2", "m3"), 100, {"m3": 10})
    assert list(parsed.address.values()) == ["10.1.1.2", "10.1.1.3", "10.1.1.4", "10.1.1.5"]


def test_addresses_are_kept_and_reused() -> None:
    seats = classic.assign_ns_nodes(WANTED, {})
    stay = [seats[0], seats[2]]
    assert [seat.address for seat in classic.assign_ns_nodes(MORE, {}, stay)] == ["10.1.1.3"]
    with pytest.raises(ConfigurationError, match="at most 253"):
        classic.assign_ns_nodes([MachineRequest(f"m{n}", MACHINE_TYPES["type_1"]) for n in range(254)], {})


def test_a_type_without_hardware_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"'huge' has no hardware type; known are .*emulab\.hardware\.huge"):
        classic.hardware_of(replace(MACHINE_TYPES["type_1"], name="huge"), {})


OLD_REPORT = """Experiment: tbres/kk
State: active

Virtual Node Info:
ID              Type         OS              Qualified Name
--------------- ------------ --------------- --------------------
nodeA           pc                           nodeA.kk.tbres.emulab.net
   Startup Command:  /bin/x.y
nodeB           pc600        RHL73-STD       nodeB.kk.tbres.emulab.net

Physical Node Mapping:
ID              Type         OS              Physical
--------------- ------------ --------------- ------------
nodeA           pc850        FBSD47-STD      pc61
nodeB           pcvm         RHL73-STD       pcvm31-1 (pc31)

Lan/Link Info:
ID              Member          IP              Delay     BW (Kbs)  Loss Rate
--------------- --------------- --------------- --------- --------- ---------
lan0            nodeA:0         10.1.2.3        0.00      100000    0.000
                                255.255.255.0   0.00      100000    0.000
lan0            nodeB:1         10.1.2.4        0.00      100000    0.000
"""


def test_a_report_as_emulab_prints_it() -> None:
    assert (
        classic.experiment_state(OLD_REPORT) == "active"
        and classic.experiment_state("No information available.\n") == ""
    )
    names = {"nodeA": "nodeA.kk.tbres.emulab.net", "nodeB": "nodeB.kk.tbres.emulab.net"}
    assert classic.qualified_names(OLD_REPORT) == names
    assert classic.lan_addresses(OLD_REPORT) == {"nodeA": "10.1.2.3", "nodeB": "10.1.2.4"}


def test_growing_beyond_what_is_free_leaves_all_as_it_was(there: World) -> None:
    testbed, lease = grown(there), take(there)
    testbed.acquire(lease, WANTED)
    with pytest.raises(CapacityError, match=r"4 nodes of type pc3000 requested, but only 3 available"):
        testbed.grow(lease, [MachineRequest(f"n{n}", MACHINE_TYPES["type_1"]) for n in range(4)])
    assert registry.lease_machines(lease) == ("master", "m1", "m2") and there.nodes.used() == 3
    assert len(testbed.grow(lease, MORE)) == 1


def test_a_new_machine_that_stays_silent_is_taken_back(there: World) -> None:
    testbed, lease = grown(there), take(there)
    testbed.acquire(lease, WANTED)
    there.ops.silent_keys = 10**6
    hurried = there.testbed(replace(IMPATIENT, ssh_s=0.1))
    assert isinstance(hurried, ClassicEmulabTestbed)
    with pytest.raises(InfrastructureError, match=r"m3 .*no host key"):
        hurried.grow(lease, MORE)
    assert registry.lease_machines(lease) == ("master", "m1", "m2") and there.nodes.used() == 3


def test_a_clean_up_that_fails_does_not_hide_why_machines_did_not_come(
    there: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    testbed, lease = grown(there), take(there)
    testbed.acquire(lease, WANTED)
    answers = [InfrastructureError("no room on the rack"), InfrastructureError("experiment is in transition")]

    def modify(*_: object) -> None:
        raise answers.pop(0)

    monkeypatch.setattr(classic.Classic, "modify", modify)
    with pytest.raises(InfrastructureError, match="no room on the rack"):
        testbed.grow(lease, MORE)
    assert registry.lease_machines(lease) == ("master", "m1", "m2") and answers == []


def test_check_asks_the_ops_host(there: World) -> None:
    there.testbed().check(WANTED)
    with pytest.raises(ConfigurationError, match=r"hardware type 'pc9' is refused \(Invalid node type pc9\)"):
        there.testbed(hardware={"type_1": "pc9"}).check(WANTED)
    with pytest.raises(ConfigurationError, match=r"project is 'strom': ann sees no /proj/strom"):
        there.testbed(project="strom").check(WANTED)
    there.nodes.free["pc3000"] = 2
    with pytest.raises(CapacityError, match="3 pc3000 are needed, 2 are free"):
        there.testbed().check(WANTED)
    assert there.empty


def test_an_ops_host_that_is_not_the_one_we_know(there: World, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with pytest.raises(ConfigurationError, match=r"is not in .*/empty; log in once with `ssh -p \d+ -l ann 127.0.0.1`"):
        there.testbed(ops_known_hosts=str(tmp_path / "empty")).check(WANTED)
    there.ops.server.logins.clear()
    with pytest.raises(ConfigurationError, match=r"ops host ann@127.0.0.1:\d+ refuses .*/id .*upload its public half"):
        there.testbed().check(WANTED)
    there.ops.close()
    with pytest.raises(InfrastructureError, match=r"ops host .* does not answer"):
        there.testbed().check(WANTED)


def test_an_unknown_image_is_the_users_to_mend(there: World) -> None:
    with pytest.raises(ConfigurationError, match=r"was not started: refused; it said: .*invalid OS UBUNTU99"):
        there.testbed(image="UBUNTU99").acquire(take(there), WANTED)
    assert there.empty


def test_what_takes_too_long_is_ended(there: World) -> None:
    there.ops.slow_s = 10**6
    with pytest.raises(InfrastructureError, match=r"was not started within .*ready_minutes"):
        there.testbed(ready_minutes=0.02).acquire(take(there), WANTED)
    assert there.empty


def test_an_experiment_in_transition_is_ended_after_it(there: World) -> None:
    testbed, lease = there.testbed(), take(there)
    testbed.acquire(lease, WANTED)
    there.ops.busy = 4
    testbed.release(lease)
    assert there.empty
    again = take(there)
    testbed.acquire(again, WANTED)
    there.ops.busy = 10**6
    with pytest.raises(InfrastructureError, match=r"still there 0.1 s .*in transition.*barograph reap"):
        there.testbed(replace(IMPATIENT, end_s=0.1)).release(again)


def test_it_ends_itself_whatever_became_of_the_harness(there: World) -> None:
    testbed, lease = there.testbed(), take(there)
    machines = testbed.acquire(lease, WANTED)
    (name,) = there.ops.experiments
    there.ops.tick(lease.expires_s - 1)
    assert there.experiments == [name]
    later = registry.renew(lease, 7200)
    there.reaper().prolong(later, machines)
    assert len(there.ops.guards) == 1 and 0 <= there.ops.ends_at(name) - later.expires_s < 1
    there.ops.tick(lease.expires_s + 1)
    assert there.experiments == [name]
    there.ops.tick(later.expires_s + 1)
    assert there.experiments == []
    testbed.release(lease)
    assert there.empty


def test_a_guard_that_died_with_the_ops_host_is_started_again(there: World) -> None:
    testbed, lease = there.testbed(), take(there)
    machines = testbed.acquire(lease, WANTED)
    there.ops.guards.clear()
    testbed.prolong(registry.renew(lease, 7200), machines)
    assert len(there.ops.guards) == 1


def test_emulab_swaps_it_out_at_the_longest(there: World) -> None:
    testbed, lease = there.testbed(longest_hours=3), take(there)
    machines = testbed.acquire(lease, WANTED)
    assert next(iter(there.ops.experiments.values())).swap_minutes == 180
    with pytest.raises(ConfigurationError, match=r"longest_hours is 3, the lease lasts 4\.0 h"):
        testbed.prolong(registry.renew(lease, 4 * 3600), machines)
    with pytest.raises(ConfigurationError, match=r"longest_hours is 3, the lease lasts 9\.0 h"):
        testbed.acquire(take(there, 9 * 3600), WANTED)
    assert there.nodes.used() == 3


def test_a_lost_record_is_told(there: World) -> None:
    with pytest.raises(InfrastructureError, match=r"bg00.json: what bg00 has is not known .*release it"):
        classic.read_record("bg00")


def _guarded(folder: Path, endexp: str) -> str:
    """Run the script that runs on the ops host until it ends by itself; returns what `endexp` was told."""
    (folder / "endexp").write_text(f'#!/bin/sh\necho "$@" >> {folder}/said\n{endexp}\n')
    (folder / "endexp").chmod(0o755)
    argv = ["sh", str(GUARD_SCRIPT), str(folder / "x.end"), "storm", "bg01", str(folder), "0.1"]
    assert subprocess.run(argv, timeout=120, check=False).returncode == 0
    return (folder / "said").read_text() if (folder / "said").exists() else ""


def test_the_guard_waits_for_its_time_and_asks_until_it_is_done(tmp_path: Path) -> None:
    ends = int(time.time()) + 2
    (tmp_path / "x.end").write_text(f"{ends}\n")
    said = _guarded(tmp_path, f"[ $(date +%s) -ge {ends} ] || exit 9; [ $(wc -l < {tmp_path}/said) -ge 2 ]")
    assert said == "-w -N -e storm,bg01\n" * 2 and not (tmp_path / "x.end").exists()


def test_the_guard_stops_where_somebody_else_ended_it(tmp_path: Path) -> None:
    (tmp_path / "x.end").write_text("1\n")
    assert _guarded(tmp_path, "echo There is no experiment bg01 in project storm >&2; exit 2").count("\n") == 1


def test_the_guard_of_a_released_lease_goes_away(tmp_path: Path) -> None:
    assert _guarded(tmp_path, "exit 0") == ""
