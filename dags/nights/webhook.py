"""What was found, posted to the URL in BAROGRAPH_WEBHOOK. A URL is a secret: it is in no file, log line or message."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

VARIABLE = "BAROGRAPH_WEBHOOK"
LIMIT_S = 10.0
PAUSES_S = (2.0, 10.0)  # before the second and the third attempt


class _Stay(urllib.request.HTTPRedirectHandler):
    """A body that went to one place must not go to another that this place names."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


def post(
    body: Mapping[str, Any],
    url: str | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    limit_s: float = LIMIT_S,
) -> str:
    """One line on what became of it; empty where nobody asked to be told. Never raises: it must not fail a night."""
    url = os.environ.get(VARIABLE, "") if url is None else url
    if not url:
        return ""
    if wrong := _wrong(url):
        return f"the webhook was not called: {wrong}"
    data = json.dumps(body, allow_nan=False).encode()
    said = ""
    for pause_s in (0.0, *PAUSES_S):
        sleep(pause_s)
        said, again = _try(url, data, limit_s)
        if not again:
            break
    return said


def warning() -> str:
    """Before a night that would tell nobody; empty where nobody asked to be told, or the setting is fine."""
    url = os.environ.get(VARIABLE, "")
    wrong = _wrong(url) if url else ""
    return f"note: {wrong}; nobody will be told of this night" if wrong else ""


def _wrong(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    return "" if fine else f"{VARIABLE} is not an http:// or https:// URL"


def _try(url: str, data: bytes, limit_s: float) -> tuple[str, bool]:
    """What to say, and whether another attempt may help."""
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", "User-Agent": "barograph"})
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=limit_s) as answer:
            return f"the webhook was told ({answer.status})", False
    except urllib.error.HTTPError as error:
        error.close()
        lasting = error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code != HTTPStatus.TOO_MANY_REQUESTS
        return f"the webhook answered {error.code}", not lasting
    except Exception as error:  # noqa: BLE001 - whatever it is; its text may hold the URL, its kind does not
        return f"the webhook could not be reached ({_kind(error)})", True


def _kind(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    inner = reason if isinstance(reason, Exception) else error
    errno = getattr(inner, "errno", None)
    return (
        f"{type(inner).__name__}: {os.strerror(errno)}"
        if isinstance(errno, int) and errno > 0
        else type(inner).__name__
    )
