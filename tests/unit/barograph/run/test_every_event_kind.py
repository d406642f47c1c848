"""What every kind of event keeps to: the example of each in docs/experiments.md, performed on the fake cluster."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.record.event_timeline import event_marks, event_outcomes
from analysis.record.files import RunPaths
from barograph.plan.durations import longest_run_s
from barograph.plan.events import KINDS
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.experiment import EXPERIMENTS, Experiment, parse
from barograph.series.progress import PHASE_WORDS
from barograph.web.dag_documentation import experiment_documentation
from barograph.yaml_files import read_yaml
from tests.unit.barograph.run.conftest import SetUp

PAGE = Path(__file__).parents[4] / "docs" / "experiments.md"


def example() -> Experiment:
    """The page's, with what it does not say from another experiment."""
    (text, *_) = re.findall(r"```yaml\n(topologies:.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    data: dict[str, Any] = read_yaml(EXPERIMENTS / "stela" / "star.yaml") | yaml.safe_load(text)
    del data["topology"]
    return parse("docs/example", data, source=PAGE.name, folder=EXPERIMENTS / "small")


def examples() -> dict[str, PlannedEvent]:
    """The events of the page's example, by kind."""
    return {event.kind: event for event in example().events}


@pytest.mark.parametrize("kind", KINDS)
def test_its_name_is_the_same_everywhere(kind: str) -> None:
    event = examples().get(kind)
    assert event is not None, f"{kind} of KINDS has no example in {PAGE}"
    assert isinstance(event, KINDS[kind])
    assert f"| `{kind}` |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_performed_in_its_time_and_stands_in_the_record_in_words(kind: str, stage: SetUp) -> None:
    event = examples()[kind]
    here = stage(event, topologies=example().topologies if event.arrives or event.departs else ())
    here.go()
    run, document = RunPaths(here.series.run_folder(here.run_id)), here.document()
    assert next(mark.kind for mark in event_marks(run) if mark.event_id == "e1") == kind
    (outcome,) = event_outcomes(run)
    assert outcome.kind == kind and outcome.label not in ("", "event", kind)
    assert event.words() in experiment_documentation(here.context.experiment)
    phases = {phase["name"] for phase in document["phases"]}
    assert phases <= set(PHASE_WORDS) and phases & set(event.phases), "an event that takes no time of the run"
    assert document["ended_s"] - document["started_s"] <= longest_run_s(here.context.experiment)
