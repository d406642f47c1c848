"""What the testbed asks of EC2 when all goes well, and what is there afterwards."""

import base64
import time
from pathlib import Path

import pytest

from barograph.errors import ConfigurationError, InfrastructureError
from inventory.ec2 import instances
from inventory.leases import registry
from inventory.leases.registry import harness_id
from tests.support.cloud.trouble import Trouble
from tests.unit.inventory.ec2.conftest import M1, M2, M3, MASTER, Site


def test_machines_are_instances_that_carry_their_tags_and_their_end_from_birth(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    machines = testbed.acquire(lease, [MASTER, M1])
    assert [machine.name for machine in machines] == ["master", "m1"] == list(registry.lease_machines(lease))
    ec2, master = site.cloud.client, machines[0]
    by_address = {one["PrivateIpAddress"]: one for one in site.listed()}
    assert set(by_address) == {machine.control_address for machine in machines}
    first = by_address[master.control_address]
    expected = {
        instances.LEASE_TAG: lease.lease_id,
        instances.OWNER_TAG: "somebody@box",
        instances.SERIES_TAG: "series-1",
        instances.HARNESS_TAG: harness_id(),
        instances.MACHINE_TAG: "master",
        instances.EXPIRES_TAG: f"{lease.expires_s:.0f}",
        instances.BUDGET_TAG: "10",
        "Name": f"barograph {lease.lease_id} master",
    }
    assert instances.tag_dict(first["Tags"]) == expected
    assert (first["InstanceType"], first["ImageId"]) == ("m7a.medium", "ami-0a03")
    assert first["MetadataOptions"]["HttpTokens"] == "required"
    assert first["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    (disk, _) = volumes = ec2.describe_volumes()["Volumes"]
    assert all(one["Encrypted"] and one["VolumeType"] == "gp3" and one["Size"] == 16 for one in volumes)
    assert instances.tag_dict(disk["Tags"])[instances.LEASE_TAG] == lease.lease_id
    behaviour = ec2.describe_instance_attribute(
        InstanceId=first["InstanceId"], Attribute="instanceInitiatedShutdownBehavior"
    )
    assert behaviour["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"


def test_what_is_a_machine_is_what_the_instance_is(site: Site) -> None:
    testbed = site.testbed()
    master, m1 = testbed.acquire(site.take(testbed), [MASTER, M1])
    assert (m1.type.cores, m1.type.memory_mb, m1.type.bandwidth_mbit, m1.type.slots) == (1, 2048, 390, 4)
    assert (master.type.name, master.type.memory_mb) == ("master", 4096)
    assert m1.inside_address == m1.experiment_address == m1.control_address
    assert m1.boot_s is not None and 0 < m1.boot_s < 60


def test_public_machines_are_reached_from_outside_and_reach_each_other_inside(site: Site) -> None:
    testbed = site.testbed(addresses="public")
    (m1,) = testbed.acquire(site.take(testbed), [M1])
    assert m1.control_address != m1.inside_address == m1.experiment_address
    assert m1.inside_address.startswith("10.")  # the VPC's; what is outside is of EC2's own range
    assert m1.control_address in m1.known_hosts.read_text()


def test_the_key_stays_here_and_every_host_key_is_known_before_the_first_connection(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    machines = testbed.acquire(lease, [MASTER, M1])
    key = machines[0].ssh_key
    assert key.stat().st_mode & 0o777 == 0o600 and key.parent.stat().st_mode & 0o777 == 0o700
    known = machines[0].known_hosts.read_text()
    for machine in machines:
        public = (key.parent / "machines" / machine.name / "ssh_host_ed25519_key.pub").read_text().split()[1]
        assert f"{machine.name},{machine.control_address} ssh-ed25519 {public}\n" in known
    sent = _user_data(site, "m1")
    host_key = (key.parent / "machines" / "m1" / "ssh_host_ed25519_key").read_bytes()
    assert base64.b64encode(host_key) in sent.encode() and key.read_text() not in sent


def test_only_the_harness_gets_in(site: Site) -> None:
    testbed = site.testbed()
    testbed.acquire(site.take(testbed), [M1])
    (group,) = site.cloud.left().security_groups
    (described,) = site.cloud.client.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    rules = described["IpPermissions"]
    outside = {(rule["FromPort"], rule["ToPort"], rule["IpRanges"][0]["CidrIp"]) for rule in rules if rule["IpRanges"]}
    assert outside == {(22, 22, "192.0.2.7/32"), (8700, 8700, "192.0.2.7/32")}
    (inside,) = [rule for rule in rules if rule.get("UserIdGroupPairs")]
    assert [pair["GroupId"] for pair in inside["UserIdGroupPairs"]] == [group] and inside["IpProtocol"] == "-1"


def test_another_process_releases_with_the_leases_record_alone(site: Site) -> None:
    testbed = site.testbed(placement="cluster")
    lease = site.take(testbed)
    testbed.acquire(lease, [MASTER, M1])
    assert all((site.cloud.left().placement_groups, site.cloud.left().key_pairs, site.cloud.left().volumes))
    site.cloud.expect(Trouble(shutting_down_s=0.5))  # as long as it is not gone its groups are in use
    for _ in range(2):
        site.releasing().release(lease)
    assert not site.cloud.left()
    assert not registry.key_dir(lease.lease_id).exists() and registry.lease_machines(lease) == ()


def test_a_lease_without_a_site_is_released_wherever_this_harness_ever_was(site: Site) -> None:
    lease = registry.take("somebody", "series", "ec2", 60)
    site.testbed().acquire(lease, [M1])
    site.releasing().release(lease)
    assert not site.cloud.left()


def test_machines_join_and_leave_a_lease(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    testbed.acquire(lease, [MASTER, M1])
    (m2,) = testbed.grow(lease, [M2])
    assert registry.lease_machines(lease) == ("master", "m1", "m2") and m2.control_address in m2.known_hosts.read_text()
    with pytest.raises(ConfigurationError, match=rf"lease {lease.lease_id} has m2 already"):
        testbed.grow(lease, [M2])
    for _ in range(2):
        site.releasing().give_back(lease, [m2])
    assert registry.lease_machines(lease) == ("master", "m1")
    assert len(site.cloud.left().instances) == 2
    assert m2.control_address not in m2.known_hosts.read_text()
    (again,) = testbed.grow(lease, [M2])
    assert len(site.cloud.left().instances) == 3 and testbed.recalled(lease) == ()
    assert again.known_hosts.read_text().count("m2,") == 1


def test_what_joins_is_in_the_zone_of_the_others(site: Site) -> None:
    testbed = site.testbed(zones=["us-east-1b", "us-east-1a"])
    lease = site.take(testbed)
    testbed.acquire(lease, [M1])
    site.testbed().grow(lease, [M2])  # without the zones it would begin with us-east-1a
    assert site.zones() == {"us-east-1b"}


def test_a_lease_acquires_once_and_only_on_record(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    testbed.acquire(lease, [M1])
    with pytest.raises(ConfigurationError, match="holds machines already"):
        testbed.acquire(lease, [M1])
    gone = site.take(testbed)
    registry.drop(gone)
    with pytest.raises(InfrastructureError, match="not on record"):
        testbed.acquire(gone, [M1])
    assert len(site.cloud.left().instances) == 1


def test_spot_machines_have_a_request_that_ends_with_them(site: Site) -> None:
    testbed = site.testbed(market="spot", price_limit_usd=0.1)
    lease = site.take(testbed)
    testbed.acquire(lease, [M1])
    (request,) = site.cloud.client.describe_spot_instance_requests(
        SpotInstanceRequestIds=list(site.cloud.left().spot_requests)
    )["SpotInstanceRequests"]
    assert request["SpotPrice"] == "0.1" and instances.tag_dict(request["Tags"])[instances.LEASE_TAG] == lease.lease_id
    testbed.release(lease)
    assert not site.cloud.left()


def test_prolonging_tells_everything_the_new_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = site.testbed()
    lease = site.take(testbed, ttl_s=100)
    machines = testbed.acquire(lease, [MASTER, M1])
    told: list[tuple[str, float]] = []
    monkeypatch.setattr(testbed, "_tell_guard", lambda machine, end: told.append((machine.name, end)))
    later = registry.renew(lease, 5000)
    testbed.prolong(later, machines)
    assert sorted(told) == [("m1", later.expires_s), ("master", later.expires_s)]
    ec2 = site.cloud.client
    marked = [
        *[one["Tags"] for one in site.listed()],
        *[one["Tags"] for one in ec2.describe_volumes()["Volumes"]],
        *[one["Tags"] for one in ec2.describe_key_pairs()["KeyPairs"]],
        *[one["Tags"] for one in ec2.describe_security_groups(Filters=instances.ANY_LEASE)["SecurityGroups"]],
    ]  # fmt: skip
    assert [instances.expiry_of_tags(instances.tag_dict(each)) for each in marked] == [round(later.expires_s)] * 6


def test_ten_machines_take_a_known_number_of_calls(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    begun = time.time()
    testbed.acquire(lease, [MASTER, *(M1.__class__(f"m{n}", M1.type) for n in range(1, 10))])
    calls = site.cloud.calls(since=begun)
    assert calls.pop("DescribeInstances") >= 1  # as often as it takes
    assert calls == {
        "DescribeInstanceTypes": 1, "DescribeImages": 1, "DescribeSubnets": 1, "DescribeInstanceTypeOfferings": 1,
        "CreateSecurityGroup": 1, "AuthorizeSecurityGroupIngress": 1, "ImportKeyPair": 1, "RunInstances": 10,
    }  # fmt: skip


def _user_data(site: Site, machine: str) -> str:
    sent = site.cloud.client.describe_instance_attribute(InstanceId=site.cloud.instance(machine), Attribute="userData")
    return base64.b64decode(sent["UserData"]["Value"]).decode()


def test_the_state_folder_remembers_where_it_was(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    testbed.acquire(lease, [M3])
    registry.drop(lease)
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert site.releasing().leftovers() == (f"machines of {lease.lease_id}",)
    assert Path(site.state, "ec2-places.json").exists()
    assert site.releasing().sweep() == (f"machines of {lease.lease_id}",)
    assert not site.cloud.left() and site.releasing().leftovers() == ()
