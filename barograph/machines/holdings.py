"""Machines that a series really held, and their cost: `holdings.jsonl`, appended before a machine exists and after it
is gone, and `money.json`, the estimates beside the use, where the testbed has a price.

A killed harness leaves machines without an end in it; these count until they were reaped, or else until the end of
their lease, when they have ended themselves.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from analysis.record.files import append_line, parsed_lines, write_json_atomic
from barograph.errors import BudgetSpent
from barograph.plan.experiment import Experiment
from barograph.series import run_record
from barograph.series.series import Series, series_document, unfinished_series
from barograph.testbeds import costs
from barograph.testbeds.checks import testbed_of
from barograph.testbeds.costs import Cost
from inventory.leases.registry import Lease
from inventory.machines import MachineRequest
from inventory.testbed import SupportsPricing, SupportsTimeLimit

log = logging.getLogger(__name__)
HOLDINGS_FILE = "holdings.jsonl"


@dataclass(frozen=True)
class Holding:
    """One machine, from its request to its end (epoch seconds)."""

    request: MachineRequest
    lease_id: str
    from_s: float
    to_s: float

    @property
    def hours(self) -> float:
        return max(0.0, self.to_s - self.from_s) / 3600


def note_request(series_dir: Path, lease: Lease, requests: Sequence[MachineRequest], now_s: float) -> None:
    """Record the request before it is made. Raises OSError: a machine that cannot be recorded must not be rented."""
    machines = [{"name": request.name, "type": asdict(request.type)} for request in requests]
    _append_line(series_dir, {"t": now_s, "kind": "held", **_lease_facts(lease), "machines": machines})


def note_expiry(series_dir: Path, lease: Lease, now_s: float) -> None:
    """Record that the lease, and with it its machines, now ends at another time."""
    _append_line(series_dir, {"t": now_s, "kind": "until", **_lease_facts(lease)})


def note_return(series_dir: Path, lease: Lease, names: Collection[str] | None, now_s: float) -> None:
    """Record that these machines are gone, None: all. A folder that is not writable must not prevent a release."""
    try:
        _append_line(
            series_dir,
            {"t": now_s, "kind": "gone", **_lease_facts(lease), "names": None if names is None else [*names]},
        )
    except OSError as error:
        log.warning("%s: cannot note what was given back: %s", series_dir / HOLDINGS_FILE, error)


def read_holdings(series_dir: Path, now_s: float) -> tuple[Holding, ...]:
    """Return every machine that the series has had, in order of their requests; current ones count until now."""
    open_: dict[tuple[str, str], tuple[MachineRequest, float]] = {}
    until_s: dict[str, float] = {}
    past: list[Holding] = []
    for line in filter(None, _lines(series_dir)):
        if line.kind == "gone":
            names = [name for lease, name in open_ if lease == line.lease_id] if line.names is None else line.names
            closed_requests = [open_.pop(key) for name in names if (key := (line.lease_id, name)) in open_]
            past += [Holding(request, line.lease_id, from_s, line.t) for request, from_s in closed_requests]
            continue
        until_s[line.lease_id] = line.expires_s
        for request in line.machines:
            open_.setdefault((line.lease_id, request.name), (request, line.t))
    present = [
        Holding(request, lease_id, from_s, max(from_s, min(now_s, until_s[lease_id])))
        for (lease_id, _), (request, from_s) in open_.items()
    ]
    return tuple(sorted([*past, *present], key=lambda each: each.from_s))


def damaged_holdings(series_dir: Path) -> int:
    """Count the unreadable lines: their machines are in no cost."""
    return _lines(series_dir).count(None)


@dataclass(frozen=True)
class _Line:
    t: float
    kind: Literal["held", "until", "gone"]
    lease_id: str
    expires_s: float
    names: tuple[str, ...] | None = None  # of machines that are gone; None: all of the lease
    machines: tuple[MachineRequest, ...] = ()


@cache
def _form() -> TypeAdapter[_Line]:
    return TypeAdapter(_Line)


def _lines(series_dir: Path) -> list[_Line | None]:
    """Return the lines, None for a damaged one."""
    lines: list[_Line | None] = []
    for line in parsed_lines(series_dir / HOLDINGS_FILE):
        try:
            lines.append(_form().validate_python(line))
        except ValidationError:
            lines.append(None)
    return lines


def clip(machines: Sequence[Holding], from_s: float, to_s: float) -> Iterator[Holding]:
    """Yield the part of each that lies between two times."""
    for each in machines:
        begin_s, end_s = max(each.from_s, from_s), min(each.to_s, to_s)
        if begin_s < end_s:
            yield Holding(each.request, each.lease_id, begin_s, end_s)


def _lease_facts(lease: Lease) -> dict[str, Any]:
    return {"lease_id": lease.lease_id, "expires_s": lease.expires_s}


def _append_line(series_dir: Path, line: dict[str, Any]) -> None:
    append_line(series_dir / HOLDINGS_FILE, line, sync=True)


MONEY_FILE = "money.json"


def pricing_of(experiment: Experiment) -> SupportsPricing | None:
    """Return the testbed's prices; None where machines cost nothing."""
    testbed = testbed_of(experiment.testbed)
    return testbed if isinstance(testbed, SupportsPricing) else None


def estimate_cost(experiment: Experiment, *, new: bool) -> Cost | None:
    """Return the cost of the execution that would begin now. Raises ExperimentError where that is above the budget, or
    takes longer than the testbed leaves its machines."""
    pricing, testbed = pricing_of(experiment), testbed_of(experiment.testbed)
    if pricing is None and not isinstance(testbed, SupportsTimeLimit):
        return None
    series = None if new else unfinished_series(experiment)
    runs = series.missing_runs() if series else experiment.repetitions * len(experiment.variants)
    if isinstance(testbed, SupportsTimeLimit):
        costs.require_time(experiment, runs, testbed.longest_hours())
    if pricing is None:
        return None
    if series:
        _require_readable(series)
    paid_usd = spent_usd(series, time.time()) if series else 0.0
    cost = costs.cost(experiment, runs, run_record.median_overhead(experiment.testbed), pricing, paid_usd)
    costs.require_affordable(experiment, cost, pricing)
    return cost


def require_one_more(series: Series) -> None:
    """Raise BudgetSpent where the next run could cost more than the budget has left, or its cost is unknown."""
    pricing = pricing_of(series.experiment)
    if pricing is not None:
        _require_readable(series)
        costs.require_one_more(series.experiment, spent_usd(series, time.time()), pricing)


def require_covered(series: Series, names: Sequence[str], rest_s: float) -> None:
    """Raise BudgetSpent where these machines too could cost more than the budget has left, in the `rest_s` that the run
    may still take, or their cost is unknown."""
    pricing = pricing_of(series.experiment)
    if pricing is not None:
        _require_readable(series)
        now_s = time.time()
        machines = [each.request.name for each in read_holdings(series.folder, now_s) if each.to_s >= now_s]
        workers = [name for name in machines if name != "master"]
        costs.require_covered(series.experiment, spent_usd(series, now_s), workers, names, rest_s, pricing)


def _require_readable(series: Series) -> None:
    """Raise an error where a line is unreadable: its machines would count as free."""
    if damaged := damaged_holdings(series.folder):
        raise BudgetSpent(
            f"{series.folder / HOLDINGS_FILE}: {damaged} of its lines cannot be read, so that nobody knows what the"
            " machines of this series have cost; mend or delete these lines (the provider's bill says what they cost),"
            " or begin a new series (--new)"
        )


def spent_usd(series: Series, now_s: float) -> float:
    """Return the cost of all machines that the series has held until now; 0 where they cost nothing."""
    pricing = pricing_of(series.experiment)
    return _price_usd(read_holdings(series.folder, now_s), pricing) if pricing else 0.0


def usage_so_far(series: Series) -> dict[str, Any]:
    """Return money and machine hours until now, for progress lines."""
    now_s = time.time()
    machines = read_holdings(series.folder, now_s)
    pricing = pricing_of(series.experiment)
    hours = {"machine_hours": _hours(machines)}
    if pricing is None:
        return hours
    return {**hours, "used_usd": _price_usd(machines, pricing), "budget_usd": pricing.budget_usd()}


def write_money(series: Series) -> None:
    """Write `money.json`: the estimates beside the use, by execution and by type of machine."""
    pricing = pricing_of(series.experiment)
    if pricing is None:
        return
    now_s = time.time()
    machines = read_holdings(series.folder, now_s)
    estimates = series_document(series.folder).get("estimates", [])
    ends = [*(float(each["opened_s"]) for each in estimates[1:]), now_s]  # of each execution: the next one's opening
    parts = [(e, [*clip(machines, float(e["opened_s"]), end)]) for e, end in zip(estimates, ends, strict=False)]
    by_type = defaultdict(list)
    for each in machines:
        by_type[each.request.type.name].append(each)
    document = {
        "v": 1,
        "testbed": series.experiment.testbed.name,
        "budget_usd": pricing.budget_usd(),
        "used_usd": _price_usd(machines, pricing),
        "machine_hours": _hours(machines),
        "executions": [
            {**estimate, "used_usd": _price_usd(part, pricing), "machine_hours": _hours(part)}
            for estimate, part in parts
        ],
        "types": [
            {"type": name, "machines": len(part), "hours": _hours(part), "usd": _price_usd(part, pricing)}
            for name, part in sorted(by_type.items())
        ],
        "damaged_lines": damaged_holdings(series.folder),
    }
    write_json_atomic(series.folder / MONEY_FILE, document)


def _hours(machines: Iterable[Holding]) -> float:
    return sum(each.hours for each in machines)


def _price_usd(machines: Iterable[Holding], pricing: SupportsPricing) -> float:
    """Return the price of the machines; those with the same times are priced together."""
    together: dict[tuple[float, float], list[MachineRequest]] = defaultdict(list)
    for each in machines:
        together[(each.from_s, each.to_s)].append(each.request)
    return sum(pricing.estimate(requests, (to - begin) / 3600).total_usd for (begin, to), requests in together.items())
