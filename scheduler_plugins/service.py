"""The policy service: answers Nimbus over HTTP on the master, with the same policies that a replay uses.

`python3 -m scheduler_plugins.service --listen ADDRESS:PORT --token-file FILE --log-dir DIR`. Standard library only, so
that it starts on any machine that has Python. Calls and bodies: docs/contracts.md.
"""

from __future__ import annotations

import argparse
import hmac
import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from scheduler_plugins.messages import MessageError
from scheduler_plugins.service_state import CallRefusal, ServiceState

log = logging.getLogger(__name__)
LARGEST_BODY = 64 * 1024 * 1024


class PolicyServer(ThreadingHTTPServer):
    """Serves one Desk; calls on it are serialised, so a slow policy delays samples but never loses them."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], token: str, state: ServiceState) -> None:
        super().__init__(address, _Handler)
        self.token, self.state, self.lock = token, state, threading.Lock()

    def answer(self, method: str, path: str, body: bytes) -> Mapping[str, Any]:
        call = CALLS.get((method, path))
        if call is None:
            raise CallRefusal(404, f"{method} {path}: known are {', '.join(f'{m} {p}' for m, p in sorted(CALLS))}")
        with self.lock:
            return call(self.state, body)


def _json_call(
    call: Callable[[ServiceState, Mapping[str, Any]], Mapping[str, Any]],
) -> Callable[[ServiceState, bytes], Mapping[str, Any]]:
    return lambda state, body: call(state, json.loads(body))


def _samples_call(state: ServiceState, body: bytes) -> Mapping[str, Any]:
    return state.take_samples(body.decode("utf-8", "replace").splitlines())


def _machine_samples_call(state: ServiceState, body: bytes) -> Mapping[str, Any]:
    state.take_machine_samples(body.decode("utf-8", "replace").splitlines())
    return {}


CALLS: Mapping[tuple[str, str], Callable[[ServiceState, bytes], Mapping[str, Any]]] = {
    ("POST", "/schedule"): _json_call(ServiceState.schedule),
    ("POST", "/applied"): _json_call(ServiceState.applied),
    ("POST", "/samples"): _samples_call,
    ("POST", "/machine_samples"): _machine_samples_call,
    ("POST", "/configure"): _json_call(ServiceState.configure),
    ("POST", "/scale"): _json_call(ServiceState.scale),
    ("POST", "/input_rate"): _json_call(ServiceState.change_input_rate),
    ("GET", "/state"): lambda state, _: state.state(),
}


class _Handler(BaseHTTPRequestHandler):
    server: PolicyServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        status, answer = self._status_and_answer()
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _status_and_answer(self) -> tuple[int, Mapping[str, Any]]:
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            self.close_connection = True
            return 413, {"error": f"Content-Length is {length!r}; allowed are 0 to {LARGEST_BODY}"}
        body = self.rfile.read(int(length))
        if not hmac.compare_digest(
            self.headers.get("Authorization", "").encode(), f"Bearer {self.server.token}".encode()
        ):
            return 401, {"error": "the token is missing or wrong"}
        try:
            return 200, self.server.answer(self.command, self.path, body)
        except CallRefusal as refused:
            return refused.status, {"error": str(refused)}
        except (MessageError, ValueError, KeyError, TypeError) as error:
            log.warning("%s %s: %s", self.command, self.path, traceback.format_exc())
            return 400, {"error": f"{type(error).__name__}: {error}"}

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scheduler_plugins.service", description=__doc__)
    parser.add_argument("--listen", required=True, help="address:port, on the control LAN")
    parser.add_argument("--token-file", required=True, type=Path)
    parser.add_argument("--log-dir", required=True, type=Path)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    address, _, port = options.listen.rpartition(":")
    token = options.token_file.read_text(encoding="utf-8").strip()
    server = PolicyServer((address, int(port)), token, ServiceState(options.log_dir))
    log.info("policy service on %s", options.listen)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
