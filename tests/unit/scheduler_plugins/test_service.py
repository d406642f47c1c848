from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.service import PolicyServer
from scheduler_plugins.service_state import ServiceState
from tests.support.rounds import request as round_request


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PolicyServer]:
    server = PolicyServer(("127.0.0.1", 0), "secret", ServiceState(tmp_path))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def call(server: PolicyServer, path: str, body: Any = None, token: str = "secret") -> tuple[int, dict[str, Any]]:
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    asked = urllib.request.Request(url, data=data, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_round_over_http(server: PolicyServer) -> None:
    assert call(server, "/configure", {"run_id": "r1", "policy": "stela", "parameters": {}, "window_s": 30})[0] == 200
    status, answer = call(server, "/schedule", round_request(1000.0))
    assert status == 200 and answer["decision_id"] == "d1" and answer["policy"] == "stela"
    assert call(server, "/state")[1]["run_id"] == "r1"


def test_the_input_rate_goes_to_those_who_post_samples(server: PolicyServer) -> None:
    assert call(server, "/samples", b"")[1] == {"input_rate_factor": 1.0}
    status, answer = call(server, "/input_rate", {"factor": 2})
    assert status == 200 and answer["factor"] == 2.0 and answer["t"] > 0
    assert call(server, "/samples", b"")[1] == {"input_rate_factor": 2.0}
    status, answer = call(server, "/input_rate", {"factor": 0})
    assert status == 400 and "factor is 0; allowed is a number above 0" in answer["error"]


def test_without_the_token_nothing_is_answered(server: PolicyServer) -> None:
    assert call(server, "/state", token="guess")[0] == 401
    assert call(server, "/schedule", round_request(1000.0), token="")[0] == 401


def test_bad_calls_are_answered_not_died_of(server: PolicyServer) -> None:
    assert call(server, "/nothing")[0] == 404
    assert call(server, "/schedule", b"{not json")[0] == 400
    assert call(server, "/schedule", {"t": 1.0, "machines": []})[0] == 400
    assert call(server, "/scale", {"event_id": "e", "kind": "scale_out", "joined": ["m1"]})[0] == 409
    assert call(server, "/state")[0] == 200
