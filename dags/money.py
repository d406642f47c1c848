"""What a series may cost and has cost, where its testbed has a price; kept for the report as `money.json`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from analysis.record import write_json_atomic
from dags import costs, overhead
from dags.costs import Cost
from dags.experiment import Experiment
from dags.series import Series, resumable, series_document
from dags.steps.holdings import Held, held, within
from dags.testbeds import testbed_of
from inventory.machines import MachineRequest
from inventory.testbed import Pricing

FILE = "money.json"


def pricing_of(experiment: Experiment) -> Pricing | None:
    """None where machines cost nothing."""
    testbed = testbed_of(experiment.testbed)
    return testbed if isinstance(testbed, Pricing) else None


def foreseen(experiment: Experiment, *, new: bool) -> Cost | None:
    """What the execution that would begin now may cost. Raises ExperimentError where that is above the budget."""
    pricing = pricing_of(experiment)
    if pricing is None:
        return None
    series = None if new else resumable(experiment)
    runs = series.left() if series else experiment.repetitions * len(experiment.variants)
    spent = spent_usd(series, time.time()) if series else 0.0
    found = costs.cost(experiment, runs, overhead.measured(experiment.testbed), pricing, spent)
    costs.require_affordable(experiment, found, pricing)
    return found


def require_one_more(series: Series) -> None:
    """Raises BudgetSpent where the next run could cost more than the budget has left."""
    pricing = pricing_of(series.experiment)
    if pricing is not None:
        costs.require_one_more(series.experiment, spent_usd(series, time.time()), pricing)


def spent_usd(series: Series, now_s: float) -> float:
    """Of all machines that the series has held until now; 0 where they cost nothing."""
    pricing = pricing_of(series.experiment)
    return _usd(held(series.folder, now_s), pricing) if pricing else 0.0


def stand(series: Series) -> dict[str, Any]:
    """For progress lines: what was spent and held until now."""
    now_s = time.time()
    machines = held(series.folder, now_s)
    pricing = pricing_of(series.experiment)
    hours = {"machine_hours": sum(each.hours for each in machines)}
    return (
        hours if pricing is None else {**hours, "used_usd": _usd(machines, pricing), "budget_usd": pricing.budget_usd()}
    )


def write(series: Series) -> None:
    """`money.json`: the estimates beside what was used, by execution and by type of machine."""
    pricing = pricing_of(series.experiment)
    if pricing is None:
        return
    now_s = time.time()
    machines = held(series.folder, now_s)
    document = {
        "v": 1,
        "testbed": series.experiment.testbed.name,
        "budget_usd": pricing.budget_usd(),
        "used_usd": _usd(machines, pricing),
        "machine_hours": sum(each.hours for each in machines),
        "executions": _executions(series_document(series.folder).get("estimates", []), machines, pricing, now_s),
        "types": _types(machines, pricing),
    }
    write_json_atomic(series.folder / FILE, document)


def _executions(
    estimates: list[dict[str, Any]], machines: Iterable[Held], pricing: Pricing, now_s: float
) -> list[dict[str, Any]]:
    """Each estimate with what was held from its opening to the next one's."""
    all_machines = tuple(machines)
    ends = [*(float(each["opened_s"]) for each in estimates[1:]), now_s]
    found = []
    for estimate, end_s in zip(estimates, ends, strict=False):
        mine = tuple(within(all_machines, float(estimate["opened_s"]), end_s))
        used = {"used_usd": _usd(mine, pricing), "machine_hours": sum(each.hours for each in mine)}
        found.append({**estimate, **used})
    return found


def _types(machines: Iterable[Held], pricing: Pricing) -> list[dict[str, Any]]:
    by_type = defaultdict(list)
    for each in machines:
        by_type[each.request.type.name].append(each)
    return [
        {"type": name, "machines": len(mine), "hours": sum(each.hours for each in mine), "usd": _usd(mine, pricing)}
        for name, mine in sorted(by_type.items())
    ]


def _usd(machines: Iterable[Held], pricing: Pricing) -> float:
    """Machines that came and went together are priced together."""
    together: dict[tuple[float, float], list[MachineRequest]] = defaultdict(list)
    for each in machines:
        together[(each.from_s, each.to_s)].append(each.request)
    return sum(pricing.estimate(requests, (to - begin) / 3600).total_usd for (begin, to), requests in together.items())
