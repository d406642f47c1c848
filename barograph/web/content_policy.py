"""Rights of our pages in a browser inside Airflow: show them, run the scripts that we ship, and nothing else.

A frame of Airflow's page has Airflow's origin: a script smuggled into a results folder could act there as the reader of
the report. So a page runs exactly the scripts of this version of Barograph, identified by their text; without them our
pages are complete, only without interaction.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from barograph.settings import ROOT
from barograph.web.result_files import PAGE

SCRIPT = re.compile(rb"<script\b[^>]*>(.*?)</script\s*>", re.IGNORECASE | re.DOTALL)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}


def policy_header(scripts: Iterable[str] = ()) -> str:
    """Return the Content-Security-Policy of a page with these scripts (digests as the header has them)."""
    allowed = " ".join(f"'sha256-{digest}'" for digest in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src 'self' data:; font-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def policy_header_of(file: Path) -> str:
    """Return the policy of a served file; only a page may run scripts."""
    if file.suffix != PAGE:
        return policy_header()
    state = file.stat()
    return policy_header(_scripts_of(file, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=256)
def _scripts_of(file: Path, _changed_ns: int, _size: int) -> tuple[str, ...]:
    return scripts_in(file.read_bytes())


def scripts_in(page: bytes) -> tuple[str, ...]:
    """Return digests of the scripts in the page that are ours."""
    bodies = (match[1] for match in SCRIPT.finditer(page))
    return tuple(dict.fromkeys(_digest(body) for body in bodies if body.strip() in shipped_scripts()))


@cache
def shipped_scripts() -> frozenset[bytes]:
    """Return the text of every script that our pages include; white space around it depends on the template."""
    files = (*(ROOT / "analysis").rglob("*.js"), *(ROOT / "analysis").rglob("*.js.j2"))
    return frozenset(file.read_bytes().strip() for file in files)


def _digest(body: bytes) -> str:
    return base64.b64encode(hashlib.sha256(body).digest()).decode()
