import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.order import machines_at_end
from barograph.plan.experiment import Experiment, MachineCount, Variant
from barograph.plan.topologies import TopologyChoice
from barograph.run.context import RunContext, SeriesContext
from barograph.run.monitor import steady_test
from barograph.run.simulation import SimulatedClock
from barograph.series.run_record import read_run
from barograph.series.series import Series, open_series
from scheduler_plugins.policies import POLICIES
from tests.support.fakes.storm import FakeStorm

Lines = list[dict[str, Any]]


class Stage:
    """A series of one experiment, and the fake that it runs on."""

    def __init__(self, experiment: Experiment, listener: Any, faults: Mapping[str, Any]) -> None:
        self.series: Series = open_series(experiment, new=True, now_s=1_699_999_000.0)
        self.storm = FakeStorm(
            SimulatedClock(1_700_000_000.0),
            experiment.starting(),
            experiment.workers(),
            tuple(t.name for t in experiment.every_topology()),
            experiment.testbed.joining,
        )
        self.storm.faults.update(faults)
        self.context = SeriesContext(experiment, self.storm, self.storm, self.storm.clock, listener, steady_test)
        self.run_id = self.series.plan()[0].run_id

    def attempt(self) -> str | None:
        return attempt_next_run(self.series, self.context)

    def go(self) -> Lines:
        """Do the run, which is complete; returns its events."""
        assert self.attempt() == self.run_id
        assert self.document()["status"] == "complete"
        return self.events()

    def fails(self, error: type[BaseException], match: str | None = None) -> dict[str, Any]:
        """Do the run, which ends with this error; returns its document."""
        with pytest.raises(error, match=match):
            self.attempt()
        return self.document()

    def last(self) -> "Stage":
        """Do every run but the last one."""
        *others, last = self.series.plan()
        for _ in others:
            self.attempt()
        self.run_id = last.run_id
        return self

    def events(self) -> Lines:
        path = self.series.run_folder(self.run_id) / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def of(self, kind: str) -> Lines:
        return of(self.events(), kind)

    def document(self) -> dict[str, Any]:
        found = read_run(self.series.run_folder(self.run_id))
        assert found is not None
        return found

    def first_attempt(self) -> dict[str, Any]:
        """The document of the attempt that failed first."""
        kept = read_run(self.series.attempts / f"{self.run_id}.attempt-1")
        assert kept is not None
        return kept

    def run(self, record: Any = None) -> RunContext:
        return RunContext.begin(self.context, self.series.plan()[0], Notes() if record is None else record, last=False)


class Notes(Lines):
    """As much of a run's record as its notes need."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}

    def event(self, kind: str, **facts: Any) -> None:
        self.append({"kind": kind, **facts})


def of(lines: Lines, kind: str) -> Lines:
    return [event for event in lines if event["kind"] == kind]


SetUp = Callable[..., Stage]


@pytest.fixture
def stage(experiment: Experiment, series: Series, heard: Any) -> SetUp:
    """Without events: those of the experiment. `policy`: one variant of it, with `parameters`. Faults are by name."""

    def set_up(
        *events: PlannedEvent, before: int = 4, repetitions: int = 2, topologies: tuple[TopologyChoice, ...] = (),
        joining: Any = "ready", limits: Any = (None, None), policy: str = "",
        parameters: Mapping[str, Any] | None = None, durations: Mapping[str, float] | None = None, **faults: Any,
    ) -> Stage:  # fmt: skip
        events = events or experiment.events
        asked = {event.kind for event in events if event.asks_policy}
        variants = tuple(each for each in experiment.variants if asked <= POLICIES[each.policy].events)
        planned = replace(
            experiment,
            events=events,
            machines=MachineCount(before, machines_at_end(before, events), *limits),
            repetitions=repetitions,
            variants=(Variant(policy, policy, parameters or {}),) if policy else variants,
            testbed=replace(experiment.testbed, joining=joining),
            durations=replace(experiment.durations, **(durations or {})),
        )
        if topologies:
            planned = replace(planned, topology=None, topologies=topologies)
        return Stage(planned, heard, faults)

    return set_up
