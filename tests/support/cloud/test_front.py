"""The test cloud without machines: what it adds to moto is what EC2 does, and trouble comes as asked for."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.support.cloud import trouble
from tests.support.cloud.cloud import Cloud
from tests.support.cloud.serve import CANONICAL, NEWEST_IMAGE, REGION, ZONES
from tests.support.cloud.trouble import Refusal, Trouble

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


LONG_S = 600.0  # longer than any test


@pytest.fixture(scope="module")
def everyones(control_plane: Cloud) -> Cloud:
    return control_plane.anew()


@pytest.fixture
def cloud(everyones: Cloud) -> Iterator[Cloud]:
    """A cloud in which nothing goes wrong and nothing is left."""
    everyones.expect(Trouble())
    yield everyones
    everyones.expect(Trouble())
    ec2, left = everyones.client, everyones.left()
    if left.instances:
        ec2.terminate_instances(InstanceIds=list(left.instances))
    for group in left.security_groups:
        ec2.delete_security_group(GroupId=group)
    for name in left.placement_groups:
        ec2.delete_placement_group(GroupName=name)
    assert not everyones.left()


@pytest.fixture
def ec2(cloud: Cloud) -> "EC2Client":
    return boto3.client(
        "ec2", region_name=REGION, endpoint_url=cloud.ready.endpoint, aws_access_key_id="AKIATESTS",
        aws_secret_access_key="unused",
    )  # fmt: skip


def launch(ec2: "EC2Client", cloud: Cloud, zone: str = ZONES[0], machine: str = "m1", **more: Any) -> str:
    kinds = ("instance", *(("spot-instances-request",) if "InstanceMarketOptions" in more else ()))
    marks: Any = [{"ResourceType": kind, "Tags": [{"Key": "barograph:machine", "Value": machine}]} for kind in kinds]
    given = ec2.run_instances(
        ImageId=NEWEST_IMAGE, InstanceType="c7a.medium", MinCount=1, MaxCount=1, SubnetId=cloud.ready.subnets[zone],
        TagSpecifications=marks, **more,
    )  # fmt: skip
    return given["Instances"][0]["InstanceId"]


def state(ec2: "EC2Client", instance_id: str) -> str:
    (reservation,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
    return reservation["Instances"][0]["State"]["Name"]


def refused(code: str, ask: Callable[[], object]) -> None:
    with pytest.raises(ClientError) as error:
        ask()
    assert error.value.response["Error"]["Code"] == code


def test_trouble_goes_there_and_back() -> None:
    all_of_it = Trouble((Refusal("RunInstances", "X", zone="a", after=1, times=2),), 1.0, 2.0, 3.0, ("m1",), ("m2",))
    assert trouble.read(all_of_it.to_json()) == all_of_it


def test_the_newest_image_is_found_by_name_and_owner(ec2: "EC2Client") -> None:
    pattern = "ubuntu/images/*24.04-amd64-server-*"
    found = ec2.describe_images(Owners=[CANONICAL], Filters=[{"Name": "name", "Values": [pattern]}])["Images"]
    assert max(found, key=lambda one: one["CreationDate"])["ImageId"] == NEWEST_IMAGE


def test_a_refusal_is_for_its_zone_and_its_number_of_times(cloud: Cloud, ec2: "EC2Client") -> None:
    begun = time.time()
    full = Refusal("RunInstances", "InsufficientInstanceCapacity", zone=ZONES[0], after=1, times=1)
    cloud.expect(Trouble(refusals=(full,)))
    launch(ec2, cloud)
    launch(ec2, cloud, ZONES[1])
    refused("InsufficientInstanceCapacity", lambda: launch(ec2, cloud))
    launch(ec2, cloud)
    assert len(cloud.left().instances) == 3
    assert cloud.calls(begun)["RunInstances"] == 4
    assert cloud.errors(begun) == {"InsufficientInstanceCapacity": 1}


def test_a_young_instance_is_unknown_then_pending_then_running(cloud: Cloud, ec2: "EC2Client") -> None:
    instance = launch(ec2, cloud)
    running_only: Any = [{"Name": "instance-state-name", "Values": ["running"]}]
    cloud.expect(Trouble(hidden_s=LONG_S))
    refused("InvalidInstanceID.NotFound", lambda: state(ec2, instance))
    assert not [one for reservation in ec2.describe_instances()["Reservations"] for one in reservation["Instances"]]
    cloud.expect(Trouble(pending_s=LONG_S))
    assert state(ec2, instance) == "pending"
    assert not [r for r in ec2.describe_instances(Filters=running_only)["Reservations"] if r["Instances"]]
    cloud.expect(Trouble())
    assert state(ec2, instance) == "running"
    assert [r for r in ec2.describe_instances(Filters=running_only)["Reservations"] if r["Instances"]]


def test_what_an_ending_instance_uses_stays_until_it_is_terminated(cloud: Cloud, ec2: "EC2Client") -> None:
    ec2.create_placement_group(GroupName="together", Strategy="cluster")
    group = ec2.create_security_group(GroupName="mine", Description="-", VpcId=cloud.ready.vpc)["GroupId"]
    instance = launch(ec2, cloud, SecurityGroupIds=[group], Placement={"GroupName": "together"})
    cloud.expect(Trouble(shutting_down_s=LONG_S))
    ec2.terminate_instances(InstanceIds=[instance])
    assert state(ec2, instance) == "shutting-down"
    refused("DependencyViolation", lambda: ec2.delete_security_group(GroupId=group))
    refused("InvalidPlacementGroup.InUse", lambda: ec2.delete_placement_group(GroupName="together"))
    cloud.expect(Trouble())
    assert state(ec2, instance) == "terminated"
    ec2.delete_security_group(GroupId=group)
    ec2.delete_placement_group(GroupName="together")
    refused("InvalidPlacementGroup.Unknown", lambda: ec2.delete_placement_group(GroupName="together"))
    assert not cloud.left()


def test_a_repeated_client_token_launches_once(cloud: Cloud, ec2: "EC2Client") -> None:
    assert launch(ec2, cloud, ClientToken="once") == launch(ec2, cloud, ClientToken="once")
    refused("IdempotentParameterMismatch", lambda: launch(ec2, cloud, machine="m2", ClientToken="once"))
    assert len(cloud.left().instances) == 1


def test_a_spot_request_from_launch_to_interruption(cloud: Cloud, ec2: "EC2Client") -> None:
    instance = launch(ec2, cloud, InstanceMarketOptions={"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.05"}})
    (reservation,) = ec2.describe_instances(InstanceIds=[instance])["Reservations"]
    request_id = reservation["Instances"][0]["SpotInstanceRequestId"]

    def request() -> Any:
        marked: Any = [{"Name": "tag:barograph:machine", "Values": ["m1"]}]
        requests = ec2.describe_spot_instance_requests(Filters=marked)["SpotInstanceRequests"]
        return next(one for one in requests if one["SpotInstanceRequestId"] == request_id)

    assert (request()["State"], request()["Status"]["Code"]) == ("active", "fulfilled")
    assert cloud.left().spot_requests == (request_id,)
    cloud.announce("m1")
    assert (request()["Status"]["Code"], state(ec2, instance)) == ("marked-for-termination", "running")
    cloud.take_away("m1")
    assert (request()["State"], request()["Status"]["Code"]) == ("closed", "instance-terminated-no-capacity")
    (reservation,) = ec2.describe_instances(InstanceIds=[instance])["Reservations"]
    assert reservation["Instances"][0]["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_hours_are_those_between_launch_and_end(cloud: Cloud, ec2: "EC2Client") -> None:
    begun = time.time()
    instance = launch(ec2, cloud)
    time.sleep(0.5)
    ec2.terminate_instances(InstanceIds=[instance])
    most = (time.time() - begun) / 3600
    assert 0.5 / 3600 <= cloud.hours(begun)["c7a.medium"] <= most
    time.sleep(0.5)
    assert cloud.hours(begun)["c7a.medium"] <= most
