"""The policy service: answers Nimbus over HTTP on the master, with the same policies that a replay uses.

`python3 -m scheduler_plugins.service --listen ADDRESS:PORT --token-file FILE --log-dir DIR`. Standard library only, so
that it starts on any machine that has Python. Calls and bodies: docs/contracts.md.

Environment:
    BAROGRAPH_SERVICE_CERTIFICATE, BAROGRAPH_SERVICE_KEY  files; with them it speaks TLS and nothing else
    BAROGRAPH_HARNESS_SHA256                              digest of the harness's own token, which is on no machine
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import io
import json
import logging
import os
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scheduler_plugins.service.messages import MessageError, answer_json, request_from_json
from scheduler_plugins.service.policy_call import HANG_FILE, HANG_S, HangWatch, Round, TimedDecisions
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.state import ServiceState

log = logging.getLogger(__name__)
LARGEST_BODY = 16 * 1024 * 1024
REQUEST_S = 10.0  # from a request's first byte to its last; an unauthenticated connection has to send one within it
IDLE_S = 60.0  # of an authenticated connection
HARNESS_HEADER = "X-Barograph-Harness"
TOPOLOGY_HEADER = "X-Barograph-Topology"  # of each POST /samples: the id of the worker's topology
SOURCES_HEADER = "X-Barograph-Sources"  # of an empty POST /samples: tasks that begin, and their topology: `5,6 star-1`


class PolicyServer(ThreadingHTTPServer):
    """A server of one ServiceState. Calls on it are serialised; while a policy decides all others are answered.

    `restart` begins a fresh process: a policy still computing when the next run begins would disturb that run.
    ValueError for an empty token.
    """

    daemon_threads = True
    # The library's 5 overflow when a cluster's workers connect at once; a lost SYN is repeated after 1, 3 and 7 s only.
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        token: str,
        state: ServiceState,
        *,
        harness_sha256: str = "",
        tls: ssl.SSLContext | None = None,
        decisions: TimedDecisions | None = None,
        restart: Callable[[], None] = lambda: None,
        begin_run: Callable[[str], None] = lambda _run_id: None,
    ) -> None:
        if not token or harness_sha256 == hashlib.sha256(b"").hexdigest():
            raise ValueError("a token is empty, which would let everybody in; deploy again with another one")
        super().__init__(address, _ServiceHandler)
        self.token, self.harness_sha256, self.tls = token, harness_sha256, tls
        self.state, self.lock, self.restart = state, threading.Lock(), restart
        self.begin_run = begin_run
        self.decisions = decisions or TimedDecisions()
        self.decisions.late = self._note_late_decision

    def answer(self, method: str, path: str, body: bytes, headers: Mapping[str, str] = MappingProxyType({})) -> Any:
        call = CALLS.get((method, path))
        if call is None:
            raise CallRefusal(404, f"{method} {path}: known are {', '.join(f'{m} {p}' for m, p in sorted(CALLS))}")
        if path == "/schedule":
            with self.lock:
                round = self.state.begin_round(request_from_json(json.loads(body)))
            outcome = self.decisions.decide(round) if round.decision is None else round.decision
            with self.lock:
                return answer_json(self.state.end_round(round, outcome))
        if path == "/configure" and self.decisions.busy():
            raise Restarting(503, "configure: the policy of the run before still decides; the service begins anew")
        with self.lock:
            reply = call(self.state, body, headers)
            if path == "/configure":
                self.begin_run(self.state.run_id)
            return reply

    def _note_late_decision(self, round: Round, why: str) -> None:
        with self.lock:
            self.state.explain_failure(round, why)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands in the connection's own thread: a slow one delays no other."""
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(REQUEST_S)
        with self.tls.wrap_socket(request, server_side=True) as secure:
            super().finish_request(secure, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  # the base class names it
        log.info("connection from %s: %s", client_address, sys.exc_info()[1])


class Restarting(CallRefusal):
    """The process begins anew after the answer; worth asking again."""


Call = Callable[[ServiceState, bytes, Mapping[str, str]], Mapping[str, Any]]  # of a body and headers


def _json_call(call: Callable[[ServiceState, Mapping[str, Any]], Mapping[str, Any]]) -> Call:
    return lambda state, body, _headers: call(state, json.loads(body))


def _lines(body: bytes) -> list[str]:
    return body.decode("utf-8", "replace").splitlines()


def _samples_call(state: ServiceState, body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
    reply = state.take_samples(_lines(body), headers.get(TOPOLOGY_HEADER, ""))
    state.note_sources(headers.get(SOURCES_HEADER, ""))
    return reply


CALLS: Mapping[tuple[str, str], Call] = {
    ("POST", "/schedule"): _json_call(ServiceState.schedule),
    ("POST", "/applied"): _json_call(ServiceState.applied),
    ("POST", "/samples"): _samples_call,
    ("POST", "/machine_samples"): lambda state, body, _headers: state.take_machine_samples(_lines(body)),
    ("POST", "/configure"): _json_call(ServiceState.configure),
    ("POST", "/scale"): _json_call(ServiceState.scale),
    ("POST", "/rounds"): _json_call(ServiceState.change_rounds),
    ("POST", "/machines"): _json_call(ServiceState.end_machine_request),
    ("POST", "/input_rate"): _json_call(ServiceState.change_input_rate),
    ("GET", "/state"): lambda state, _body, _headers: state.state(),
}
OF_THE_MACHINES = ("/schedule", "/applied", "/samples", "/machine_samples")  # all others are the harness's


class _TimedReads(io.RawIOBase):
    """A connection's bytes: each request within REQUEST_S from its first one on, however slowly they come."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.idle_s = connection, REQUEST_S
        self.end: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        timeout_s = self.idle_s if self.end is None else self.end - time.monotonic()
        if timeout_s <= 0:
            raise TimeoutError(f"the request was not there after {REQUEST_S:g} s")
        self.connection.settimeout(timeout_s)
        size = self.connection.recv_into(buffer)
        if self.end is None:
            self.end = time.monotonic() + REQUEST_S
        return size


class _ServiceHandler(BaseHTTPRequestHandler):
    server: PolicyServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.reads = _TimedReads(self.connection)
        self.rfile = io.BufferedReader(self.reads)

    def handle_one_request(self) -> None:
        self.reads.end = None
        super().handle_one_request()

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        status, answer = self._status_and_answer()
        data = json.dumps(answer).encode()
        self.connection.settimeout(REQUEST_S)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        if status == 503:
            self.server.restart()

    def _status_and_answer(self) -> tuple[int, Mapping[str, Any]]:
        """Check the token before the body: of an unauthenticated request only headers are read."""
        length, closes_after = self.headers.get("Content-Length", "0"), self.close_connection
        self.close_connection = True  # unread bytes would be taken for the next request
        if not self._is_allowed():
            return 401, {"error": "the token is missing or wrong"}
        self.reads.idle_s = IDLE_S
        if not length.isdigit() or int(length) > LARGEST_BODY or "Transfer-Encoding" in self.headers:
            return 413, {"error": f"Content-Length is {length!r}; allowed are 0 to {LARGEST_BODY}, in one piece"}
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return 400, {"error": f"the body ended after {len(body)} of {length} bytes"}
        self.close_connection = closes_after
        try:
            call_headers = {name: self.headers.get(name, "") for name in (TOPOLOGY_HEADER, SOURCES_HEADER)}
            return 200, self.server.answer(self.command, self.path, body, call_headers)
        except CallRefusal as refused:
            return refused.status, {"error": str(refused)}
        except (MessageError, ValueError, KeyError, TypeError) as error:
            log.warning("%s %s: %s", self.command, self.path, traceback.format_exc())
            return 400, {"error": f"{type(error).__name__}: {error}"}
        except Exception as error:  # a full disk, or a bug of ours: the caller should know it
            log.exception("%s %s", self.command, self.path)
            return 500, {"error": f"{type(error).__name__}: {error}"}

    def _is_allowed(self) -> bool:
        """Return whether the tokens allow the call. The harness's calls need its own token too: code on machines has
        theirs."""
        bearer = f"Bearer {self.server.token}".encode()
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), bearer):
            return False
        if not self.server.harness_sha256 or self.path in OF_THE_MACHINES:
            return True
        digest = hashlib.sha256(self.headers.get(HARNESS_HEADER, "").encode()).hexdigest()
        return hmac.compare_digest(digest, self.server.harness_sha256)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scheduler_plugins.service", description=__doc__)
    parser.add_argument("--listen", required=True, help="address:port, on the control LAN")
    parser.add_argument("--token-file", required=True, type=Path)
    parser.add_argument("--log-dir", required=True, type=Path)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    address, _, port = options.listen.rpartition(":")
    if address in ("", "*", "0.0.0.0", "::", "[::]"):
        parser.error(f"--listen is {options.listen}: every address; give the one of the control LAN")
    watch, state = HangWatch(options.log_dir / HANG_FILE, HANG_S), ServiceState(options.log_dir)
    state.policy_hang = watch.hang
    certificate, key = (os.environ.get(f"BAROGRAPH_SERVICE_{part}", "") for part in ("CERTIFICATE", "KEY"))
    server = PolicyServer(
        (address, int(port)),
        options.token_file.read_text(encoding="utf-8").strip(),
        state,
        harness_sha256=os.environ.get("BAROGRAPH_HARNESS_SHA256", ""),
        tls=tls_context(certificate, key) if certificate else None,
        decisions=TimedDecisions(watch=watch),
        restart=lambda: os.execv(sys.executable, sys.orig_argv),
        begin_run=watch.begin_run,
    )
    with suppress(ChildProcessError):  # of a service that began anew in this process
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    log.info("policy service on %s", options.listen)
    server.serve_forever()
    return 0
