"""What EC2 does and moto does not: placement groups, spot requests, client tokens, groups that are in use."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import escape

from tests.support.cloud.query import Answer, Call, answer, matches, refusal, tag_set


@dataclass(frozen=True)
class Launch:
    """One instance as it was asked for. `ended_s` is when somebody ended it; its end takes time (`Trouble`)."""

    instance_id: str
    machine: str
    type: str
    market: str
    placement_group: str
    security_groups: tuple[str, ...]
    launched_s: float
    ended_s: float | None = None


@dataclass(frozen=True)
class PlacementGroup:
    name: str
    strategy: str
    group_id: str
    tags: Mapping[str, str]


@dataclass(frozen=True)
class SpotRequest:
    request_id: str
    instance_id: str
    price: str
    tags: Mapping[str, str]
    state: str = "active"
    code: str = "fulfilled"


@dataclass
class Gaps:
    """The state of what moto lacks; `gone` says whether an instance is fully terminated."""

    gone: Callable[[Launch], bool]
    launches: dict[str, Launch] = field(default_factory=dict)
    placement_groups: dict[str, PlacementGroup] = field(default_factory=dict)
    spot_requests: dict[str, SpotRequest] = field(default_factory=dict)
    _tokens: dict[str, tuple[Call, Answer]] = field(default_factory=dict)

    def forget(self) -> None:
        for known in (self.launches, self.placement_groups, self.spot_requests, self._tokens):
            known.clear()

    def answer(self, call: Call) -> Answer | None:
        """The answer to a call that moto would not know, or would answer as EC2 does not; None: moto's to answer."""
        known: dict[str, Callable[[Call], Answer | None]] = {
            "CreatePlacementGroup": self._create_group,
            "DescribePlacementGroups": self._describe_groups,
            "DeletePlacementGroup": self._delete_group,
            "DescribeSpotInstanceRequests": self._describe_requests,
            "CancelSpotInstanceRequests": self._cancel_requests,
            "DeleteSecurityGroup": self._refuse_used_group,
            "RunInstances": self._launched_before,
        }
        return known[call.action](call) if call.action in known else None

    def launched(self, call: Call, instance_ids: tuple[str, ...], given: Answer) -> None:
        """moto launched these instances for the call."""
        parameters, tags = call.parameters, call.tags("instance")
        spot = parameters.get("InstanceMarketOptions.MarketType") == "spot"
        groups = (*call.listed("SecurityGroupId"), *call.listed(r"NetworkInterface.1.SecurityGroupId"))
        for instance_id in instance_ids:
            self.launches[instance_id] = Launch(
                instance_id, tags.get("barograph:machine", tags.get("Name", "")), parameters.get("InstanceType", ""),
                "spot" if spot else "on_demand", parameters.get("Placement.GroupName", ""), groups, time.time(),
            )  # fmt: skip
            if spot:
                price = parameters.get("InstanceMarketOptions.SpotOptions.MaxPrice", "")
                request = SpotRequest(
                    f"sir-{uuid.uuid4().hex[:8]}", instance_id, price, call.tags("spot-instances-request")
                )
                self.spot_requests[request.request_id] = request
        if token := parameters.get("ClientToken"):
            self._tokens[token] = (call, given)

    def ended(self, instance_id: str, why: str = "instance-terminated-by-user") -> None:
        """Somebody ended the instance; the first time counts."""
        launch = self.launches.get(instance_id)
        if launch is None or launch.ended_s is not None:
            return
        self.launches[instance_id] = replace(launch, ended_s=time.time())
        if request := self.request_of(instance_id):
            self.spot_requests[request.request_id] = replace(request, state="closed", code=why)

    def request_of(self, instance_id: str) -> SpotRequest | None:
        return next((one for one in self.spot_requests.values() if one.instance_id == instance_id), None)

    def announce(self, instance_id: str) -> None:
        """The notice that a spot instance is about to be taken away."""
        request = self.request_of(instance_id)
        if request is None:
            raise LookupError(f"{instance_id} is no spot instance; spot requests are {list(self.spot_requests)}")
        self.spot_requests[request.request_id] = replace(request, code="marked-for-termination")

    def _launched_before(self, call: Call) -> Answer | None:
        before = self._tokens.get(call.parameters.get("ClientToken", ""))
        if before is not None and before[0] != call:
            return refusal("IdempotentParameterMismatch", "the client token was used with other parameters")
        group = call.parameters.get("Placement.GroupName", "")
        if before is None and group and group not in self.placement_groups:
            return refusal("InvalidPlacementGroup.Unknown", f"The Placement Group '{group}' is unknown.")
        return before[1] if before else None

    def _create_group(self, call: Call) -> Answer:
        name = call.parameters["GroupName"]
        if name in self.placement_groups:
            return refusal("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
        made = PlacementGroup(
            name,
            call.parameters.get("Strategy", "cluster"),
            f"pg-{uuid.uuid4().hex[:17]}",
            call.tags("placement-group"),
        )
        self.placement_groups[name] = made
        return answer(call.action, f"<return>true</return><placementGroup>{_group(made)}</placementGroup>")

    def _describe_groups(self, call: Call) -> Answer:
        names = call.listed("GroupName")
        if unknown := [name for name in names if name not in self.placement_groups]:
            return refusal("InvalidPlacementGroup.Unknown", f"The Placement Group '{unknown[0]}' is unknown.")
        found = [
            one
            for one in self.placement_groups.values()
            if (not names or one.name in names)
            and matches(
                call.filters(), {"group-name": one.name, "state": "available", "strategy": one.strategy}, one.tags
            )
        ]
        items = "".join(f"<item>{_group(one)}</item>" for one in found)
        return answer(call.action, f"<placementGroupSet>{items}</placementGroupSet>")

    def _delete_group(self, call: Call) -> Answer:
        name = call.parameters["GroupName"]
        if name not in self.placement_groups:
            return refusal("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        if any(one.placement_group == name and not self.gone(one) for one in self.launches.values()):
            return refusal("InvalidPlacementGroup.InUse", f"The placement group '{name}' is in use.")
        del self.placement_groups[name]
        return answer(call.action, "<return>true</return>")

    def _describe_requests(self, call: Call) -> Answer:
        wanted = call.listed("SpotInstanceRequestId")
        if unknown := [one for one in wanted if one not in self.spot_requests]:
            return refusal(
                "InvalidSpotInstanceRequestID.NotFound", f"The spot request ID '{unknown[0]}' does not exist"
            )
        found = [
            one
            for one in self.spot_requests.values()
            if (not wanted or one.request_id in wanted) and matches(call.filters(), _fields(one), one.tags)
        ]
        items = "".join(f"<item>{_request(one)}</item>" for one in found)
        return answer(call.action, f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>")

    def _cancel_requests(self, call: Call) -> Answer:
        items = ""
        for request_id in call.listed("SpotInstanceRequestId"):
            if (request := self.spot_requests.get(request_id)) is None:
                return refusal("InvalidSpotInstanceRequestID.NotFound", f"'{request_id}' does not exist")
            if request.state in ("open", "active"):
                self.spot_requests[request_id] = replace(request, state="cancelled")
            items += f"<item><spotInstanceRequestId>{request_id}</spotInstanceRequestId><state>cancelled</state></item>"
        return answer(call.action, f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>")

    def _refuse_used_group(self, call: Call) -> Answer | None:
        group = call.parameters.get("GroupId", "")
        if any(group in one.security_groups and not self.gone(one) for one in self.launches.values()):
            return refusal("DependencyViolation", f"resource {group} has a dependent object")
        return None


def _group(one: PlacementGroup) -> str:
    return (
        f"<groupName>{escape(one.name)}</groupName><strategy>{one.strategy}</strategy><state>available</state>"
        f"<groupId>{one.group_id}</groupId>{tag_set(one.tags)}"
    )


def _fields(one: SpotRequest) -> dict[str, str]:
    return {
        "spot-instance-request-id": one.request_id, "instance-id": one.instance_id, "state": one.state,
        "status-code": one.code,
    }  # fmt: skip


def _request(one: SpotRequest) -> str:
    return (
        f"<spotInstanceRequestId>{one.request_id}</spotInstanceRequestId><spotPrice>{one.price}</spotPrice>"
        f"<type>one-time</type><state>{one.state}</state><status><code>{one.code}</code>"
        f"<updateTime>2026-01-01T00:00:00.000Z</updateTime><message>{one.code}</message></status>"
        f"<instanceId>{one.instance_id}</instanceId>{tag_set(one.tags)}"
    )
