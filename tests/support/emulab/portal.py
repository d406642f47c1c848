"""Emulab's portal over HTTP as its README, its openapi.json and its users' clients tell of it."""

import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.emulab.nodes import Nodes

URN = "urn:publicid:IDN+emulab.net+authority+cm"
TOKEN = "a-token-that-nobody-may-see"


class Dropped(Exception):
    """Raised by a hook: the connection ends without an answer."""


@dataclass
class Experiment:
    name: str
    body: dict[str, Any]
    expires_at: datetime
    status: str = "created"
    polls: int = 0
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    addresses: list[str] = field(default_factory=list)
    error: str = ""

    def data(self) -> dict[str, Any]:
        node = [{"client_id": f"node{n}", "state": "started", "status": "ready"} for n in range(len(self.addresses))]
        return {
            "id": self.uid, "name": self.name, "project": self.body["project"], "status": self.status,
            "profile_name": self.body["profile_name"], "expires_at": self.expires_at.isoformat(),
            "bindings": self.body.get("bindings"), "aggregates": {URN: {"urn": URN, "nodes": node}},
            **({"error_message": self.error} if self.error else {}),
        }  # fmt: skip


@dataclass
class FakePortal:
    """One project, one profile. `hook(n, method, path)` hears of the n-th request and may answer or drop it."""

    nodes: Nodes
    project: str = "storm"
    profile: str = "small-lan"
    slowness: int = 2  # polls from one status to the next
    most_hours: int = 24 * 14
    seen: list[tuple[str, str]] = field(default_factory=list)
    experiments: dict[str, Experiment] = field(default_factory=dict)
    hook: Callable[[int, str, str], tuple[int, dict[str, str]] | None] = lambda _n, _method, _path: None
    after: Callable[[int], None] = lambda _n: None
    logins: bool = True

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        portal = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def _any(self) -> None:
                portal._handle(self)

            do_GET = do_POST = do_PUT = do_DELETE = _any

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers.get("Content-Length") or 0)) or b"null")
        with self._lock:
            self.seen.append((request.command, request.path))
            count = len(self.seen)
            try:
                refused = self.hook(count, request.command, request.path)
                status, headers, answer = (*refused, _error(refused[0], "made by a test")) if refused else (
                    self._answer(request.command, request.path, request.headers.get("X-Api-Token"), body)
                )  # fmt: skip
                self.after(count)
            except Dropped:
                request.close_connection = True
                request.connection.close()
                return
        text = json.dumps(answer).encode()
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(text))}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.write(text)

    def _answer(self, method: str, path: str, token: str | None, body: Any) -> tuple[int, dict[str, str], Any]:
        parts = urlsplit(path)
        if parts.path == "/experiments" and method == "POST":
            return 307, {"Location": "/experiments/"}, None  # as its web framework does
        if token != TOKEN:
            return 401, {}, _error(401, "Unauthorized")
        words = [word for word in parts.path.split("/") if word]
        if words == ["profiles"]:
            project = parse_qs(parts.query).get("project", [""])[0]
            rows = [{"name": self.profile, "project": "PortalProfiles"}] if project == "PortalProfiles" else []
            return 200, {}, {"profiles": rows}
        if words == ["experiments"]:
            return self._create(body) if method == "POST" else self._list(parse_qs(parts.query))
        status, answer = self._one(method, words[1].split(","), words[2:], body)
        return status, {}, answer

    def _list(self, query: dict[str, list[str]]) -> tuple[int, dict[str, str], Any]:
        if query.get("project", [self.project])[0] != self.project:
            return 404, {}, _error(404, "No such project")
        return 200, {}, {"experiments": [one.data() for one in self.experiments.values()]}

    def _create(self, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        if (body["project"], body["profile_name"]) != (self.project, self.profile):
            return 404, {}, _error(404, "No such profile or project")
        if body["name"] in self.experiments:
            return 400, {}, _error(400, "Experiment name already in use")
        if len(body["name"]) > 16 or not isinstance(body["duration"], int):
            return 400, {}, _error(400, "Invalid name or duration")
        ends = datetime.now(UTC) + timedelta(hours=body["duration"])
        made = self.experiments[body["name"]] = Experiment(body["name"], body, ends)
        return 200, {}, made.data()

    def _one(self, method: str, pair: list[str], rest: list[str], body: Any) -> tuple[int, Any]:
        found = self.experiments.get(pair[1]) if pair[0] == self.project else None
        if found is None:
            return 404, _error(404, "No such experiment")
        if rest == ["manifests"]:
            return 200, {URN: self._manifest(found)}
        if method == "DELETE":
            if found.status not in ("ready", "failed"):
                self._advance(found)
                return 409, _error(409, "Experiment is busy")
            found.status, found.polls = "terminating", 0
            return 204, None
        if method == "PUT":
            return self._extend(found, body)
        self._advance(found)
        return 200, found.data()

    def _extend(self, found: Experiment, body: dict[str, Any]) -> tuple[int, Any]:
        wished = datetime.fromisoformat(body["expires_at"])
        if wished <= datetime.now(UTC) + timedelta(hours=self.most_hours):  # else: an administrator is asked
            found.expires_at = wished
        return 200, found.data()

    def _advance(self, found: Experiment) -> None:
        found.polls += 1
        if found.polls < self.slowness:
            return
        found.polls = 0
        if found.status == "terminating":
            for address in found.addresses:
                self.nodes.take_back(address)
            del self.experiments[found.name]
        elif found.status == "created":
            found.status = "provisioning"
        elif found.status == "provisioning":
            self._map(found)
        elif found.status == "booting":
            found.status = "ready"

    def _map(self, found: Experiment) -> None:
        wanted, bindings = int(found.body["bindings"]["nodeCount"]), found.body["bindings"]
        free = self.nodes.free.get(bindings["phystype"], 0)
        if wanted > free:
            found.status = "failed"
            found.error = (
                f"*** Resource reservation violation: {wanted} nodes of type {bindings['phystype']} requested, "
                f"but only {free} available because of existing resource reservations"
            )
            return
        found.addresses = [self.nodes.boot(name, bindings["phystype"]) for name in _names(wanted)]
        found.status = "booting"

    def _manifest(self, found: Experiment) -> str:
        return manifest(found.addresses, self.nodes.port, self.logins)


def manifest(addresses: list[str], port: int, logins: bool = True) -> str:
    """As GENI's RSpec 3 has it, shortened to the elements that a client may read."""
    nodes = "".join(_node(number, address, port, logins) for number, address in enumerate(addresses))
    return (
        '<?xml version="1.0"?><rspec xmlns="http://www.geni.net/resources/rspec/3" type="manifest" '
        'xmlns:emulab="http://www.protogeni.net/resources/rspec/ext/emulab/1">' + nodes + "</rspec>"
    )


def _node(number: int, address: str, port: int, logins: bool) -> str:
    login = f'<login authentication="ssh-keys" hostname="{address}" port="{port}" username="ann"/>' if logins else ""
    return (
        f'<node client_id="node{number}" component_id="urn:publicid:IDN+emulab.net+node+pc{number}" exclusive="true">'
        f'<sliver_type name="raw-pc"/><emulab:vnode name="pc{number}" hardware_type="d710"/>'
        f'<host name="node{number}.x.storm.emulab.net" ipv4="{address}"/><services>{login}</services>'
        f'<interface client_id="node{number}:if0"><ip address="10.10.1.{number + 1}" type="ipv4" '
        'netmask="255.255.255.0"/></interface></node>'
    )


def _names(count: int) -> list[str]:
    return ["master", *(f"m{number}" for number in range(1, count))]


def _error(code: int, text: str) -> dict[str, object]:
    return {"code": code, "error": text}
