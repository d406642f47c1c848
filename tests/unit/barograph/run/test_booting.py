"""Machines that boot at their event, and machines that their owner takes away."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.errors import CapacityError, InfrastructureError, Interrupted, MachineRecalled
from barograph.plan.blocks import digest
from barograph.plan.experiment import Experiment
from barograph.run import storm_cluster
from barograph.run.clocks import ClockWrong
from barograph.run.context import SeriesContext
from barograph.run.monitor import steady_test
from barograph.run.simulated_clock import SimulatedClock
from barograph.series.run_record import read_run
from barograph.series.series import Series, open_series
from tests.support.fakes.storm import BOOT_S, FakeStorm
from tests.unit.barograph.conftest import Heard
from tests.unit.barograph.run.test_run_flow import document, events, first


@pytest.fixture
def booted(experiment: Experiment, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Series:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "results"))
    return open_series(
        replace(experiment, testbed=replace(experiment.testbed, joining="booted")), now_s=1_699_999_000.0
    )


@pytest.fixture
def storm(experiment: Experiment) -> FakeStorm:
    return FakeStorm(SimulatedClock(1_700_000_000.0), experiment.starting(), experiment.workers(), joining="booted")


@pytest.fixture
def bench(booted: Series, storm: FakeStorm, heard: Heard) -> SeriesContext:
    return SeriesContext(booted.experiment, storm, storm, storm.clock, heard, steady_test)


def kinds(series: Series, run_id: str) -> list[str]:
    return [event["kind"] for event in events(series, run_id)]


def test_joining_machines_boot_at_the_event_and_go_after_the_run(
    booted: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    run_id = attempt_next_run(booted, bench) or ""
    run = document(booted, run_id)
    assert run["status"] == "complete" and run["missing"] == []
    assert [phase["name"] for phase in run["phases"]][4:8] == ["warm_up", "boot", "join", "scale"]
    told = {event["kind"]: event for event in events(booted, run_id)}
    assert told["machines_requested"]["machines"] == ["m5"]
    assert (told["machine_booted"]["machine"], told["machine_booted"]["boot_s"]) == ("m5", BOOT_S)
    assert told["machine_booted"]["t"] == told["machines_requested"]["t"] + BOOT_S
    assert told["machines_returned"]["machines"] == ["m5"] and storm.returned == {"m5"}
    order = kinds(booted, run_id)
    assert order.index("machine_booted") < order.index("machines_joined") < order.index("scale_requested")
    assert told["scale_requested"]["t"] - told["machines_requested"]["t"] >= BOOT_S
    assert run["machines"]["m5"]["joins_at_scale"] is True


def test_every_run_boots_its_own(booted: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    done = [attempt_next_run(booted, bench) for _ in booted.plan()]
    assert done == [run.run_id for run in booted.plan()]
    assert storm.calls.count("grow") == len(booted.plan()) == storm.calls.count("give_back")


@pytest.mark.parametrize("error", [CapacityError("no zone has one"), InfrastructureError("m5 is silent")])
def test_a_boot_that_fails_is_tried_again(
    error: Exception, booted: Series, bench: SeriesContext, storm: FakeStorm, heard: Heard
) -> None:
    storm.faults["grow"] = [error]
    assert attempt_next_run(booted, bench) == first(booted)
    kept = read_run(booted.attempts / f"{first(booted)}.attempt-1")
    assert kept is not None and (kept["failure"]["where"], kept["failure"]["message"]) == ("boot", str(error))
    assert [line["again"] for line in heard.lines if line["kind"] == "run_failed"] == [True]


def test_no_capacity_twice_is_said_as_that(booted: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults["grow"] = [CapacityError("none"), CapacityError("none still")]
    with pytest.raises(CapacityError, match="none still"):
        attempt_next_run(booted, bench)
    assert document(booted, first(booted))["failure"]["blame"] == "capacity"


def test_what_cannot_be_given_back_does_not_spoil_the_run(
    booted: Series, bench: SeriesContext, storm: FakeStorm, heard: Heard
) -> None:
    storm.faults["give_back"] = [InfrastructureError("throttled")]
    run_id = attempt_next_run(booted, bench) or ""
    assert document(booted, run_id)["status"] == "complete"
    assert "machines_returned" not in kinds(booted, run_id)
    assert any("m5 could not be given back yet: throttled" in str(line.get("text")) for line in heard.lines)


@pytest.mark.parametrize("name", ["m2", "master"])
def test_a_recalled_machine_ends_the_run_at_once_as_infrastructure(
    name: str, booted: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"recalled": name, "recalled_after_s": 20}
    with pytest.raises(MachineRecalled):
        attempt_next_run(booted, bench)
    run = document(booted, first(booted))
    assert (run["failure"]["blame"], run["failure"]["where"]) == ("infrastructure", "warm_up")
    assert run["ended_s"] - run["started_s"] < 30
    told = [event for event in events(booted, first(booted)) if event["kind"] == "machines_recalled"]
    assert [event["machines"] for event in told] == [[name]]
    assert storm.calls.count("submit") == 1, "it can not be replaced, so the run is not repeated"


def test_a_recalled_machine_is_replaced_where_that_is_possible(
    booted: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"recalled": "m2", "recalled_after_s": 20, "replaces": True}
    assert attempt_next_run(booted, bench) == first(booted)
    assert document(booted, first(booted))["attempt"] == 2


def test_how_machines_join_is_a_part_of_the_request_and_a_budget_is_not(booted: Series, experiment: Experiment) -> None:
    assert digest(booted.experiment) != digest(experiment)
    priced = replace(experiment, testbed=replace(experiment.testbed, options={"fake": {"budget_usd": 1}}))
    richer = replace(experiment, testbed=replace(experiment.testbed, options={"fake": {"budget_usd": 2}}))
    assert digest(priced) == digest(richer) != digest(experiment)


def test_a_machine_that_boots_with_another_time_is_refused(
    booted: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["clock_offset_ms"] = {"m5": 5000.0}
    with pytest.raises(ClockWrong, match=r"m5 \+5\.000 s"):
        attempt_next_run(booted, bench)
    assert "join" not in storm.calls and storm.returned == {"m5"}


@pytest.mark.parametrize("error", [Interrupted("asked to stop"), InfrastructureError("no Storm on m5")])
def test_what_is_put_on_a_machine_that_boots_and_fails_leaves_no_machine(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    given_back: list[Sequence[str]] = []

    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(storm_cluster.series_lease, "grow", lambda _series, _names: ())
    monkeypatch.setattr(storm_cluster.series_lease, "give_back", lambda _series, names: given_back.append(names))
    monkeypatch.setattr(storm_cluster.series_lease, "current_machines", lambda _folder: ())
    monkeypatch.setattr(storm_cluster, "base_home", lambda _directory: tmp_path)
    monkeypatch.setattr(storm_cluster.cluster, "extend", fail)
    here: Any = SimpleNamespace(experiment=experiment, folder=tmp_path)
    with pytest.raises(type(error)):
        storm_cluster.StormCluster(here, tmp_path).grow(["m5"])
    assert given_back == [["m5"]]
