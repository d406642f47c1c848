"""Machines that a policy asks for in a hold are instances: rented at the request, given back when they leave, and with
the run at the latest. What runs on them is in memory."""

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.machines import holdings, series_lease
from barograph.plan.events.scaling import AutonomousPhase
from barograph.plan.experiment import Durations, Experiment, MachineCount, load
from barograph.run.context import SeriesContext
from barograph.series.series import Series, open_series
from barograph.testbeds import checks
from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from tests.support.cloud.trouble import Refusal, Trouble
from tests.support.fakes import fake_context
from tests.support.fakes.storm import FakeStorm
from tests.unit.inventory.ec2.conftest import Site


@pytest.fixture
def elastic() -> Experiment:
    """Two machines, up to four in the hold."""
    star = load("stela/star")
    return replace(
        star, machines=MachineCount(2, 2, 1, 4), events=(AutonomousPhase("steady", decide_every_s=5.0,
        for_s=200.0),), claims=(),
        repetitions=1, variants=star.variants[:1], durations=Durations(45, 100, 220, 300),
        testbed=replace(star.testbed, name="ec2", joining="booted"),
    )  # fmt: skip


@pytest.fixture
def series(elastic: Experiment, site: Site, monkeypatch: pytest.MonkeyPatch) -> Series:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(site.state / "results"))
    testbed = site.testbed(region=site.cloud.environment()["AWS_REGION"])
    monkeypatch.setattr(checks, "_cached_testbed", lambda _name, _options, _state: testbed)
    series = open_series(elastic, new=True)
    lease = site.take(testbed)
    series_lease.acquire(series, testbed, lease)
    return series


def run(series: Series, asks: Any, **changes: Any) -> list[dict[str, Any]]:
    context: SeriesContext = replace(fake_context(series), **changes)
    assert isinstance(context.cluster, FakeStorm)
    context.cluster.faults["asks"] = asks
    run_id = attempt_next_run(series, context)
    from analysis.record.files import json_lines

    return list(json_lines(series.run_folder(run_id or "") / "events.jsonl"))


def of(told: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in told if event["kind"] == kind]


def rented(site: Site) -> set[str]:
    named = {one["InstanceId"]: {tag["Key"]: tag["Value"] for tag in one["Tags"]} for one in site.listed()}
    return {tags["barograph:machine"] for tags in named.values()}


def test_instances_are_rented_at_the_request_and_gone_when_they_leave(site: Site, series: Series) -> None:
    told = run(series, ((5, 2), (80, ("m3",)), (120, 1)))
    assert [event["machines"] for event in of(told, "machines_joined")] == [["m3", "m4"], ["m5"]]
    assert [event["machines"] for event in of(told, "machines_returned")] == [["m3"], ["m4", "m5"]]
    assert rented(site) == {"master", "m1", "m2"}, "the next run begins with these"
    held = Counter(each.request.name for each in holdings.read_holdings(series.folder, time.time()))
    assert held == Counter(["master", "m1", "m2", "m3", "m4", "m5"])
    ended = {each.request.name for each in holdings.read_holdings(series.folder, time.time() + 60)
             if each.to_s < time.time()}  # fmt: skip
    assert ended == {"m3", "m4", "m5"}, "what is given back is not paid for"


def test_no_capacity_is_the_policys_news_and_leaves_nothing(site: Site, series: Series) -> None:
    site.cloud.expect(Trouble(refusals=(Refusal("RunInstances", "InsufficientInstanceCapacity"),)))
    told = run(series, ((5, 1),))
    (failed,) = of(told, "request_failed")
    assert "InsufficientInstanceCapacity" in failed["reason"] or "capacity" in failed["reason"]
    assert of(told, "run_ended")[0]["status"] == "complete" and rented(site) == {"master", "m1", "m2"}


def test_what_the_budget_does_not_cover_is_refused(site: Site, series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(checks.testbed_of(series.experiment.testbed), Ec2Testbed)
    monkeypatch.setattr(holdings, "spent_usd", lambda _series, _now_s: 9.99)
    told = run(series, ((5, 1),))
    (refused,) = of(told, "request_refused")
    assert refused["reason"].startswith("$9.99 of the budget of $10.00 are spent; with m3 what is left of the run may")
    assert rented(site) == {"master", "m1", "m2"}
    assert registry.read_all()
