"""The webhook: told, told again where that may help, and never a URL in what is said."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from barograph.nights.findings import PAUSES_S, post
from barograph.settings import WEBHOOK_VARIABLE

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


def test_it_is_posted_once_where_somebody_asked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert post({"v": 1}, "") == ""
    monkeypatch.setenv(WEBHOOK_VARIABLE, place.url)
    pauses: list[float] = []
    assert post({"v": 1, "text": "−3 %"}, sleep=pauses.append) == "the message was posted to the webhook (200)"
    assert place.heard == [{"v": 1, "text": "−3 %"}] and pauses == [0.0]


@pytest.mark.parametrize(
    ("answers", "outcome", "requests"),
    [
        ([500, 429, 200], "the message was posted to the webhook (200)", 3),
        ([503] * 5, "the webhook answered 503", 3),
        ([404], "the webhook answered 404", 1),
        ([302], "the webhook answered 302", 1),
        ([307], "the webhook answered 307", 1),
    ],
)
def test_what_may_pass_is_tried_again_twice_and_a_redirection_is_not_followed(
    place: Place, answers: list[int], outcome: str, requests: int
) -> None:
    pauses: list[float] = []
    place.answers, place.headers = answers, {"Location": place.url}
    assert post({}, place.url, sleep=pauses.append) == outcome
    assert len(place.heard) == requests and pauses == [0.0, *PAUSES_S][:requests]


def test_a_slow_one_is_given_up(place: Place) -> None:
    place.wait_s = 0.6
    said = post({}, place.url, sleep=lambda _: None, limit_s=0.1)
    assert said.startswith("the webhook could not be reached (Timeout")


@pytest.mark.parametrize(
    "url", ["ftp://host/" + SECRET, "http://", SECRET, "http://h:port/" + SECRET, "http://h:1/" + SECRET,
            "http://127.0.0.1:9/" + SECRET]
)  # fmt: skip
def test_the_url_is_never_said(url: str) -> None:
    said = post({}, url, sleep=lambda _: None)
    assert said and SECRET not in said and "host" not in said
    if "127" in url:
        assert said == "the webhook could not be reached (ConnectionRefusedError: Connection refused)"
