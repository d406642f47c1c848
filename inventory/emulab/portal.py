"""Emulab by the portal's REST interface: the HTTP client, manifests, and the access itself.

Paths, fields and words of the portal are only in this file. Documented (README and openapi.json of emulab/portal-api):
`X-Api-Token`, create with `duration` in hours, an experiment named by `project,name`, `status: ready`, 404 `No such
experiment` once it is gone, extension by `expires_at`, one manifest an aggregate. Not documented, and so read
loosely: the words of `status` besides `ready` and `failed`, and whether a profile of another project is listed.
Manifests (GENI RSpec 3): `node[@client_id]`, in it `services/login[@hostname][@port][@username]`, `host[@ipv4]` (the
control address) and `interface/ip[@address]` (the experiment LAN). Sources: the GENI RSpec 3 manifest schema and
manifests published by users. Not every manifest has `host[@ipv4]`; the login's host name stands in.
"""

import json
import logging
import math
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from typing import Any
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree as ET

from inventory.emulab.access import Node, Timing, emulab_error
from inventory.emulab.options import PortalOptions
from inventory.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.machines import MachineRequest


@dataclass(frozen=True)
class ManifestNode:
    client_id: str
    hostname: str
    port: int
    ipv4: str
    experiment_address: str


def manifest_nodes(manifests: Sequence[str], user: str) -> list[ManifestNode]:
    """Every node of the manifests, in natural order of their names (node2 before node10)."""
    found = [
        _manifest_node(node, user)
        for text in manifests
        for node in _parse_manifest(text).iter()
        if _local_name(node) == "node"
    ]
    return sorted(
        found, key=lambda node: [int(part) if part.isdigit() else part for part in _name_parts(node.client_id)]
    )


def assign_nodes(found: Sequence[ManifestNode], names: Sequence[str]) -> tuple[Node, ...]:
    """The machines on the nodes: by name where the profile uses our names, else in order."""
    if len(found) != len(names):
        raise ConfigurationError(
            f"emulab: the profile made {len(found)} nodes ({', '.join(node.client_id for node in found)}), "
            f"{len(names)} are needed; set their number in testbed.options.emulab.bindings, or name count_binding"
        )
    by_name = {node.client_id: node for node in found}
    chosen = [by_name[name] for name in names] if set(by_name) == set(names) else found
    return tuple(
        Node(name, node.hostname, node.port, node.ipv4, node.experiment_address)
        for name, node in zip(names, chosen, strict=True)
    )


def _parse_manifest(text: str) -> ET.Element:
    # The parser resolves no external entities; a document that defines its own is none of Emulab's.
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InfrastructureError("emulab: the manifest defines entities, which no RSpec does; is the endpoint right?")
    try:
        return ET.fromstring(text)
    except ET.ParseError as error:
        raise InfrastructureError(f"emulab: the manifest is no XML ({error}): {text[:200]!r}; try again") from error


def _manifest_node(node: ET.Element, user: str) -> ManifestNode:
    client_id = node.get("client_id") or "a node without client_id"
    logins = [one for one in node.iter() if _local_name(one) == "login" and one.get("hostname")]
    login = next((one for one in logins if one.get("username") == user), logins[0] if logins else None)
    addresses = [one.get("address") for one in node.iter() if _local_name(one) == "ip" and one.get("address")]
    if login is None or not addresses:
        lacks = "no login" if login is None else "no address on the experiment LAN"
        raise ConfigurationError(
            f"emulab: {client_id} has {lacks} in the manifest; the profile must give every node ssh and one LAN"
        )
    host = next((one.get("ipv4") for one in node.iter() if _local_name(one) == "host" and one.get("ipv4")), None)
    hostname = str(login.get("hostname"))
    return ManifestNode(client_id, hostname, int(login.get("port") or 22), host or hostname, str(addresses[0]))


def _local_name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _name_parts(name: str) -> list[str]:
    return re.split(r"(\d+)", name)


TOKEN_VARIABLE = "BAROGRAPH_EMULAB_TOKEN"  # the variable's name
TOKEN_PAGE = "the portal's page of your account, `Portal API Token`; one lasts two months"
BUSY_STATUSES = (429, 503)
RETRY_STATUSES = (500, 502, 504)
REDIRECT_STATUSES = (307, 308)


@dataclass(frozen=True)
class PortalAnswer:
    status: int
    body: str
    headers: Message

    def data(self) -> Any:
        try:
            return json.loads(self.body or "null")
        except ValueError as error:
            raise InfrastructureError(
                f"emulab: the portal's answer ({self.status}) is no JSON: {self.body[:200]!r}; is the endpoint right?"
            ) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by `PortalClient`, which does not carry the token to another host."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class PortalClient:
    """`call` returns answers below 400 and 404; every other one is an error with a blame. The token is never told."""

    def __init__(self, endpoint: str, patience: Timing, sleep: Callable[[float], None] = time.sleep) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._sleep = sleep
        self._opener = urllib.request.build_opener(_NoRedirects)

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> PortalAnswer:
        """One request, asked again where the portal is busy, or where it failed and asking twice does no harm."""
        deadline = time.monotonic() + self._patience.busy_s
        while True:
            late = time.monotonic() >= deadline
            try:
                answer = self._follow(method, self._endpoint + path, body)
            except InfrastructureError:
                if method == "POST" or late:
                    raise
                self._sleep(self._patience.poll_s)
                continue
            if late or not (answer.status in BUSY_STATUSES or (answer.status in RETRY_STATUSES and method != "POST")):
                return self._judged(method, path, answer)
            self._sleep(self._wait_s(answer))

    def _wait_s(self, answer: PortalAnswer) -> float:
        wished = answer.headers.get("Retry-After", "")
        return min(float(wished), self._patience.busy_s) if wished.isdigit() else self._patience.poll_s

    def _follow(self, method: str, url: str, body: Mapping[str, object] | None) -> PortalAnswer:
        answer = self._send(method, url, body)
        if answer.status not in REDIRECT_STATUSES:
            return answer
        target = urlsplit(urljoin(url, answer.headers.get("Location", "")))
        here = urlsplit(url)
        if target.netloc != here.netloc:
            raise ConfigurationError(
                f"emulab: {self._endpoint} redirects to {target.netloc}; the token is not carried there, "
                "set testbed.options.emulab.endpoint to it"
            )
        # A server behind another one that speaks TLS for it names the wrong scheme.
        return self._send(method, target._replace(scheme=here.scheme).geturl(), body)

    def _send(self, method: str, url: str, body: Mapping[str, object] | None) -> PortalAnswer:
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Api-Token": _token(), "Content-Type": "application/json", "Accept": "application/json"}
        # The pattern of the endpoint allows http(s) only.
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._patience.connect_s) as reply:
                return PortalAnswer(reply.status, reply.read().decode(errors="replace"), reply.headers)
        except urllib.error.HTTPError as error:
            return PortalAnswer(error.code, error.read().decode(errors="replace"), error.headers)
        except (OSError, EOFError, urllib.error.URLError) as error:
            raise self._unreachable(error) from error
        except Exception as error:
            if type(error).__module__ != "http.client":  # BadStatusLine, IncompleteRead: the line went dead
                raise
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ConfigurationError | InfrastructureError:
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        if isinstance(why, ssl.SSLCertVerificationError):
            return ConfigurationError(
                f"emulab: the certificate of {self._endpoint} is not trusted ({why.verify_message}); "
                "check the endpoint, or set SSL_CERT_FILE to a file with its issuer"
            )
        return InfrastructureError(
            f"emulab: the portal at {self._endpoint} does not answer ({why}); "
            "check testbed.options.emulab.endpoint and the network, then try again"
        )

    def _judged(self, method: str, path: str, answer: PortalAnswer) -> PortalAnswer:
        if answer.status < 400 or answer.status == 404:
            return answer
        said = _error_text(answer)
        if answer.status == 401:
            raise ConfigurationError(
                f"emulab: the portal refuses the token in {TOKEN_VARIABLE} (401: {said}); if it"
                f" expired, get another: {TOKEN_PAGE}"
            )
        if answer.status == 403:
            raise ConfigurationError(
                f"emulab: the token's owner may not {method} {path} (403: {said}); check project and profile_project"
            )
        if answer.status in BUSY_STATUSES:
            raise CapacityError(f"emulab: the portal is too busy ({answer.status}: {said}); try later")
        if answer.status >= 500:
            raise InfrastructureError(
                f"emulab: the portal failed at {method} {path} ({answer.status}: {said}); try again"
            )
        raise emulab_error(f"{method} {path} ({answer.status})", f"invalid: {said}")


def _error_text(answer: PortalAnswer) -> str:
    """The portal's `{"code": …, "error": …}` as one line; whatever else came, shortened."""
    try:
        data = json.loads(answer.body)
    except ValueError:
        return answer.body[:200]
    if not isinstance(data, dict):
        return str(data)[:200]
    return " ".join(str(data[key]) for key in ("error", "errors", "detail") if data.get(key))[:400] or "no reason"


def _token() -> str:
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise ConfigurationError(f"emulab: {TOKEN_VARIABLE} is not set; set it to your token ({TOKEN_PAGE})")
    if not token.isascii() or not token.isprintable():
        raise ConfigurationError(
            f"emulab: {TOKEN_VARIABLE} has characters that no token has; copy it anew ({TOKEN_PAGE})"
        )
    return token


log = logging.getLogger(__name__)

READY_STATUS = "ready"
ENDING_STATUSES = ("terminating", "terminated")
FINAL_STATUSES = ("failed", "canceled", *ENDING_STATUSES)
HOUR_S = 3600.0


class Portal:
    """`options` are the experiment's; without them (another process, the reaper) it can only look and end."""

    def __init__(
        self,
        endpoint: str,
        project: str,
        options: PortalOptions | None = None,
        patience: Timing = Timing(),  # noqa: B008  # frozen
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._endpoint, self._project, self._options = endpoint, project, options
        self._patience, self._sleep = patience, sleep
        self._client = PortalClient(endpoint, patience, sleep)

    def site(self) -> Mapping[str, str]:
        """See `Access.site`."""
        return {"access": "portal", "endpoint": self._endpoint, "project": self._project}

    def check(self, requests: Sequence[MachineRequest]) -> None:  # noqa: ARG002  # the profile describes the machines
        """See `Access.check`: the token, the project, the profile as far as it is listed."""
        options = self._needed()
        self.experiments()
        answer = self._client.call("GET", f"/profiles?project={options.profile_project}")
        listed = [
            one for one in _object_rows(answer.data(), "profiles") if one.get("project") == options.profile_project
        ]
        names = sorted({str(one.get("name")) for one in listed})
        # Profiles of other people's projects may not be listed at all: then creating says it.
        if names and options.profile not in names:
            raise ConfigurationError(
                f"testbed.options.emulab.profile is {options.profile!r}; known in {options.profile_project}: "
                f"{', '.join(names)}"
            )

    def start(self, experiment: str, requests: Sequence[MachineRequest], end_s: float) -> None:
        """See `Access.start`. The portal counts in hours, so it ends up to an hour late."""
        options = self._needed()
        bindings = dict(options.bindings)
        if options.count_binding:
            bindings[options.count_binding] = len(requests)
        body = {
            "name": experiment, "project": self._project, "profile_name": options.profile,
            "profile_project": options.profile_project, "duration": max(1, math.ceil((end_s - time.time()) / HOUR_S)),
            "bindings": bindings,
        }  # fmt: skip
        answer = self._client.call("POST", "/experiments", body)
        if answer.status == 404:
            raise ConfigurationError(
                f"emulab: the portal knows no profile {options.profile_project}/{options.profile} or no project "
                f"{self._project} ({answer.body[:200]}); check profile, profile_project and project"
            )
        self._wait_until_ready(experiment, options.ready_minutes * 60)

    def nodes(self, experiment: str, requests: Sequence[MachineRequest]) -> tuple[Node, ...]:
        """See `Access.nodes`."""
        answer = self._client.call("GET", f"{self._path(experiment)}/manifests")
        data = answer.data()
        texts = [text for text in data.values() if isinstance(text, str)] if isinstance(data, dict) else []
        if answer.status == 404 or not texts:
            raise InfrastructureError(f"emulab: experiment {experiment} has no manifest (was it ended?); start again")
        found = manifest_nodes(texts, self._needed().user)
        return assign_nodes(found, [request.name for request in requests])

    def prolong(self, experiment: str, end_s: float) -> None:
        """See `Access.prolong`: CapacityError where Emulab wants to approve it first."""
        now = self._experiment(experiment)
        if now is None:
            raise InfrastructureError(f"emulab: experiment {experiment} is gone; start again")
        if (ends := _epoch(now.get("expires_at"))) is not None and ends >= end_s:
            return
        body = {"expires_at": datetime.fromtimestamp(end_s, UTC).isoformat(timespec="seconds"), "reason": "measuring"}
        answer = self._client.call("PUT", self._path(experiment), body).data()
        granted = _epoch(answer.get("expires_at")) if isinstance(answer, dict) else None
        if granted is None or granted < end_s - 60:
            until = "its old end" if granted is None else datetime.fromtimestamp(granted, UTC).isoformat()
            raise CapacityError(
                f"emulab: experiment {experiment} shall last until {body['expires_at']} and lasts until {until}; "
                "an administrator may have to approve more; ask for a shorter series, or resume it later"
            )

    def end(self, experiment: str) -> None:
        """See `Access.end`. A transition that is under way may have to end first, so it is asked for again."""
        deadline = time.monotonic() + self._patience.end_s
        refused: Exception | None = None
        while (now := self._experiment(experiment)) is not None:
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"emulab: experiment {experiment} is still there {self._patience.end_s:g} s after it was ended; "
                    f"end it on its page, or later with `barograph reap`{f' ({refused})' if refused else ''}"
                ) from refused
            try:
                if now.get("status") not in ENDING_STATUSES:
                    self._client.call("DELETE", self._path(experiment))
            except ConfigurationError as error:  # 4xx: busy, as far as it is known
                refused = error
            self._sleep(self._patience.poll_s)

    def experiments(self) -> tuple[str, ...]:
        """See `Access.experiments`."""
        answer = self._client.call("GET", f"/experiments?project={self._project}")
        if answer.status == 404:
            raise ConfigurationError(
                f"testbed.options.emulab.project is {self._project!r}: the portal knows none ({answer.body[:200]})"
            )
        rows = _object_rows(answer.data(), "experiments")
        return tuple(str(one.get("name")) for one in rows if one.get("project", self._project) == self._project)

    def _wait_until_ready(self, experiment: str, limit_s: float) -> None:
        begun = time.monotonic()
        while (status := (now := self._experiment(experiment) or {}).get("status")) != READY_STATUS:
            if status in FINAL_STATUSES:
                raise emulab_error(f"experiment {experiment} is {status}", _failure_text(now))
            waited_s = time.monotonic() - begun
            if waited_s > (limit_s if now else self._patience.busy_s):
                raise InfrastructureError(
                    f"emulab: experiment {experiment} is {status or 'not there'} after {waited_s / 60:.1f} min; "
                    "raise testbed.options.emulab.ready_minutes, or look at its page"
                )
            self._sleep(self._patience.poll_s)

    def _experiment(self, name: str) -> dict[str, Any] | None:
        answer = self._client.call("GET", self._path(name))
        if answer.status == 404:
            return None
        data = answer.data()
        if not isinstance(data, dict):
            raise InfrastructureError(f"emulab: the portal's answer for {name} is no experiment: {answer.body[:200]!r}")
        return data

    def _path(self, experiment: str) -> str:
        return f"/experiments/{self._project},{experiment}"

    def _needed(self) -> PortalOptions:
        if self._options is None:
            raise ConfigurationError("emulab: no profile is named; set testbed.options.emulab (docs/emulab.md)")
        return self._options


def _object_rows(data: object, key: str) -> list[dict[str, Any]]:
    """The README shows a bare list, the OpenAPI document `{key: […]}`: both are read."""
    rows = data.get(key) if isinstance(data, dict) else data
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _epoch(stamp: object) -> float | None:
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return None


def _failure_text(experiment: Mapping[str, Any]) -> str:
    """Whatever an experiment that failed says of it, under whichever name."""
    told = ("error", "message", "fail", "reason")
    return " ".join(str(value) for key, value in experiment.items() if value and any(word in key for word in told))
