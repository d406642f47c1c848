"""Between the callers and moto: counts each call, refuses and delays by the trouble that a test asked for."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

from tests.support.cloud.gaps import Gaps, Launch
from tests.support.cloud.query import NAMESPACE, Answer, Call, matches, parse, refusal, text_of, xml
from tests.support.cloud.trouble import Refusal, Trouble

# The cloud's own calls are signed with this key id: not counted, never refused, and shown moto's own state.
OWN_KEY = "TESTCLOUD"

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Counted:
    """One call of a caller: when, what, and the error it was answered with, if it was."""

    t: float
    action: str
    error: str | None


@dataclass
class Front:
    """A WSGI application around moto's. `zones` maps subnets to their availability zones."""

    moto: Application
    zones: dict[str, str] = field(default_factory=dict)
    calls: list[Counted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._trouble = Trouble()
        self._seen: dict[Refusal, int] = {}
        self.gaps = Gaps(self._gone)
        self.changed = threading.Event()  # an instance may run that did not, or the other way round

    @property
    def trouble(self) -> Trouble:
        return self._trouble

    def expect(self, trouble: Trouble) -> None:
        """From now on this goes wrong, and nothing else; refusals count anew."""
        with self._lock:
            self._trouble, self._seen = trouble, {}

    def quiet(self) -> AbstractContextManager[object]:
        """Within the block nobody's call is answered."""
        return self._lock

    def forget(self) -> None:
        """Nothing goes wrong any more, and nobody ever called."""
        with self._lock:
            self._trouble, self._seen = Trouble(), {}
            self.gaps.forget()
            self.calls.clear()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        form = "x-www-form-urlencoded" in environ.get("CONTENT_TYPE", "")
        call = parse(body) if form else None
        if call is None:
            environ["wsgi.input"] = io.BytesIO(body)
            return self.moto(environ, start_response)
        own = f"Credential={OWN_KEY}/" in environ.get("HTTP_AUTHORIZATION", "")
        given = self._own(environ, call) if own else self._callers(environ, call)
        # moto's answers are XML, and the callers read no other header.
        headers = [("Content-Type", "text/xml"), ("Content-Length", str(len(given.body)))]
        start_response(f"{given.status} {'OK' if given.status == 200 else 'Error'}", headers)
        return [given.body]

    def _own(self, environ: Mapping[str, Any], call: Call) -> Answer:
        with self._lock:
            if (ours := self.gaps.answer(call)) is not None:
                return ours
            given = self._ask_moto(environ, call)
            self._note(call, given)
        return given

    def _callers(self, environ: Mapping[str, Any], call: Call) -> Answer:
        with self._lock:
            given = self._refused(call) or self._not_there_yet(call) or self._answered(environ, call)
            error = None
            if given.status != 200:
                error = next((e.text for e in xml(given.body).iter() if e.tag.rpartition("}")[2] == "Code"), "?")
            self.calls.append(Counted(time.time(), call.action, error))
        return given

    def _answered(self, environ: Mapping[str, Any], call: Call) -> Answer:
        if call.parameters.get("DryRun") == "true" and call.action == "CreatePlacementGroup":
            return refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        if call.parameters.get("DryRun") != "true" and (ours := self.gaps.answer(call)):
            return ours
        if call.action != "DescribeInstances":
            given = self._ask_moto(environ, call)
            self._note(call, given)
            return given
        # moto filters by its own states, and callers are shown others.
        states = call.filters().get("instance-state-name")
        given = self._ask_moto(environ, call.without_filter("instance-state-name"))
        return self._shown(given, states) if given.status == 200 else given

    def _ask_moto(self, environ: Mapping[str, Any], call: Call) -> Answer:
        body = urlencode(call.parameters).encode()
        status: list[str] = []
        asked = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        content = b"".join(self.moto(asked, lambda line, *_: status.append(line)))
        return Answer(content, int(status[0].split()[0]))

    def _note(self, call: Call, given: Answer) -> None:
        """Keep what was launched and what was ended."""
        if given.status != 200:
            return
        if call.action in ("RunInstances", "TerminateInstances", "StopInstances", "StartInstances"):
            self.changed.set()
        if call.action == "RunInstances":
            items = xml(given.body).iterfind(f"{{{NAMESPACE}}}instancesSet/{{{NAMESPACE}}}item")
            self.gaps.launched(call, tuple(text_of(item, "instanceId") for item in items), given)
        if call.action == "TerminateInstances":
            for instance_id in call.listed("InstanceId"):
                self.gaps.ended(instance_id)

    def _refused(self, call: Call) -> Answer | None:
        for one in self._trouble.refusals:
            if one.action != call.action or (one.zone is not None and one.zone != self._zone(call)):
                continue
            number = self._seen[one] = self._seen.get(one, 0) + 1
            if number > one.after and (one.times is None or number <= one.after + one.times):
                return refusal(one.code, one.message, one.status)
        return None

    def _zone(self, call: Call) -> str | None:
        parameters = call.parameters
        subnet = parameters.get("SubnetId") or parameters.get("NetworkInterface.1.SubnetId", "")
        return self.zones.get(subnet) or parameters.get("Placement.AvailabilityZone")

    def _not_there_yet(self, call: Call) -> Answer | None:
        """Describing lags behind launching: the instance exists, and its id is unknown."""
        if call.action in ("DescribeInstances", "DescribeInstanceStatus", "CreateTags", "DescribeInstanceAttribute"):
            ids = (*call.listed("InstanceId"), *call.listed("ResourceId"))
            if hidden := [one for one in ids if self._hidden(self.gaps.launches.get(one))]:
                return refusal("InvalidInstanceID.NotFound", f"The instance ID '{hidden[0]}' does not exist")
        return None

    def _shown(self, given: Answer, states: tuple[str, ...] | None) -> Answer:
        document = xml(given.body)
        for reservation in document.iterfind(f"{{{NAMESPACE}}}reservationSet/{{{NAMESPACE}}}item"):
            instances = reservation.find(f"{{{NAMESPACE}}}instancesSet")
            assert instances is not None
            for item in list(instances):
                self._retouch(item)
                launch = self.gaps.launches.get(text_of(item, "instanceId"))
                state = {"instance-state-name": text_of(item, "instanceState/name")}
                if self._hidden(launch) or not matches({"instance-state-name": states} if states else {}, state, {}):
                    instances.remove(item)
        return Answer(ET.tostring(document, encoding="utf-8", xml_declaration=True))

    def _retouch(self, item: ET.Element) -> None:
        launch = self.gaps.launches.get(text_of(item, "instanceId"))
        if launch is None:
            return
        if state := self._state(launch):
            _set(item, "instanceState/name", state[0])
            _set(item, "instanceState/code", state[1])
        if request := self.gaps.request_of(launch.instance_id):
            _set(item, "spotInstanceRequestId", request.request_id)

    def _state(self, launch: Launch) -> tuple[str, str] | None:
        """Name and code of the state that callers are shown where it is not moto's."""
        if launch.ended_s is not None:
            return None if self._gone(launch) else ("shutting-down", "32")
        young = time.time() - launch.launched_s < self._trouble.hidden_s + self._trouble.pending_s
        return ("pending", "0") if young else None

    def _hidden(self, launch: Launch | None) -> bool:
        return launch is not None and time.time() - launch.launched_s < self._trouble.hidden_s

    def _gone(self, launch: Launch) -> bool:
        return launch.ended_s is not None and time.time() - launch.ended_s >= self._trouble.shutting_down_s


def _set(item: ET.Element, path: str, value: str) -> None:
    """Set the text at `a/b`, made if it is not there."""
    for part in path.split("/"):
        found = item.find(f"{{{NAMESPACE}}}{part}")
        item = ET.SubElement(item, f"{{{NAMESPACE}}}{part}") if found is None else found
    item.text = value
