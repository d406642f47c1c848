"""Everything that is said before anything is rented, and what is somebody's leftover."""

import time
from dataclasses import replace

import pytest

from barograph.errors import CapacityError, ConfigurationError
from inventory.ec2.instances import MARGIN_S, LeaseRemains
from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from inventory.machines import MachineRequest, machine_type
from tests.support.cloud.trouble import Refusal, Trouble
from tests.unit.inventory.ec2.conftest import M1, M2, MASTER, PACE, Site

MAKING = ("CreateSecurityGroup", "ImportKeyPair", "CreatePlacementGroup")


def test_a_check_rents_nothing(site: Site) -> None:
    site.testbed(placement="cluster").check([MASTER, M1])
    assert not site.cloud.left()


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"instance_types": {"type_1": "c7a.tiny"}}, ConfigurationError, r"no price for c7a\.tiny in us-east-1"),
        (
            {"instance_types": {"type_2": "m7a.medium"}},
            ConfigurationError,
            r"type_2 is m7a\.medium \(1 cores, 4096 MB\) and",
        ),
        ({"image": "ami-0ffffff"}, ConfigurationError, r"ami-0ffffff"),
        ({"image": "no-such-*"}, ConfigurationError, r"image is no-such-\*; us-east-1 has no such image"),
        ({"image": "ami-0a04"}, ConfigurationError, r"m7a\.medium \(x86_64\), the image ami-0a04 .* for arm64"),
        (
            {"zones": ["us-east-1f"]},
            ConfigurationError,
            r"zones has us-east-1f; with a subnet are us-east-1a, us-east-1b",
        ),
        ({"vpc": "vpc-0"}, ConfigurationError, r"vpc is vpc-0, which has no subnet in us-east-1"),
        ({"region": "us-east-9"}, ConfigurationError, r"no price for region us-east-9"),
    ],
)
def test_what_ec2_does_not_have_is_said_by_field(
    site: Site, options: dict[str, object], error: type[Exception], complaint: str
) -> None:
    wanted = [MASTER, M1, MachineRequest("m9", machine_type("type_2"))]
    with pytest.raises(error, match=complaint):
        site.testbed(**options).check(wanted)
    assert not site.cloud.left()


@pytest.mark.parametrize("action", ["RunInstances", *MAKING])
def test_a_missing_permission_is_said_by_its_action(site: Site, action: str) -> None:
    site.cloud.expect(Trouble(refusals=(Refusal(action, "UnauthorizedOperation", status=403),)))
    words = rf"asking whether {action} is allowed failed: Unauth.*docs/testbeds\.md"
    with pytest.raises(ConfigurationError, match=words):
        site.testbed(placement="cluster").check([MASTER, M1])


@pytest.mark.parametrize(
    ("code", "advice"), [("RequestExpired", "get new ones"), ("AuthFailure", "region enabled"), ("Blocked", "blocked")]
)
def test_credentials_that_do_not_work_say_what_to_do(site: Site, code: str, advice: str) -> None:
    site.cloud.expect(Trouble(refusals=(Refusal("DescribeRegions", code, status=403),)))
    with pytest.raises(ConfigurationError, match=rf"{code}: .*{advice}"):
        site.testbed().check([M1])


def test_missing_credentials_are_said_by_the_variables_that_would_do(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigurationError, match=r"credentials.*set AWS_PROFILE, or AWS_ACCESS_KEY_ID"):
        site.testbed().check([M1])


def test_a_quota_below_what_is_asked_for_is_capacity(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inventory.ec2.aws.quota", lambda *_: 1.0)
    with pytest.raises(
        CapacityError, match=r"2 machines need 2 vCPUs, this account has 1 \(on_demand, quota L-1216C47A"
    ):
        site.testbed().check([MASTER, M1])


def test_a_lease_of_another_account_is_not_forgotten(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    testbed.acquire(lease, [M1])
    other = replace(lease, site={**lease.site, "account": "999999999999"})
    with pytest.raises(ConfigurationError, match=r"is of account 999999999999, these credentials are of \d{12}"):
        testbed.release(other)
    assert len(site.cloud.left().instances) == 1


OURS = LeaseRemains("aaaa", "mine", 1000.0)


@pytest.mark.parametrize(
    ("remains", "on_record", "now", "ended"),
    [
        (OURS, (), 0.0, True),  # ours, and no lease
        (OURS, ("aaaa",), 0.0, False),
        (OURS, ("aaaa",), 1e6, False),  # the reaper ends the lease, which ends this
        (replace(OURS, harness="theirs"), (), 1000.0 + MARGIN_S, False),
        (replace(OURS, harness="theirs"), (), 1001.0 + MARGIN_S, True),
        (replace(OURS, harness="theirs", expires_s=None), (), 1e12, False),
    ],
)
def test_who_may_end_what(remains: LeaseRemains, on_record: tuple[str, ...], now: float, ended: bool) -> None:
    assert remains.is_ours_to_end("mine", frozenset(on_record), now) is ended


def test_a_harness_without_its_state_ends_only_what_is_past_its_own_end(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    testbed = site.testbed()
    old, young = site.take(testbed, ttl_s=100), site.take(testbed, ttl_s=100_000)
    testbed.acquire(old, [M1])
    testbed.acquire(young, [M2])
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path_factory.mktemp("another")))
    assert Ec2Testbed(timing=PACE).leftovers() == ()
    monkeypatch.setattr("inventory.ec2.instances.time.time", lambda now=time.time: now() + 200 + MARGIN_S)
    assert Ec2Testbed(timing=PACE).leftovers() == (f"machines of {old.lease_id}",)
    assert Ec2Testbed(timing=PACE).sweep() == (f"machines of {old.lease_id}",)
    assert len(site.cloud.left().instances) == 1
    monkeypatch.setenv("BAROGRAPH_STATE", str(site.state))
    registry.drop(old)


def test_a_key_or_a_group_alone_is_a_leftover_too(site: Site) -> None:
    testbed = site.testbed()
    lease = site.take(testbed)
    testbed.acquire(lease, [M1])
    site.cloud.client.terminate_instances(InstanceIds=list(site.cloud.left().instances))
    (group,) = site.cloud.left().security_groups
    site.cloud.client.delete_security_group(GroupId=group)
    registry.drop(lease)
    assert testbed.leftovers() == (f"machines of {lease.lease_id}",)
    testbed.sweep()
    assert not site.cloud.left()


def test_what_another_region_has_is_found_by_who_roams(site: Site) -> None:
    lease = site.take()
    site.testbed().acquire(lease, [M1])
    registry.drop(lease)
    (site.state / "ec2-places.json").unlink()
    stranger = Ec2Testbed(timing=PACE)
    assert len(stranger.roam()) > 1
    assert stranger.leftovers() == (f"machines of {lease.lease_id}",) == stranger.sweep()
    assert not site.cloud.left()
