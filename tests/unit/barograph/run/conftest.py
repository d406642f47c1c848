import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.order import machines_at_end
from barograph.plan.experiment import Experiment, MachineCount, TopologyChoice
from barograph.run.context import SeriesContext
from barograph.run.monitor import steady_test
from barograph.run.simulated_clock import SimulatedClock
from barograph.series.run_record import read_run
from barograph.series.series import Series, open_series
from scheduler_plugins.policies import POLICIES
from tests.support.fakes.storm import FakeStorm


class Stage:
    """A series of one experiment with these events, and the fake that it runs on."""

    def __init__(self, experiment: Experiment, listener: Any) -> None:
        self.series = open_series(experiment, new=True, now_s=1_699_999_000.0)
        self.storm = FakeStorm(
            SimulatedClock(1_700_000_000.0),
            experiment.starting(),
            experiment.workers(),
            tuple(t.name for t in experiment.every_topology()),
        )
        self.context = SeriesContext(experiment, self.storm, self.storm, self.storm.clock, listener, steady_test)
        self.run_id = self.series.plan()[0].run_id

    def go(self) -> list[dict[str, Any]]:
        assert attempt_next_run(self.series, self.context) == self.run_id
        assert self.document()["status"] == "complete"
        return self.events()

    def events(self) -> list[dict[str, Any]]:
        path = self.series.run_folder(self.run_id) / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def document(self) -> dict[str, Any]:
        found = read_run(self.series.run_folder(self.run_id))
        assert found is not None
        return found


SetUp = Callable[..., Stage]


@pytest.fixture
def stage(experiment: Experiment, series: Series, heard: Any) -> SetUp:
    def set_up(
        *events: PlannedEvent, before: int = 4, repetitions: int = 2, topologies: tuple[TopologyChoice, ...] = ()
    ) -> Stage:
        machines = MachineCount(before, machines_at_end(before, events))
        asked = {event.kind for event in events} & {"scale_out", "scale_in", "reschedule"}
        variants = tuple(each for each in experiment.variants if asked <= POLICIES[each.policy].events)
        planned = replace(
            experiment, events=events, machines=machines, repetitions=repetitions, variants=variants
        )  # fmt: skip
        if topologies:
            planned = replace(planned, topology=None, topologies=topologies)
        return Stage(planned, heard)

    return set_up
