"""Emulab by the portal's REST interface: the HTTP client, manifests, and the access itself.

Paths, fields and words of the portal are only in this file. Documented (README and openapi.json of emulab/portal-api):
`X-Api-Token`, create with `duration` in hours, an experiment named by `project,name`, `status: ready`, 404 `No such
experiment` once it is gone, extension by `expires_at`, one manifest an aggregate. Not documented, and so read
loosely: the words of `status` besides `ready` and `failed`, and whether a profile of another project is listed.
Manifests (GENI RSpec 3): `node[@client_id]`, in it `services/login[@hostname][@port][@username]`, `host[@ipv4]` (the
control address) and `interface/ip[@address][@netmask]` (a LAN of the experiment's). Sources: the GENI
RSpec 3 manifest schema and manifests published by users. Not every manifest has `host[@ipv4]`; the login's host name
stands in.
"""

import json
import math
import os
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.emulab.access import EmulabTiming, Node, PortalOptions, emulab_error
from inventory.machines import MachineRequest

if TYPE_CHECKING:
    import httpx


DEFAULT_NETMASK = "255.255.255.0"  # Emulab's of a LAN


def manifest_nodes(manifests: Sequence[str], user: str) -> list[Node]:
    """Return every node of the manifests, in natural order of their names (node2 before node10)."""
    elements = []
    for text in manifests:
        # The parser resolves no external entities; a document that defines its own is not Emulab's.
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise InfrastructureError(
                "emulab: the manifest defines entities, which no RSpec does; is the endpoint right?"
            )
        try:
            root = ET.fromstring(text)
        except ET.ParseError as error:
            raise InfrastructureError(f"emulab: the manifest is no XML ({error}): {text[:200]!r}; try again") from error
        elements += list(root.iterfind(".//{*}node"))
    addresses = [(_name(node), _addresses(node)) for node in elements]
    # Of several LANs the first that all machines are on.
    lan = (
        next((lan for lan in addresses[0][1] if all(lan in each for _, each in addresses)), None) if addresses else None
    )
    if lan is None and all(each for _, each in addresses) and addresses:
        places = "; ".join(f"{name}: {', '.join(map(str, each))}" for name, each in addresses)
        raise ConfigurationError(f"emulab: no LAN has all machines ({places}); the profile must put them on one")
    nodes = [
        _manifest_node(node, user, each[lan] if lan else None)
        for node, (_, each) in zip(elements, addresses, strict=True)
    ]
    return sorted(
        nodes, key=lambda node: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", node.name)]
    )


def _name(node: ET.Element) -> str:
    return node.get("client_id") or "a node without client_id"


def _addresses(node: ET.Element) -> dict[IPv4Network, str]:
    """Return the node's address on each LAN, in the manifest's order."""
    addresses: dict[IPv4Network, str] = {}
    for ip in node.iterfind(".//{*}ip"):
        text = f"{ip.get('address')}/{ip.get('netmask') or DEFAULT_NETMASK}"
        with suppress(ValueError):  # no IPv4 address
            addresses.setdefault(IPv4Interface(text).network, str(IPv4Interface(text).ip))
    return addresses


def _manifest_node(node: ET.Element, user: str, address: str | None) -> Node:
    name = _name(node)
    logins = [one for one in node.iterfind(".//{*}login") if one.get("hostname")]
    login = next((one for one in logins if one.get("username") == user), logins[0] if logins else None)
    port = (login.get("port") or "22") if login is not None else ""
    if login is None or not address or not port.isdecimal():
        lacks = "no login" if login is None else f"the port {port!r}" if address else "no address on the experiment LAN"
        raise ConfigurationError(
            f"emulab: {name} has {lacks} in the manifest; the profile must give every node ssh and one LAN"
        )
    hostname = str(login.get("hostname"))
    inside = next((one.get("ipv4") for one in node.iterfind(".//{*}host") if one.get("ipv4")), None) or hostname
    return Node(name, hostname, int(port), inside, address)


def assign_nodes(nodes: Sequence[Node], names: Sequence[str]) -> tuple[Node, ...]:
    """Assign the machines to the nodes: by name where the profile uses our names, else in order."""
    if len(nodes) != len(names):
        raise ConfigurationError(
            f"emulab: the profile made {len(nodes)} nodes ({', '.join(node.name for node in nodes)}), "
            f"{len(names)} are needed; set their number in testbed.options.emulab.bindings, or name count_binding"
        )
    by_name = {node.name: node for node in nodes}
    ordered = [by_name[name] for name in names] if set(by_name) == set(names) else nodes
    return tuple(replace(node, name=name) for name, node in zip(names, ordered, strict=True))


TOKEN_VARIABLE = "BAROGRAPH_EMULAB_TOKEN"  # the variable's name
TOKEN_PAGE = "the portal's page of your account, `Portal API Token`; one lasts two months"
BUSY_STATUSES = (429, 503)
RETRY_STATUSES = (500, 502, 504)
REDIRECT_STATUSES = (307, 308)


def _json(answer: "httpx.Response") -> Any:
    try:
        return json.loads(answer.text or "null")
    except ValueError as error:
        raise InfrastructureError(
            f"emulab: the portal's answer ({answer.status_code}) is no JSON: {answer.text[:200]!r};"
            " is the endpoint right?"
        ) from error


class PortalClient:
    """The portal's client. `call` returns answers below 400 and 404; others are errors. It never shows the token."""

    def __init__(self, endpoint: str, timing: EmulabTiming) -> None:
        self._endpoint, self._timing = endpoint, timing

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> "httpx.Response":
        """Send one request, again where the portal is busy, or where it failed and a repetition does no harm."""
        deadline = time.monotonic() + self._timing.busy_s
        while True:
            is_late, wait_s = time.monotonic() >= deadline, self._timing.poll_s
            try:
                answer = self._follow(method, self._endpoint + path, body)
            except InfrastructureError:
                if method == "POST" or is_late:
                    raise
            else:
                is_failure = answer.status_code in RETRY_STATUSES and method != "POST"
                if is_late or not (answer.status_code in BUSY_STATUSES or is_failure):
                    return self._judged(method, path, answer)
                if (wish := answer.headers.get("Retry-After", "")).isdigit():
                    wait_s = min(float(wish), self._timing.busy_s)
            time.sleep(wait_s)

    def _follow(self, method: str, url: str, body: Mapping[str, object] | None) -> "httpx.Response":
        import httpx

        answer = self._send(method, url, body)
        if answer.status_code not in REDIRECT_STATUSES:
            return answer
        # httpx itself would carry this token to any host.
        try:
            target = answer.request.url.join(answer.headers.get("Location", ""))
        except httpx.InvalidURL as error:
            raise self._unreachable(error) from error
        if target.netloc != answer.request.url.netloc:
            raise ConfigurationError(
                f"emulab: {self._endpoint} redirects to {target.netloc.decode()}; the token is not carried there, "
                "set testbed.options.emulab.endpoint to it"
            )
        # A server behind a TLS proxy names the wrong scheme.
        return self._send(method, str(target.copy_with(scheme=answer.request.url.scheme)), body)

    def _send(self, method: str, url: str, body: Mapping[str, object] | None) -> "httpx.Response":
        import httpx

        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            raise ConfigurationError(f"emulab: {TOKEN_VARIABLE} is not set; set it to your token ({TOKEN_PAGE})")
        if not token.isascii() or not token.isprintable():
            raise ConfigurationError(
                f"emulab: {TOKEN_VARIABLE} has characters that no token has; copy it anew ({TOKEN_PAGE})"
            )
        headers = {"X-Api-Token": token, "Accept": "application/json"}
        try:
            return self._http.request(method, url, json=body, headers=headers)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from error
        except (ImportError, ValueError) as error:  # a proxy of the environment that httpx cannot use
            raise ConfigurationError(
                f"emulab: no way to the portal at {self._endpoint} ({error}); "
                "check ALL_PROXY, HTTP_PROXY and HTTPS_PROXY"
            ) from error

    @cached_property
    def _http(self) -> "httpx.Client":
        import httpx

        # The system's certificates, not httpx's own: a site may have added its issuer. No connection is kept, because
        # the portal may close it just as an experiment is created on it.
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(timeout=self._timing.connect_s, verify=ssl.create_default_context(), limits=limits)

    def _unreachable(self, error: Exception) -> ConfigurationError | InfrastructureError:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            return ConfigurationError(
                f"emulab: the certificate of {self._endpoint} is not trusted ({cause.verify_message}); "
                "check the endpoint, or set SSL_CERT_FILE to a file with its issuer"
            )
        return InfrastructureError(
            f"emulab: the portal at {self._endpoint} does not answer ({str(error) or type(error).__name__}); "
            "check testbed.options.emulab.endpoint and the network, then try again"
        )

    def _judged(self, method: str, path: str, answer: "httpx.Response") -> "httpx.Response":
        if answer.status_code < 400 or answer.status_code == 404:
            return answer
        message = _error_text(answer)
        if answer.status_code == 401:
            raise ConfigurationError(
                f"emulab: the portal refuses the token in {TOKEN_VARIABLE} (401: {message}); if it"
                f" expired, get another: {TOKEN_PAGE}"
            )
        if answer.status_code == 403:
            raise ConfigurationError(
                f"emulab: the token's owner may not {method} {path} (403: {message}); check project and profile_project"
            )
        if answer.status_code in BUSY_STATUSES:
            raise CapacityError(f"emulab: the portal is too busy ({answer.status_code}: {message}); try later")
        if answer.status_code >= 500:
            raise InfrastructureError(
                f"emulab: the portal failed at {method} {path} ({answer.status_code}: {message}); try again"
            )
        raise emulab_error(f"{method} {path} ({answer.status_code})", f"invalid: {message}")


def _error_text(answer: "httpx.Response") -> str:
    """Return the portal's `{"code": …, "error": …}` as one line; any other answer, shortened."""
    try:
        data = json.loads(answer.text)
    except ValueError:
        return answer.text[:200]
    if not isinstance(data, dict):
        return str(data)[:200]
    return " ".join(str(data[key]) for key in ("error", "errors", "detail") if data.get(key))[:400] or "no reason"


READY_STATUS = "ready"
ENDING_STATUSES = ("terminating", "terminated")
FINAL_STATUSES = ("failed", "canceled", *ENDING_STATUSES)
HOUR_S = 3600.0


class Portal:
    """Access by portal. `options`: the experiment's; without them (reaper, other process) it only looks and ends."""

    def __init__(self, endpoint: str, project: str, timing: EmulabTiming, options: PortalOptions | None = None) -> None:
        self._endpoint, self._project, self._timing, self._options = endpoint, project, timing, options
        self._client = PortalClient(endpoint, timing)

    def site(self) -> Mapping[str, str]:
        return {"access": "portal", "endpoint": self._endpoint, "project": self._project}

    def check(self, requests: Sequence[MachineRequest]) -> None:  # noqa: ARG002  # the profile describes the machines
        """Check the token, the project, the profile if it is listed."""
        options = self._needed()
        self.experiments()
        answer = self._client.call("GET", f"/profiles?project={options.profile_project}")
        profiles = [
            one for one in _object_rows(_json(answer), "profiles") if one.get("project") == options.profile_project
        ]
        names = sorted({str(one.get("name")) for one in profiles})
        # Other people's profiles may not be listed at all: then creating the experiment fails.
        if names and options.profile not in names:
            raise ConfigurationError(
                f"testbed.options.emulab.profile is {options.profile!r}; known in {options.profile_project}: "
                f"{', '.join(names)}"
            )

    def start(self, experiment: str, requests: Sequence[MachineRequest], end_s: float) -> None:
        """Start the experiment and wait until it is up. The portal counts in hours, so it ends up to an hour late."""
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
        if answer.status_code == 404:
            raise ConfigurationError(
                f"emulab: the portal knows no profile {options.profile_project}/{options.profile} or no project "
                f"{self._project} ({answer.text[:200]}); check profile, profile_project and project"
            )
        start = time.monotonic()
        while (status := (now := self._experiment(experiment) or {}).get("status")) != READY_STATUS:
            if status in FINAL_STATUSES:  # the messages, whatever their keys
                words = [str(now[key]) for key in now if now[key] and re.search("error|message|fail|reason", key)]
                raise emulab_error(f"experiment {experiment} is {status}", " ".join(words))
            waited_s = time.monotonic() - start
            if waited_s > (options.ready_minutes * 60 if now else self._timing.busy_s):
                raise InfrastructureError(
                    f"emulab: experiment {experiment} is {status or 'not there'} after {waited_s / 60:.1f} min; "
                    "raise testbed.options.emulab.ready_minutes, or look at its page"
                )
            time.sleep(self._timing.poll_s)

    def nodes(self, experiment: str, requests: Sequence[MachineRequest]) -> tuple[Node, ...]:
        answer = self._client.call("GET", f"{self._path(experiment)}/manifests")
        data = _json(answer)
        texts = [text for text in data.values() if isinstance(text, str)] if isinstance(data, dict) else []
        if answer.status_code == 404 or not texts:
            raise InfrastructureError(f"emulab: experiment {experiment} has no manifest (was it ended?); start again")
        nodes = manifest_nodes(texts, self._needed().user)
        return assign_nodes(nodes, [request.name for request in requests])

    def prolong(self, experiment: str, end_s: float) -> None:
        """Make it end itself at `end_s` or soon after. CapacityError where Emulab wants to approve it first."""
        now = self._experiment(experiment)
        if now is None:
            raise InfrastructureError(f"emulab: experiment {experiment} is gone; start again")
        if (ends := _epoch(now.get("expires_at"))) is not None and ends >= end_s:
            return
        body = {"expires_at": datetime.fromtimestamp(end_s, UTC).isoformat(timespec="seconds"), "reason": "measuring"}
        answer = _json(self._client.call("PUT", self._path(experiment), body))
        granted = _epoch(answer.get("expires_at")) if isinstance(answer, dict) else None
        if granted is None or granted < end_s - 60:
            until = "its old end" if granted is None else datetime.fromtimestamp(granted, UTC).isoformat()
            raise CapacityError(
                f"emulab: experiment {experiment} shall last until {body['expires_at']} and lasts until {until}; "
                "an administrator may have to approve more; ask for a shorter series, or resume it later"
            )

    def end(self, experiment: str) -> None:
        """End it, until it is gone. A running transition may have to end first, so the request is repeated."""
        deadline = time.monotonic() + self._timing.end_s
        refusal: Exception | None = None
        while (now := self._experiment(experiment)) is not None:
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"emulab: experiment {experiment} is still there {self._timing.end_s:g} s after it was ended; "
                    f"end it on its page, or later with `barograph reap`{f' ({refusal})' if refusal else ''}"
                ) from refusal
            try:
                if now.get("status") not in ENDING_STATUSES:
                    self._client.call("DELETE", self._path(experiment))
            except ConfigurationError as error:  # 4xx: busy, as far as it is known
                refusal = error
            time.sleep(self._timing.poll_s)

    def experiments(self) -> tuple[str, ...]:
        answer = self._client.call("GET", f"/experiments?project={self._project}")
        if answer.status_code == 404:
            raise ConfigurationError(
                f"testbed.options.emulab.project is {self._project!r}: the portal knows none ({answer.text[:200]})"
            )
        rows = _object_rows(_json(answer), "experiments")
        return tuple(str(one.get("name")) for one in rows if one.get("project", self._project) == self._project)

    def _experiment(self, name: str) -> dict[str, Any] | None:
        answer = self._client.call("GET", self._path(name))
        if answer.status_code == 404:
            return None
        data = _json(answer)
        if not isinstance(data, dict):
            raise InfrastructureError(f"emulab: the portal's answer for {name} is no experiment: {answer.text[:200]!r}")
        return data

    def _path(self, experiment: str) -> str:
        return f"/experiments/{self._project},{experiment}"

    def _needed(self) -> PortalOptions:
        if self._options is None:
            raise ConfigurationError("emulab: no profile is named; set testbed.options.emulab (docs/testbeds.md)")
        return self._options


def _object_rows(data: object, key: str) -> list[dict[str, Any]]:
    """Read rows from a bare list (README) or from `{key: […]}` (OpenAPI document)."""
    rows = data.get(key) if isinstance(data, dict) else data
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _epoch(stamp: object) -> float | None:
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return None
