"""The webhook: told, told again where that may help, and never a URL in what is said."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from barograph.nights.findings import PAUSES_S, WEBHOOK_VARIABLE, post

SECRET = "hooks/T0/very-secret"


@dataclass
class Place:
    """A server that answers as told and keeps what it hears."""

    answers: list[int] = field(default_factory=list)
    heard: list[dict[str, object]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    url: str = ""


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.heard.append(json.loads(body))
            time.sleep(found.wait_s)
            self.send_response(found.answers.pop(0) if found.answers else 200)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/{SECRET}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def test_nobody_asked() -> None:
    assert post({"v": 1}, "") == ""


def test_it_is_told_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK_VARIABLE, place.url)
    pauses: list[float] = []
    assert post({"v": 1, "text": "−3 %"}, sleep=pauses.append) == "the message was posted to the webhook (200)"
    assert place.heard == [{"v": 1, "text": "−3 %"}] and pauses == [0.0]


def test_what_may_pass_is_tried_again_twice(place: Place) -> None:
    pauses: list[float] = []
    place.answers = [500, 429, 200]
    assert post({}, place.url, sleep=pauses.append) == "the message was posted to the webhook (200)"
    assert len(place.heard) == 3 and pauses == [0.0, *PAUSES_S]
    place.answers = [503] * 5
    assert post({}, place.url, sleep=pauses.append) == "the webhook answered 503"
    assert len(place.heard) == 6


def test_what_will_not_pass_is_not_tried_again(place: Place) -> None:
    place.answers = [404]
    assert post({}, place.url, sleep=lambda _: None) == "the webhook answered 404"
    assert len(place.heard) == 1


@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_redirection_is_not_followed(place: Place, status: int) -> None:
    place.answers, place.headers = [status], {"Location": place.url}
    assert post({}, place.url, sleep=lambda _: None) == f"the webhook answered {status}"
    assert len(place.heard) == 1


def test_a_slow_one_is_given_up(place: Place) -> None:
    place.wait_s = 0.6
    said = post({}, place.url, sleep=lambda _: None, limit_s=0.1)
    assert said.startswith("the webhook could not be reached (Timeout")


@pytest.mark.parametrize(
    "url", ["ftp://host/" + SECRET, "http://", SECRET, "http://h:port/" + SECRET, "http://h:1/" + SECRET]
)
def test_the_url_is_never_said(url: str) -> None:
    said = post({}, url, sleep=lambda _: None)
    assert said and SECRET not in said and "host" not in said


def test_it_is_in_no_message_where_nobody_listens() -> None:
    said = post({}, f"http://127.0.0.1:9/{SECRET}", sleep=lambda _: None)
    assert said == "the webhook could not be reached (ConnectionRefusedError: Connection refused)"
