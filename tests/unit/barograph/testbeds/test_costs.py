"""Estimates, budgets, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from barograph.errors import BudgetSpent, ExperimentError
from barograph.plan import durations
from barograph.plan.durations import Overhead
from barograph.plan.events.faults import Crash
from barograph.plan.events.kind import GIVE_BACK_S, OUTCOME_S, PLAYS_S, PlannedEvent
from barograph.plan.events.rates import RateChange
from barograph.plan.events.scaling import AutonomousPhase, ScaleIn
from barograph.plan.experiment import Durations, Experiment, MachineCount, load
from barograph.software import BUILD_LIMIT_S
from barograph.testbeds import costs
from inventory.machines import MachineRequest
from inventory.testbed import PriceEstimate

STAR = load("stela/star")
STAR = replace(STAR, testbed=replace(STAR.testbed, name="fake"), durations=Durations(45, 100, 90, 150))
BOOTED = replace(STAR, testbed=replace(STAR.testbed, joining="booted"))


class Dollar:
    """A dollar a machine and hour."""

    def __init__(self, budget_usd: float = 1e6) -> None:
        self._budget_usd = budget_usd

    def estimate(self, requests: Sequence[MachineRequest], hours: float) -> PriceEstimate:
        return PriceEstimate({f"{len(requests)} machines": len(requests) * hours}, "2026-11-21")

    def budget_usd(self) -> float:
        return self._budget_usd


def found(experiment: Experiment = STAR, runs: int = 6, budget_usd: float = 1e6, spent_usd: float = 0.0) -> costs.Cost:
    return costs.cost(experiment, runs, Overhead(), Dollar(budget_usd), spent_usd)


def test_a_wait_before_the_rebalance_may_come_twice_with_each_attempt_at_each_scale_event() -> None:
    """Twice: Nimbus may restart meanwhile."""
    even, stela = STAR.variants
    waiting = replace(STAR, variants=(replace(even, parameters={"rebalance": True, "wait_s": 30}), stela))
    assert durations.longest_run_s(waiting) - durations.longest_run_s(STAR) == 3 * 2 * 30
    twice = replace(waiting, events=(*waiting.events, *waiting.events, Crash("steady", "m2")))
    plain = replace(twice, variants=STAR.variants)
    assert durations.longest_run_s(twice) - durations.longest_run_s(plain) == 2 * 3 * 2 * 30
    assert durations.longest_joining_s(twice, 1) - durations.longest_joining_s(plain, 1) == 3 * 2 * 30
    assert durations.run_s(waiting) == durations.run_s(STAR), "what is watched counts from the request"


def test_a_wait_before_the_rebalance_may_come_as_a_hold_ends_and_where_it_pauses() -> None:
    """What the policy decided last by itself is carried out first."""
    even, stela = STAR.variants
    waiting = (replace(even, parameters={"rebalance": True, "wait_s": 30}), stela)
    ends, lasts = (AutonomousPhase("steady", decide_every_s=10, for_s=for_s) for for_s in (60.0, None))
    scaled = STAR.events
    for events, waits in (((ends,), 1), ((ends, *scaled), 4), ((lasts, *scaled), 4), ((*scaled, lasts), 3)):
        plain = replace(STAR, events=events)
        longest_s = durations.longest_run_s(replace(plain, variants=waiting))
        assert longest_s - durations.longest_run_s(plain) == waits * 2 * 30
    paused, unpaused = (replace(STAR, events=each) for each in ((lasts, *scaled), (*scaled, lasts)))
    assert durations.longest_run_s(paused) - durations.longest_run_s(unpaused) == OUTCOME_S


def test_an_estimate_is_machines_times_hours() -> None:
    cost = found()
    expected_h = (60 + 6 * (45 + 90 + 55) + 45) / 3600
    assert cost.expected.total_usd == pytest.approx(6 * expected_h)
    assert cost.longest.total_usd == pytest.approx(6 * durations.longest_series_s(STAR, 6) / 3600)
    assert cost.longest_s > 2 * cost.expected_s


def test_the_longest_run_has_room_for_every_limit() -> None:
    # The play and to register; samples, to decide and to hear of it; the last two twice more, after a machine died.
    scale_s = PLAYS_S["join"] + 60 + (45 + 90 + 215) + 2 * (180 + 90 + 215)
    assert STAR.events[0].longest_s == scale_s
    assert ScaleIn("steady", 1).longest_s > PLAYS_S["leave"] + PLAYS_S["collect"] + 3 * (90 + 215)
    assert Crash("steady", "m2").longest_s >= 120 + PLAYS_S["revive"], "it boots when files are collected"
    limits = 100 + 150 + 150 + scale_s  # ceilings, first tuple
    assert durations.longest_run_s(STAR) >= limits
    booted_s = durations.LONGEST_BOOT_S + GIVE_BACK_S
    assert durations.longest_run_s(BOOTED) == durations.longest_run_s(STAR) + booted_s, "they go at the run's end"
    joined_s = durations.longest_joining_s(BOOTED, 0)
    assert joined_s >= scale_s + 100 + booted_s + PLAYS_S["collect"]
    assert durations.longest_series_s(STAR, 1) - durations.longest_run_s(STAR) == durations.LONGEST_OPENING_S + 600


def test_every_step_of_a_series_has_a_limit_with_its_reason() -> None:
    limits = [durations.step_limit(step, STAR) for step in (*durations.STEP_LIMITS, "run")]
    assert all(limit.seconds > 0 and limit.reason for limit in limits)
    assert durations.step_limit("run", STAR).seconds > durations.RUN_ATTEMPTS * durations.longest_run_s(STAR)
    assert durations.step_limit("run", STAR).seconds < durations.step_limit("run").seconds, "of any experiment"
    assert durations.step_limit("deploy").seconds > PLAYS_S["deploy"] + 2 * BUILD_LIMIT_S, "what hangs is named inside"


def test_machines_that_boot_at_their_event_cost_only_their_part_of_each_run() -> None:
    ready, booted = found(STAR), found(BOOTED)
    joined_h = 6 * (90 + 90 + 55) / 3600
    assert booted.expected.total_usd == pytest.approx(5 * booted.expected_s / 3600 + joined_h)
    assert booted.expected_s == ready.expected_s + 6 * 90


def test_what_is_above_the_budget_is_refused_and_what_would_fit_is_said() -> None:
    whole = found().longest.total_usd
    costs.require_affordable(STAR, found(budget_usd=whole), Dollar(whole))
    two = found(runs=4).longest.total_usd
    with pytest.raises(ExperimentError, match=r"budget_usd is .*6 runs may cost \$.*2 repetitions would fit") as caught:
        costs.require_affordable(STAR, found(budget_usd=two), Dollar(two))
    assert f"raise it to {whole:.2f}" in str(caught.value) and "fake.budget_usd" in str(caught.value)
    with pytest.raises(ExperimentError, match="not even one repetition fits"):
        costs.require_affordable(STAR, found(budget_usd=0.01), Dollar(0.01))


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ExperimentError, match="budget_usd is 0; allowed: above 0"):
        costs.require_affordable(STAR, found(budget_usd=0), Dollar(0))


def test_what_was_spent_before_counts() -> None:
    left = found(runs=2).longest.total_usd
    costs.require_affordable(STAR, found(runs=2, budget_usd=left + 1, spent_usd=1), Dollar(left + 1))
    with pytest.raises(ExperimentError, match=r"\$2.00 of it spent already.*to go on with this series, raise it to"):
        costs.require_affordable(STAR, found(runs=2, budget_usd=left + 1, spent_usd=2), Dollar(left + 1))


def test_the_next_run_is_not_begun_where_it_could_cost_too_much() -> None:
    next_usd = costs.one_run_usd(STAR, Dollar())
    costs.require_one_more(STAR, 1.0, Dollar(1.0 + next_usd))
    with pytest.raises(BudgetSpent, match=r"\$1.00 of the budget .* not begun; to go on, .*--option budget_usd="):
        costs.require_one_more(STAR, 1.0, Dollar(0.99 + next_usd))
    assert BudgetSpent.blame == "capacity"


def elastic(joining: Literal["ready", "booted"], *later: PlannedEvent, for_s: float | None = 60.0) -> Experiment:
    """Four machines, and up to six in the hold."""
    events = (AutonomousPhase("steady", decide_every_s=10, for_s=for_s), *later)
    machines, testbed = MachineCount(4, 4, 2, 6), replace(STAR.testbed, joining=joining)
    return replace(STAR, machines=machines, events=events, testbed=testbed)


def test_all_machines_that_a_policy_may_have_are_counted_from_its_hold_on() -> None:
    ready, booted = found(elastic("ready")), found(elastic("booted"))
    assert ready.expected.total_usd == pytest.approx(7 * ready.expected_s / 3600), "they are up all the time"
    joined_h = 6 * (90 + 90 + 55) / 3600
    assert booted.expected.total_usd == pytest.approx((5 * booted.expected_s) / 3600 + 2 * joined_h)
    longest_h = 6 * durations.longest_joining_s(elastic("booted"), 0) / 3600
    assert booted.longest.total_usd == pytest.approx(5 * booted.longest_s / 3600 + 2 * longest_h)
    long = replace(elastic("booted", for_s=120.0), durations=Durations(45, 100, 90, 250))
    assert durations.joining_s(long, 0) == 120 + 90 + 55, "a hold that is longer than the watch"


def test_the_longest_run_has_room_for_a_request_as_something_ends() -> None:
    """A hold that ends waits for one; one that lasts, for one in its watch and two with each event that follows."""
    rate = RateChange("steady", 1.5)
    for events, for_s, waits in (((), 60.0, 1), ((rate,), 60.0, 1), ((), None, 1), ((rate,), None, 3)):
        asked = elastic("booted", *events, for_s=for_s)
        plain = replace(asked, machines=MachineCount(4, 4))
        more_s = durations.longest_run_s(asked) - durations.longest_run_s(plain)
        assert more_s == waits * durations.longest_request_s(asked)
    lasting = elastic("booted", rate, for_s=None)
    plain = replace(lasting, machines=MachineCount(4, 4))
    more_s = durations.longest_joining_s(lasting, 1) - durations.longest_joining_s(plain, 1)
    assert more_s == 2 * durations.longest_request_s(lasting)
    assert durations.longest_request_s(lasting) >= durations.LONGEST_BOOT_S + PLAYS_S["join"]
    assert durations.longest_request_s(elastic("ready")) >= PLAYS_S["leave"] + PLAYS_S["collect"] + GIVE_BACK_S


def test_what_was_affordable_before_the_run_covers_all_that_a_policy_may_have() -> None:
    asked = elastic("booted")
    most_usd = costs.one_run_usd(asked, Dollar())
    rest_s = durations.longest_run_s(asked) + durations.LONGEST_CLOSING_S
    held = ["m1", "m2", "m3", "m4"]
    costs.require_covered(asked, 0.0, held, ["m5", "m6"], rest_s, Dollar(most_usd))
    with pytest.raises(BudgetSpent, match=r"with m5, m6 what is left of the run may cost \$") as refused:
        costs.require_covered(asked, most_usd / 2, held, ["m5", "m6"], rest_s, Dollar(most_usd))
    assert f"{costs.usd(most_usd / 2)} of the budget of {costs.usd(most_usd)} are spent" in str(refused.value)
    costs.require_covered(asked, most_usd / 2, held, ["m5", "m6"], rest_s / 3, Dollar(most_usd))


def test_a_series_longer_than_the_testbed_leaves_its_machines_is_refused_before_they_are_taken() -> None:
    hours = (durations.longest_series_s(STAR, 6) + STAR.lease_minutes * 60) / 3600
    costs.require_time(STAR, 6, hours)
    costs.require_time(STAR, 0, 0.1)
    with pytest.raises(ExperimentError, match=r"fake\.longest_hours is 1, but 6 runs and the last lease may take .* h"):
        costs.require_time(STAR, 6, 1)
