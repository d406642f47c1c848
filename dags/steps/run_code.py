"""Which code decides on a cluster: deploy brings the harness's own, and between two runs it may be switched."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dags.errors import RunBroken
from dags.experiment import Code
from dags.sources.build import service_of
from dags.sources.checkout import named
from dags.sources.homes import home_of
from playbooks import cluster
from playbooks.errors import StormRefused

log = logging.getLogger(__name__)
BASE = "home.json"  # in the cluster's folder: the Storm home that deploy brought, whatever is built here later
PRESENT = "code.json"  # there only while it is known what the master has


def deployed(directory: Path, home: Path) -> None:
    """The master has the harness's own code."""
    _write(directory / BASE, {"home": str(home)})
    _write(directory / PRESENT, _what(home, None))


def base_home(directory: Path) -> Path | None:
    """What the cluster was deployed with; None before that."""
    known = _read(directory / BASE)
    return Path(known["home"]) if known else None


def use(inventory: Path, directory: Path, code: Code | None) -> None:
    """The run's code decides from now on; nothing is touched where it does already. None: the harness's own.

    Raises RunBroken where it does not start.
    """
    base = base_home(directory)
    assert base is not None, "a run before the cluster was deployed"
    home = home_of(code, base, log.info) if code else base
    wanted, present = _what(home, code), directory / PRESENT
    if _read(present) == wanted:
        return
    present.unlink(missing_ok=True)
    try:
        cluster.switch(inventory, directory, home, {}, service_of(code) if code else None)
    except StormRefused as error:
        raise RunBroken(f"{named(code) if code else 'the harness'}: {error}") from error
    _write(present, wanted)


def _what(home: Path, code: Code | None) -> Mapping[str, Any]:
    """A scheduler that is not ours is all in its home."""
    return {"home": home.name, "service": code.commit if code and not code.scheduler else None}


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        data: dict[str, Any] = json.loads(path.read_text())
        return data
    return None


def _write(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data) + "\n")
