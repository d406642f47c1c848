"""Which lease a series holds and which machines came with it: `machines.json`, so that later steps find them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from analysis.record import write_json_atomic
from dags.errors import DagError
from inventory.leases import Lease, read
from inventory.machines import Machine, MachineType

FILE = "machines.json"


class NoMachines(DagError):
    """A step needs machines that the series does not hold."""

    blame = "infrastructure"


def save(series_dir: Path, lease: Lease, machines: Sequence[Machine]) -> None:
    document = {"lease": asdict(lease), "machines": [_as_data(machine) for machine in machines]}
    write_json_atomic(series_dir / FILE, document)


def saved_lease(series_dir: Path) -> Lease | None:
    """The lease that the series took last, whether or not it still stands."""
    document = _document(series_dir)
    return Lease(**document["lease"]) if document else None


def machines_held(series_dir: Path) -> tuple[Machine, ...]:
    """Raises NoMachines where the lease was released or reaped meanwhile."""
    document = _document(series_dir)
    if document is None or read(document["lease"]["lease_id"]) is None:
        raise NoMachines(f"series {series_dir.name} holds no machines (released or reaped); run it again to resume")
    return tuple(_from_data(machine) for machine in document["machines"])


def _document(series_dir: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads((series_dir / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return document


def _as_data(machine: Machine) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(machine).items()}


def _from_data(data: dict[str, Any]) -> Machine:
    values = {field.name: data[field.name] for field in fields(Machine)}
    paths = {key: Path(values[key]) for key in ("ssh_key", "known_hosts")}
    return Machine(**{**values, **paths, "type": MachineType(**values["type"])})
