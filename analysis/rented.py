"""What rented machines took: how long each booted during a run, and what a series cost beside its estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from analysis.happened import events
from analysis.record import RunPaths, SeriesPaths, read_json


@dataclass(frozen=True)
class Boot:
    """One machine that a run has started; seconds. `ssh_s` is the testbed's own measure. None: not measured."""

    run_id: str
    machine: str
    ssh_s: float | None  # from asking for it to its first answer over ssh
    joined_s: float | None  # from asking for it until it was deployed and registered with Nimbus


@dataclass(frozen=True)
class Execution:
    """One execution of a series: what was estimated when it began, and what its machines cost. US dollars, hours."""

    begun: str
    runs: int
    expected_usd: float
    longest_usd: float
    used_usd: float
    machine_hours: float


@dataclass(frozen=True)
class Money:
    testbed: str
    budget_usd: float
    used_usd: float
    machine_hours: float
    prices_of: str
    executions: tuple[Execution, ...]
    types: tuple[dict[str, Any], ...]  # type, machines, hours, usd


def boots(runs: Sequence[RunPaths]) -> list[Boot]:
    """Every machine that was started during a run, in the order of the runs."""
    return [boot for run in runs for boot in _of_run(run)]


def _of_run(run: RunPaths) -> list[Boot]:
    found = events(run)
    asked = {name: float(event["t"]) for event in found if event["kind"] == "machines_requested"
             for name in event.get("machines") or ()}  # fmt: skip
    joined = {name: float(event["t"]) for event in found if event["kind"] == "machines_joined"
              for name in event.get("machines") or ()}  # fmt: skip
    took = {event.get("machine"): event.get("boot_s") for event in found if event["kind"] == "machine_booted"}
    return [
        Boot(run.run_id, name, took.get(name), joined[name] - asked_s if name in joined else None)
        for name, asked_s in asked.items()
    ]


def money(paths: SeriesPaths) -> Money | None:
    """None where machines cost nothing, or nobody wrote down what they did."""
    file = paths.root / "money.json"
    if not file.is_file():
        return None
    document = read_json(file)
    executions = tuple(
        Execution(
            f"{datetime.fromtimestamp(float(row['opened_s']), UTC):%Y-%m-%d %H:%M} UTC",
            row["runs"], row["expected_usd"], row["longest_usd"], row["used_usd"], row["machine_hours"],
        )
        for row in document["executions"]
    )  # fmt: skip
    dates = sorted({str(row["prices_of"]) for row in document["executions"]})
    return Money(
        document["testbed"], document["budget_usd"], document["used_usd"], document["machine_hours"],
        ", ".join(dates) or "an unknown day", executions, tuple(document["types"]),
    )  # fmt: skip
