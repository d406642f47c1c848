"""HTTP to Emulab's portal: the token, limits, what may be asked again, and whose failure an answer is."""

import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import urljoin, urlsplit

from inventory.emulab.access import Patience, failure
from inventory.errors import CapacityError, ConfigurationError, InfrastructureError

TOKEN = "BAROGRAPH_EMULAB_TOKEN"  # the variable's name
WHERE = "the portal's page of your account, `Portal API Token`; one lasts two months"
BUSY = (429, 503)
AGAIN = (500, 502, 504)
MOVED = (307, 308)


@dataclass(frozen=True)
class Answer:
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


class _Stay(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by `PortalClient`, which does not carry the token to another host."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class PortalClient:
    """`call` returns answers below 400 and 404; every other one is an error with a blame. The token is never told."""

    def __init__(self, endpoint: str, patience: Patience, sleep: Callable[[float], None] = time.sleep) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._sleep = sleep
        self._opener = urllib.request.build_opener(_Stay)

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Answer:
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
            if late or not (answer.status in BUSY or (answer.status in AGAIN and method != "POST")):
                return self._judged(method, path, answer)
            self._sleep(self._wait_s(answer))

    def _wait_s(self, answer: Answer) -> float:
        wished = answer.headers.get("Retry-After", "")
        return min(float(wished), self._patience.busy_s) if wished.isdigit() else self._patience.poll_s

    def _follow(self, method: str, url: str, body: Mapping[str, object] | None) -> Answer:
        answer = self._send(method, url, body)
        if answer.status not in MOVED:
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

    def _send(self, method: str, url: str, body: Mapping[str, object] | None) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Api-Token": _token(), "Content-Type": "application/json", "Accept": "application/json"}
        # The pattern of the endpoint allows http(s) only.
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._patience.connect_s) as reply:
                return Answer(reply.status, reply.read().decode(errors="replace"), reply.headers)
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode(errors="replace"), error.headers)
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

    def _judged(self, method: str, path: str, answer: Answer) -> Answer:
        if answer.status < 400 or answer.status == 404:
            return answer
        said = _words(answer)
        if answer.status == 401:
            raise ConfigurationError(
                f"emulab: the portal refuses the token in {TOKEN} (401: {said}); if it expired, get another: {WHERE}"
            )
        if answer.status == 403:
            raise ConfigurationError(
                f"emulab: the token's owner may not {method} {path} (403: {said}); check project and profile_project"
            )
        if answer.status in BUSY:
            raise CapacityError(f"emulab: the portal is too busy ({answer.status}: {said}); try later")
        if answer.status >= 500:
            raise InfrastructureError(
                f"emulab: the portal failed at {method} {path} ({answer.status}: {said}); try again"
            )
        raise failure(f"{method} {path} ({answer.status})", f"invalid: {said}")


def _words(answer: Answer) -> str:
    """The portal's `{"code": …, "error": …}` as one line; whatever else came, shortened."""
    try:
        data = json.loads(answer.body)
    except ValueError:
        return answer.body[:200]
    if not isinstance(data, dict):
        return str(data)[:200]
    return " ".join(str(data[key]) for key in ("error", "errors", "detail") if data.get(key))[:400] or "no reason"


def _token() -> str:
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise ConfigurationError(f"emulab: {TOKEN} is not set; set it to your token ({WHERE})")
    if not token.isascii() or not token.isprintable():
        raise ConfigurationError(f"emulab: {TOKEN} has characters that no token has; copy it anew ({WHERE})")
    return token
