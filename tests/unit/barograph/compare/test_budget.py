"""How much a comparison may take."""

import pytest

from barograph.compare.budget import MOST_RUNS, Budget, budget_text, limit_cost, most_blocks, parse_budget
from barograph.errors import ExperimentError
from barograph.machines.holdings import pricing_of
from barograph.plan import durations
from barograph.plan.experiment import load, with_changes
from barograph.testbeds.costs import cost, require_affordable

STAR = load("stela/star")


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("20 blocks", Budget(blocks=20)), ("1 block", Budget(blocks=1)), ("7blocks", Budget(blocks=7)),
        ("2h", Budget(seconds=7200.0)), ("1.5 h", Budget(seconds=5400.0)), ("90min", Budget(seconds=5400.0)),
        ("$5", Budget(usd=5.0)), ("$ 0.50", Budget(usd=0.5)),
    ],
)  # fmt: skip
def test_budgets_that_can_be_given(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "20", "0 blocks", "$0", "-3h", "2 days", "$5 blocks", "5€", "2h 30min", "1e3 h"])
def test_others_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ExperimentError, match=r"budget is .*; allowed: `20 blocks`, `2h`, `90min`, or `\$5`"):
        parse_budget(text)


def test_half_a_block_is_none() -> None:
    with pytest.raises(ExperimentError, match="blocks are whole: give 2 or 3"):
        parse_budget("2.5 blocks")


def test_a_time_holds_the_blocks_whose_watched_parts_fit() -> None:
    watched_s = STAR.durations.warm_up_floor_s + STAR.durations.after_floor_s
    assert most_blocks(STAR, 4, Budget(seconds=5 * 4 * watched_s + 1), None) == 5
    assert durations.run_s(STAR) > watched_s, "runs take longer in truth: the clock ends them"


def test_blocks_never_become_more_tasks_than_airflow_maps() -> None:
    assert most_blocks(STAR, 4, Budget(blocks=900), None) == MOST_RUNS // 4


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(blocks=2), "budget is 2 blocks, which holds 2 blocks of 2 runs; a comparison needs 3: give 3 blocks"),
        (Budget(seconds=1200), "budget is 20 min, which holds 1 block of 2 runs; .* give at least 42 min"),
        (Budget(usd=5), "machines of testbed local cost nothing; give blocks or a"),
    ],
)
def test_a_budget_that_is_too_small(budget: Budget, said: str) -> None:
    with pytest.raises(ExperimentError, match=said):
        most_blocks(STAR, 2, budget, pricing_of(STAR))


def test_money_is_the_budget_of_the_testbed() -> None:
    priced = with_changes(STAR, {"testbed": "fake", "options": {"core_hour_usd": 10.0, "budget_usd": 1.0}})
    asked = limit_cost(priced, Budget(usd=300.0))
    assert asked.testbed.options["fake"] == {"core_hour_usd": 10.0, "budget_usd": 300.0}
    pricing = pricing_of(asked)
    assert pricing is not None and pricing.budget_usd() == 300.0
    few, many = (most_blocks(asked, 2, Budget(usd=usd), pricing) for usd in (300.0, 600.0))
    assert 3 <= few < many
    require_affordable(asked, cost(asked, 2 * few, durations.DEFAULT_OVERHEAD, pricing), pricing)
    with pytest.raises(ExperimentError, match="may cost"):
        require_affordable(asked, cost(asked, 2 * few + 2, durations.DEFAULT_OVERHEAD, pricing), pricing)
    with pytest.raises(ExperimentError, match=r"budget is \$3, which holds 0 blocks of 2 runs; .*give \$"):
        most_blocks(asked, 2, Budget(usd=3.0), pricing)
    assert limit_cost(STAR, Budget(blocks=3)) == STAR
    with pytest.raises(
        ExperimentError, match=r"budget is \$5, but machines of testbed local cost nothing; give blocks"
    ):
        limit_cost(STAR, Budget(usd=5.0))


@pytest.mark.parametrize("text", ["20 blocks", "1 block", "2 h", "90 min", "$5"])
def test_a_budget_is_told_as_it_is_given(text: str) -> None:
    assert budget_text(parse_budget(text)) == text
