"""The handle that tests have of the cloud."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.cloud.serve import REGION, Ready, own_client
from tests.support.cloud.trouble import Trouble

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


ROOT = Path(__file__).resolve().parents[3]
END_LIMIT_S = 300.0
NO_WAY: dict[str, object] = {"ingress_from": "192.0.2.1/32"}  # there are no machines to reach


@dataclass(frozen=True)
class Left:
    """What exists beyond what the cloud came with; instances that are terminated do not."""

    instances: tuple[str, ...]
    volumes: tuple[str, ...]
    key_pairs: tuple[str, ...]
    security_groups: tuple[str, ...]
    placement_groups: tuple[str, ...]
    spot_requests: tuple[str, ...]

    def __bool__(self) -> bool:
        return any(vars(self).values())


class Cloud:
    """A cloud that runs."""

    def __init__(self, ready: Ready, pid: int) -> None:
        self.ready = ready
        self.pid = pid
        self.client: EC2Client = own_client(ready.endpoint)

    def environment(self) -> dict[str, str]:
        """What a harness needs to find the cloud: boto3's own variables."""
        return {
            "AWS_ENDPOINT_URL": self.ready.endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "AKIAHARNESS", "AWS_SECRET_ACCESS_KEY": "unused", "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_SESSION_TOKEN": "",
        }  # fmt: skip

    def options(self, **more: object) -> dict[str, object]:
        """`testbed.options.ec2` for this cloud."""
        return {"vpc": self.ready.vpc, "addresses": "private", "budget_usd": 10.0, **more}

    def anew(self) -> Cloud:
        """As if it had just been started, which takes seconds: nothing is there or ever was, nothing goes wrong."""
        self.ready = Ready(**self._ask("anew"))
        return self

    def expect(self, trouble: Trouble) -> None:
        """This goes wrong from now on, and nothing else."""
        self._ask("trouble", trouble.to_json())

    def calls(self, since: float = 0.0) -> Counter[str]:
        """How often callers called what, by action; the cloud's own calls do not count."""
        return Counter(one["action"] for one in self._ask("calls") if one["t"] >= since)

    def errors(self, since: float = 0.0) -> Counter[str]:
        """What callers were answered that was no success, by error code."""
        return Counter(one["error"] for one in self._ask("calls") if one["error"] and one["t"] >= since)

    def launches(self) -> dict[str, Mapping[str, Any]]:
        """Every instance ever launched by id, as `gaps.Launch` has it."""
        return {one["instance_id"]: one for one in self._ask("launches")}

    def hours(self, since: float = 0.0) -> dict[str, float]:
        """Hours that instances launched since then have run, by type of instance."""
        used: Counter[str] = Counter()
        for one in self.launches().values():
            if one["launched_s"] >= since:
                used[one["type"]] += ((one["ended_s"] or time.time()) - one["launched_s"]) / 3600
        return dict(used)

    def machines(self) -> tuple[str, ...]:
        """The instances that have an emulated machine now."""
        return tuple(self._ask("machines"))

    def rented(self) -> list[str]:
        """The machines of instances that are not terminated, by name."""
        there = self.left().instances
        launches = self.launches()  # asked last: it has every instance, also one that was launched meanwhile
        return sorted(str(launches[instance_id]["machine"]) for instance_id in there)

    def instance(self, machine: str) -> str:
        """The id of the newest instance of that machine's name."""
        return [i for i, one in self.launches().items() if one["machine"] == machine][-1]

    def announce(self, machine: str) -> None:
        """The spot instance of that name gets its notice."""
        self._ask("announce", self.instance(machine))

    def take_away(self, machine: str) -> None:
        """The spot instance of that name is gone."""
        self._ask("take_away", self.instance(machine))

    def left(self) -> Left:
        """What a harness left here."""
        ec2 = self.client
        pages = ec2.get_paginator("describe_instances").paginate()
        every = [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]
        groups = ec2.describe_security_groups()["SecurityGroups"]
        requests = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
        return Left(
            tuple(one["InstanceId"] for one in every if one["State"]["Name"] != "terminated"),
            tuple(one["VolumeId"] for one in ec2.describe_volumes()["Volumes"]),
            tuple(one["KeyName"] for one in ec2.describe_key_pairs()["KeyPairs"]),
            tuple(one["GroupId"] for one in groups if one["GroupName"] != "default"),
            tuple(one["GroupName"] for one in ec2.describe_placement_groups()["PlacementGroups"]),
            tuple(r["SpotInstanceRequestId"] for r in requests if r["State"] in ("open", "active")),
        )

    def _ask(self, what: str, text: str = "") -> Any:
        request = urllib.request.Request(
            f"{self.ready.endpoint}/_cloud/{what}", text.encode(), {"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request, timeout=600) as given:
            return json.load(given)


@contextmanager
def running(machines: bool, cores: float | None = None) -> Iterator[Cloud]:
    """A cloud in a process of its own; with it ends everything that it has made, also if this process is killed."""
    sized = [f"--cores={cores:g}"] if cores is not None else []
    command = [sys.executable, "-m", "tests.support.cloud.serve", *(["--machines"] if machines else []), *sized]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, "the test cloud did not start; its own words are above"
            yield Cloud(Ready(**json.loads(line)), process.pid)
        finally:
            process.stdin.close()
            process.wait(END_LIMIT_S)


def until(happened: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait for it, or fail with what it was."""
    deadline = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {what}"
        time.sleep(0.2)
