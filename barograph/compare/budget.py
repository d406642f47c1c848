"""The budget of a comparison: blocks, a time, or money. Pure but for the price table of a testbed."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace

from analysis.compare.question import DEFAULT_BLOCKS, Budget
from barograph.errors import ExperimentError
from barograph.plan import durations
from barograph.plan.experiment import Experiment
from barograph.testbeds.checks import testbed_without_options
from barograph.testbeds.costs import cost
from inventory import TESTBEDS
from inventory.testbed import SupportsPricing

FEWEST_BLOCKS = 3  # fewer have no useful interval
MOST_RUNS = 1000  # the user's own Airflow maps no more than 1024 tasks unless it is set to
ALLOWED_BUDGETS = "`20 blocks`, `2h`, `90min`, or `$5` where machines cost money"
_PATTERN = re.compile(r"(?P<usd>\$)?\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>blocks?|h|min)?")
_UNIT_S = {"h": 3600.0, "min": 60.0}


DEFAULT_BUDGET = Budget(blocks=DEFAULT_BLOCKS)


def parse_budget(text: str) -> Budget:
    """Parse a budget. Raises ExperimentError with what is allowed."""
    match = _PATTERN.fullmatch(text.strip())
    unit = match["unit"] or "" if match else ""
    if match is None or bool(match["usd"]) == bool(unit) or not float(match["number"]) > 0:
        raise ExperimentError(f"budget is {text!r}; allowed: {ALLOWED_BUDGETS}")
    number = float(match["number"])
    if match["usd"]:
        return Budget(usd=number)
    if unit in _UNIT_S:
        return Budget(seconds=number * _UNIT_S[unit])
    if number != int(number):
        raise ExperimentError(f"budget is {text!r}; blocks are whole: give {int(number) or 1} or {int(number) + 1}")
    return Budget(blocks=int(number))


def limit_cost(experiment: Experiment, budget: Budget) -> Experiment:
    """Return the experiment with the budget of money on its testbed, if that is the budget. Raises ExperimentError."""
    if budget.usd is None:
        return experiment
    name = experiment.testbed.name
    if name in TESTBEDS and not isinstance(testbed_without_options(name), SupportsPricing):
        raise _free_testbed_error(experiment, budget.usd)
    options = {**experiment.testbed.options.get(name, {}), "budget_usd": budget.usd}
    testbed = replace(experiment.testbed, options={**experiment.testbed.options, name: options})
    return replace(experiment, testbed=testbed)


def most_blocks(experiment: Experiment, block: int, budget: Budget, pricing: SupportsPricing | None) -> int:
    """Return the largest number of blocks of `block` runs within the budget; for a time, every run ends at its floors.

    It depends on no measurement: the same request must stay the same series. Raises ExperimentError where not even
    `FEWEST_BLOCKS` fit.
    """
    ceiling = MOST_RUNS // block
    if budget.usd is not None:
        if pricing is None:
            raise _free_testbed_error(experiment, budget.usd)

        def most_usd(blocks: int) -> float:
            return cost(experiment, blocks * block, durations.DEFAULT_OVERHEAD, pricing).longest.total_usd

        blocks = bisect_right(range(1, ceiling + 1), budget.usd, key=most_usd)
        need = f"${most_usd(FEWEST_BLOCKS) + 0.01:.2f}"
    elif budget.seconds is not None:
        block_s = block * durations.run_s(experiment, replace(durations.DEFAULT_OVERHEAD, run_s=0.0, boot_s=0.0))
        blocks, need = int(budget.seconds // block_s), f"at least {FEWEST_BLOCKS * block_s / 60:.0f} min"
    else:
        blocks, need = budget.blocks or 0, f"{FEWEST_BLOCKS} blocks"
    if blocks < FEWEST_BLOCKS:
        raise ExperimentError(
            f"budget is {budget_text(budget)}, which holds {blocks} block{'' if blocks == 1 else 's'} of {block} runs;"
            f" a comparison needs {FEWEST_BLOCKS}: give {need}"
        )
    return min(blocks, ceiling)


def budget_text(budget: Budget) -> str:
    if budget.usd is not None:
        return f"${budget.usd:g}"
    if budget.seconds is not None:
        is_hours = budget.seconds % 3600 == 0
        return f"{budget.seconds / 3600:g} h" if is_hours else f"{budget.seconds / 60:g} min"
    return f"{budget.blocks} block{'s' * (budget.blocks != 1)}"


def _free_testbed_error(experiment: Experiment, usd: float) -> ExperimentError:
    return ExperimentError(
        f"budget is ${usd:g}, but machines of testbed {experiment.testbed.name} cost nothing; give blocks or a time,"
        " such as `20 blocks` or `2h`"
    )
