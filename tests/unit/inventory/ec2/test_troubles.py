"""What EC2 does to those who rent from it, and what comes of it; whatever fails, nothing stays."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from barograph.errors import BarographError, CapacityError, ConfigurationError, InfrastructureError
from inventory.ec2 import aws, instances, survey
from inventory.ec2.options import Ec2Timing
from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from inventory.machines import Machine
from tests.support.cloud.trouble import Refusal, Trouble
from tests.unit.inventory.ec2.conftest import M1, M2, M3, MASTER, PACE, Site

HASTY = Ec2Timing(poll_s=0.05, relist_s=0.1, lag_s=0.5, ready_s=0.5, gone_s=30.0, recalled_s=0.0)


def test_a_zone_without_capacity_is_left_with_nothing_in_it_for_the_next(site: Site) -> None:
    # One of the two is there when the other is refused.
    full = Refusal("RunInstances", "InsufficientInstanceCapacity", zone="us-east-1a", after=1)
    site.cloud.expect(Trouble(refusals=(full,)))
    testbed = site.testbed()
    machines = testbed.acquire(site.take(testbed), [MASTER, M1])
    assert site.zones() == {"us-east-1b"} and len(site.cloud.left().instances) == 2
    assert all(machine.known_hosts.read_text().count(f"{machine.name},") == 1 for machine in machines)


def test_no_capacity_anywhere_is_said_with_every_zone(site: Site) -> None:
    site.cloud.expect(Trouble(refusals=(Refusal("RunInstances", "InsufficientInstanceCapacity"),)))
    testbed = site.testbed()
    lease = site.take(testbed)
    with pytest.raises(CapacityError, match=r"no zone has 2 machines now: us-east-1a: .*us-east-1b: .*us-east-1c: "):
        testbed.acquire(lease, [MASTER, M1])
    assert not site.cloud.left() and registry.lease_machines(lease) == ()


def test_growing_stays_in_its_zone_and_costs_nothing_where_that_is_full(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    machines = testbed.acquire(lease, [MASTER, M1])
    site.cloud.expect(Trouble(refusals=(Refusal("RunInstances", "InsufficientInstanceCapacity"),)))
    with pytest.raises(CapacityError, match="starting m2"):
        testbed.grow(lease, [M2])
    assert registry.lease_machines(lease) == ("master", "m1") and len(site.cloud.left().instances) == 2
    known = machines[0].known_hosts.read_text()
    assert "m1," in known and "m2," not in known


@pytest.mark.parametrize(
    ("code", "error", "advice"),
    [
        ("VcpuLimitExceeded", CapacityError, "larger quota"),
        ("MaxSpotInstanceCountExceeded", CapacityError, "larger quota"),
        ("UnauthorizedOperation", ConfigurationError, "permissions"),
        ("ExpiredToken", ConfigurationError, "have expired"),
        ("InvalidParameterValue", ConfigurationError, "testbed.options.ec2"),
        ("SomethingNew", InfrastructureError, "start again"),
    ],
)
def test_whose_failure_a_refused_launch_is(site: Site, code: str, error: type[BarographError], advice: str) -> None:
    site.cloud.expect(Trouble(refusals=(Refusal("RunInstances", code),)))
    testbed = site.testbed()
    lease = site.take(testbed)
    with pytest.raises(error, match=rf"starting \w+ .*failed: {code}: .*{advice}"):
        testbed.acquire(lease, [MASTER, M1])
    assert not site.cloud.left()


JUST_MADE = (
    ("AuthorizeSecurityGroupIngress", "InvalidGroup.NotFound"), ("RunInstances", "InvalidKeyPair.NotFound"),
    ("CreateTags", "InvalidVolume.NotFound"),
)  # fmt: skip


def test_what_was_just_made_is_waited_for_and_is_nobodys_wrong_option(site: Site) -> None:
    """EC2 is eventually consistent."""
    site.cloud.expect(Trouble(refusals=tuple(Refusal(action, code, times=2) for action, code in JUST_MADE)))
    testbed = site.testbed()
    lease = site.take(testbed)
    machines = testbed.acquire(lease, [MASTER, M1])
    assert len(site.cloud.left().instances) == 2
    instances.retag(testbed._client_of(lease), replace(lease, expires_s=lease.expires_s + 60), PACE)
    assert [machine.name for machine in machines] == ["master", "m1"]
    site.cloud.expect(Trouble(refusals=(Refusal("RunInstances", "InvalidKeyPair.NotFound"),)))
    with pytest.raises(InfrastructureError, match=r"starting m2 .*InvalidKeyPair\.NotFound.*; start again"):
        site.testbed(timing=HASTY).grow(lease, [M2])


def test_what_could_neither_start_nor_end_refuses_no_later_machine_of_its_name(site: Site) -> None:
    """Else every later run of the series would fail, and the user's file would be blamed."""
    testbed = site.testbed()
    lease = site.take(testbed)
    testbed.acquire(lease, [MASTER, M1])
    full = Refusal("RunInstances", "InsufficientInstanceCapacity", after=1)
    site.cloud.expect(Trouble(refusals=(full, Refusal("TerminateInstances", "UnauthorizedOperation", status=403))))
    with pytest.raises(CapacityError):
        testbed.grow(lease, [M2, M3])
    assert registry.lease_machines(lease) == ("master", "m1", "m2 (remains)", "m3 (remains)")
    assert len(site.cloud.left().instances) == 3
    site.cloud.expect(Trouble())
    assert [machine.name for machine in testbed.grow(lease, [M2, M3])] == ["m2", "m3"]
    assert registry.lease_machines(lease) == ("master", "m1", "m2", "m3") and len(site.cloud.left().instances) == 4


def test_this_box_is_let_in_from_the_address_that_it_has_now(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider gives it another one in the night."""
    networks = ["192.0.2.7/32"]
    monkeypatch.setattr(survey, "public_network", lambda: networks[-1])
    testbed = Ec2Testbed(site.cloud.options(addresses="public"), lambda _: None, PACE)
    lease = site.take(testbed)
    testbed.acquire(lease, [MASTER])
    for address in ("192.0.2.7/32", "198.51.100.9/32", "198.51.100.9/32"):
        networks.append(address)
        testbed.prolong(lease, [])
    (group,) = instances.security_groups(testbed._client_of(lease), lease.lease_id)
    admitted = [(each["CidrIp"], port["FromPort"]) for port in group["IpPermissions"] for each in port["IpRanges"]]
    assert sorted(admitted) == [(network, port) for network in sorted(set(networks)) for port in (22, 8700)]


def test_throttling_costs_time_and_nothing_else(site: Site) -> None:
    slow = tuple(
        Refusal(action, "RequestLimitExceeded", status=503, times=2) for action in ("RunInstances", "ImportKeyPair")
    )
    site.cloud.expect(Trouble(refusals=slow))
    begun = time.time()
    testbed = site.testbed()
    testbed.acquire(site.take(testbed), [MASTER, M1])
    assert len(site.cloud.left().instances) == 2
    assert site.cloud.errors(since=begun) == {"RequestLimitExceeded": 4}


def test_an_answer_that_was_lost_starts_no_second_instance(site: Site) -> None:
    """The client repeats the call with the same token (the cloud answers it as EC2 does)."""
    testbed = site.testbed()
    client = testbed._client(aws.possible_regions(None)[0])
    lost: list[int] = []

    def lose(response: object = None, **_: object) -> float | None:
        if not lost:
            lost.append(1)
            return 0.0
        return None

    client.meta.events.register_first("needs-retry.ec2.RunInstances", lose)
    testbed.acquire(site.take(testbed), [M1])
    assert lost and len(site.cloud.left().instances) == 1


def test_instances_that_ec2_does_not_list_yet_are_waited_for(site: Site) -> None:
    site.cloud.expect(Trouble(hidden_s=1.0, pending_s=0.5))
    testbed = site.testbed()
    (m1,) = testbed.acquire(site.take(testbed), [M1])
    assert m1.boot_s is not None and m1.boot_s >= 1.5


def test_what_is_never_listed_is_an_error_and_is_ended_all_the_same(site: Site) -> None:
    site.cloud.expect(Trouble(hidden_s=3.0))
    testbed = site.testbed(timing=HASTY)
    lease = site.take(testbed)
    with pytest.raises(InfrastructureError, match=r"m1 \(i-\w+\) was started \d+ s ago and EC2 does not list it"):
        testbed.acquire(lease, [M1])
    assert not site.cloud.left()


def test_an_instance_that_is_born_dead_is_named_with_its_reason(site: Site) -> None:
    site.cloud.expect(Trouble(pending_s=60.0, stillborn=("m1",)))  # until the cloud has surely ended it
    testbed = site.testbed()
    lease = site.take(testbed)
    with pytest.raises(BarographError, match=r"m1 \(i-\w+\) .*console ends with"):
        testbed.acquire(lease, [MASTER, M1])
    assert not site.cloud.left()


def silent(name: str, why: str) -> Callable[[Machine], str | None]:
    return lambda machine: why if machine.name == name else None


def test_a_machine_that_never_answers_is_named_with_what_it_said_last(site: Site) -> None:
    testbed = site.testbed(
        readiness_check=silent("m1", "m1 (root@10.0.0.1:22) does not answer: timed out"), timing=HASTY
    )
    lease = site.take(testbed)
    expected = (
        r"m1 \(i-\w+\) does not answer ssh after \d+ s: .*timed out; its console ends with: .*; see that .*ingress_from"
    )
    with pytest.raises(InfrastructureError, match=expected):
        testbed.acquire(lease, [MASTER, M1])
    assert not site.cloud.left()


def test_a_machine_that_joins_and_never_answers_leaves_the_others(site: Site) -> None:
    testbed = site.testbed(readiness_check=silent("m2", "Authentication failed"), timing=HASTY)
    lease = site.take(testbed)
    testbed.acquire(lease, [MASTER, M1])
    with pytest.raises(InfrastructureError, match=r"m2 .*Authentication failed"):
        testbed.grow(lease, [M2])
    assert registry.lease_machines(lease) == ("master", "m1") and len(site.cloud.left().instances) == 2


def test_machines_that_aws_takes_away_are_recalled(site: Site) -> None:
    testbed = site.testbed(market="spot")
    lease = site.take(testbed)
    testbed.acquire(lease, [MASTER, M1])
    assert testbed.recalled(lease) == ()
    site.cloud.announce("m1")
    assert testbed.recalled(lease) == ("m1",)
    site.cloud.client.terminate_instances(InstanceIds=[site.cloud.instance("master")])
    assert testbed.recalled(lease) == ("master", "m1")


def test_whether_machines_are_recalled_is_asked_now_and_then(site: Site) -> None:
    testbed = site.testbed(timing=Ec2Timing(poll_s=0.05, recalled_s=60.0))
    lease = site.take(testbed)
    testbed.acquire(lease, [M1])
    begun = time.time()
    assert [testbed.recalled(lease) for _ in range(5)] == [()] * 5
    assert site.cloud.calls(since=begun) == {"DescribeInstances": 1}


def test_that_ec2_does_not_say_whether_machines_are_recalled_ends_no_run(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    testbed.acquire(lease, [M1])
    site.cloud.expect(Trouble(refusals=(Refusal("DescribeInstances", "ExpiredToken"),)))
    assert testbed.recalled(lease) == ()
