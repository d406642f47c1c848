"""Cost of a series: machines × time × price, as expected and at the most; refused above the budget.

Pure except for the price table behind `SupportsPricing`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.errors import BudgetSpent, ExperimentError
from barograph.plan import durations
from barograph.plan.durations import Overhead
from barograph.plan.experiment import Experiment
from barograph.testbeds.checks import machine_requests
from inventory.testbed import PriceEstimate, SupportsPricing


@dataclass(frozen=True)
class Cost:
    """Cost of one execution with `runs` left; `spent_usd` is the cost of the series' earlier ones."""

    runs: int
    expected_s: float
    longest_s: float
    expected: PriceEstimate
    longest: PriceEstimate
    budget_usd: float
    spent_usd: float = 0.0
    measured_runs: int = 0  # number of runs behind the expected time

    def as_data(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "expected_s": self.expected_s,
            "longest_s": self.longest_s,
            "expected_usd": self.expected.total_usd,
            "longest_usd": self.longest.total_usd,
            "lines": dict(self.expected.lines),
            "prices_of": self.longest.prices_of,
            "budget_usd": self.budget_usd,
            "spent_before_usd": self.spent_usd,
            "overhead_from_runs": self.measured_runs,
        }


def cost(
    experiment: Experiment, runs: int, overhead: Overhead, pricing: SupportsPricing, spent_usd: float = 0.0
) -> Cost:
    """Return the cost. Raises the price table's ConfigurationError for a machine without a price."""
    expected_s = durations.series_s(experiment, runs, overhead)
    longest_s = durations.longest_series_s(experiment, runs)
    return Cost(
        runs,
        expected_s,
        longest_s,
        _estimate(
            experiment, runs, expected_s, lambda place: durations.joining_s(experiment, place, overhead), pricing
        ),
        _estimate(experiment, runs, longest_s, lambda place: durations.longest_joining_s(experiment, place), pricing),
        pricing.budget_usd(),
        spent_usd,
        overhead.runs,
    )


def one_run_usd(experiment: Experiment, pricing: SupportsPricing) -> float:
    """Return the most that one more run can cost, machines' release included."""
    longest_s = durations.longest_run_s(experiment) + durations.LONGEST_CLOSING_S
    joined = lambda place: durations.longest_joining_s(experiment, place)  # noqa: E731 - one expression, used once
    return _estimate(experiment, 1, longest_s, joined, pricing).total_usd


def require_affordable(experiment: Experiment, estimate: Cost, pricing: SupportsPricing) -> None:
    """Raise ExperimentError where the most that it may cost is above the budget; says what would fit."""
    where = f"testbed.options.{experiment.testbed.name}.budget_usd"
    if not estimate.budget_usd > 0:
        raise ExperimentError(f"{where} is {estimate.budget_usd:g}; allowed: above 0; give what the series may cost")
    whole_usd = estimate.spent_usd + estimate.longest.total_usd
    if whole_usd <= estimate.budget_usd:
        return
    spent_text = f", {usd(estimate.spent_usd)} of it spent already" if estimate.spent_usd else ""
    raise ExperimentError(
        f"{where} is {estimate.budget_usd:g}, but {estimate.runs} runs may cost {usd(whole_usd)}{spent_text} (expected:"
        f" {usd(estimate.spent_usd + estimate.expected.total_usd)}; prices of {estimate.longest.prices_of});"
        f" {_affordable_repetitions(experiment, estimate, pricing)}"
    )


def require_time(experiment: Experiment, runs: int, limit_hours: float) -> None:
    """Raise ExperimentError where the testbed could take its machines back before the last run is over."""
    hours = durations.longest_series_s(experiment, runs) / 3600 + experiment.lease_minutes / 60
    if runs and hours > limit_hours:
        raise ExperimentError(
            f"testbed.options.{experiment.testbed.name}.longest_hours is {limit_hours:g}, but {runs} runs and the last"
            f" lease may take {hours:.1f} h; raise it, or choose fewer repetitions or variants"
        )


def require_one_more(experiment: Experiment, spent_usd: float, pricing: SupportsPricing) -> None:
    """Raise BudgetSpent where the next run could cost more than the rest."""
    budget_usd, next_usd = pricing.budget_usd(), one_run_usd(experiment, pricing)
    if spent_usd + next_usd <= budget_usd:
        return
    needed = spent_usd + next_usd
    raise BudgetSpent(
        f"{usd(spent_usd)} of the budget of {usd(budget_usd)} are spent and the next run may cost {usd(next_usd)}: not"
        f" begun; to go on, run it again with testbed.options.{experiment.testbed.name}.budget_usd above {needed:.2f}"
        f" (--option budget_usd={needed * 1.1:.2f}); what is measured stays"
    )


def require_covered(
    experiment: Experiment, spent_usd: float, held: Sequence[str], new: Sequence[str], rest_s: float,
    pricing: SupportsPricing,
) -> None:  # fmt: skip
    """Raise BudgetSpent where `new` machines, which a policy requests, could cost more than the rest: the master and
    the `held` workers may be there for `rest_s` more."""
    new_s = min(rest_s, durations.longest_joining_s(experiment, durations.first_hold(experiment) or 0))
    parts = (
        pricing.estimate(machine_requests(experiment, held), rest_s / 3600),
        pricing.estimate(machine_requests(experiment, new)[1:], new_s / 3600),
    )
    budget_usd, needed_usd = pricing.budget_usd(), sum(part.total_usd for part in parts)
    if spent_usd + needed_usd > budget_usd:
        raise BudgetSpent(
            f"{usd(spent_usd)} of the budget of {usd(budget_usd)} are spent; with {', '.join(new)} what is left of the"
            f" run may cost {usd(needed_usd)}"
        )


def cost_lines(estimate: Cost) -> list[str]:
    """Return lines for the terminal: the sum, then a line for each part of it."""
    basis = f"{estimate.measured_runs} measured runs" if estimate.measured_runs else "nothing measured here yet"
    spent_text = f"; spent before: {usd(estimate.spent_usd)}" if estimate.spent_usd else ""
    head = (
        f"money: about {usd(estimate.expected.total_usd)}, at most {usd(estimate.longest.total_usd)}, budget"
        f" {usd(estimate.budget_usd)}{spent_text} ({estimate.runs} runs, {estimate.expected_s / 3600:.1f} h, at most"
        f" {estimate.longest_s / 3600:.1f} h, from {basis}; prices of {estimate.longest.prices_of})"
    )
    return [head, *(f"  {usd(amount)}  {line}" for line, amount in estimate.expected.lines.items())]


def usd(amount: float) -> str:
    return f"${amount:.2f}"


def _affordable_repetitions(experiment: Experiment, estimate: Cost, pricing: SupportsPricing) -> str:
    """Return the affordable number in repetitions: whole blocks, less those already complete."""
    block = len(experiment.variants)
    left_usd = estimate.budget_usd - estimate.spent_usd

    def most_usd(blocks: int) -> float:
        return cost(experiment, blocks * block, durations.DEFAULT_OVERHEAD, pricing).longest.total_usd

    fitting = bisect_right(range(1, estimate.runs // block + 1), left_usd, key=most_usd)
    raised = f"raise it to {estimate.spent_usd + estimate.longest.total_usd:.2f}"
    if estimate.spent_usd:  # another number of repetitions is another series
        return f"to go on with this series, {raised}"
    if not fitting:
        return f"not even one repetition fits: {raised}"
    return f"{fitting} repetition{'s' * (fitting > 1)} would fit: give repetitions {fitting}, or {raised}"


def _estimate(
    experiment: Experiment, runs: int, whole_s: float, joined_s: Callable[[int], float], pricing: SupportsPricing
) -> PriceEstimate:
    """Estimate machines of the start for all the time; those that boot at their event for their part of each run, and
    all that a policy may request from its first hold on."""
    parts = [pricing.estimate(machine_requests(experiment, experiment.acquired()), whole_s / 3600)]
    joining = {place: experiment.joining(place) for place, event in enumerate(experiment.events) if event.joins}
    if (hold := durations.first_hold(experiment)) is not None and experiment.spare():
        joining[hold] = experiment.spare()
    for place, names in joining.items() if experiment.testbed.joining == "booted" else ():
        parts.append(pricing.estimate(machine_requests(experiment, names)[1:], runs * joined_s(place) / 3600))
    lines: dict[str, float] = {}
    for line, amount in (pair for part in parts for pair in part.lines.items()):
        lines[line] = lines.get(line, 0.0) + amount
    return PriceEstimate(lines, parts[0].prices_of)
