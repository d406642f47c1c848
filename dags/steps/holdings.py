"""What a series really held: `holdings.jsonl`, appended before a machine exists and after it is gone.

A harness that is killed leaves machines without an end in it; these count until they were reaped, or else until the
end of their lease, when they have ended themselves.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.record import json_lines
from inventory.leases import Lease
from inventory.machines import MachineRequest, MachineType

log = logging.getLogger(__name__)
FILE = "holdings.jsonl"


@dataclass(frozen=True)
class Held:
    """One machine, from when it was asked for to when it was gone (epoch seconds)."""

    request: MachineRequest
    lease_id: str
    from_s: float
    to_s: float

    @property
    def hours(self) -> float:
        return max(0.0, self.to_s - self.from_s) / 3600


def note_held(series_dir: Path, lease: Lease, requests: Sequence[MachineRequest], now_s: float) -> None:
    """Before they are asked for. Raises OSError: what cannot be written down must not be rented."""
    machines = [{"name": request.name, "type": asdict(request.type)} for request in requests]
    _append(series_dir, {"t": now_s, "kind": "held", **_of(lease), "machines": machines})


def note_until(series_dir: Path, lease: Lease, now_s: float) -> None:
    """The lease, and with it its machines, now ends at another time."""
    _append(series_dir, {"t": now_s, "kind": "until", **_of(lease)})


def note_gone(series_dir: Path, lease: Lease, names: Collection[str] | None, now_s: float) -> None:
    """These machines are gone, None: all. Nobody may be kept from releasing by a folder that cannot be written."""
    try:
        _append(series_dir, {"t": now_s, "kind": "gone", **_of(lease), "names": None if names is None else [*names]})
    except OSError as error:
        log.warning("%s: cannot note what was given back: %s", series_dir / FILE, error)


def held(series_dir: Path, now_s: float) -> tuple[Held, ...]:
    """Every machine that the series has had, in the order in which they came; those that it has count until now."""
    open_: dict[tuple[str, str], tuple[MachineRequest, float]] = {}
    until_s: dict[str, float] = {}
    done: list[Held] = []
    for line in json_lines(series_dir / FILE):
        lease_id = line["lease_id"]
        if line["kind"] == "gone":
            names = [name for lease, name in open_ if lease == lease_id] if line["names"] is None else line["names"]
            over = [open_.pop(key) for name in names if (key := (lease_id, name)) in open_]
            done += [Held(request, lease_id, from_s, float(line["t"])) for request, from_s in over]
            continue
        until_s[lease_id] = float(line["expires_s"])
        for machine in line.get("machines", ()):
            request = MachineRequest(machine["name"], MachineType(**machine["type"]))
            open_.setdefault((lease_id, request.name), (request, float(line["t"])))
    there = [
        Held(request, lease_id, from_s, max(from_s, min(now_s, until_s[lease_id])))
        for (lease_id, _), (request, from_s) in open_.items()
    ]
    return tuple(sorted([*done, *there], key=lambda each: each.from_s))


def within(machines: Sequence[Held], from_s: float, to_s: float) -> Iterator[Held]:
    """The part of each that lies between two times."""
    for each in machines:
        begin_s, end_s = max(each.from_s, from_s), min(each.to_s, to_s)
        if begin_s < end_s:
            yield Held(each.request, each.lease_id, begin_s, end_s)


def _of(lease: Lease) -> dict[str, Any]:
    return {"lease_id": lease.lease_id, "expires_s": lease.expires_s}


def _append(series_dir: Path, line: dict[str, Any]) -> None:
    with (series_dir / FILE).open("a+b") as file:
        whole = file.tell() == 0 or (file.seek(-1, os.SEEK_END), file.read(1))[1] == b"\n"
        file.write(("" if whole else "\n").encode() + json.dumps(line).encode() + b"\n")  # after a half line, a new one
        file.flush()
        os.fsync(file.fileno())
