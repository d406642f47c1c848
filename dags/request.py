"""What a trigger form or a command line may change in an experiment. Pure: parameters in, Experiment out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dags.errors import ExperimentError
from dags.experiment import Durations, Experiment, TestbedChoice, demo, from_data, only

DURATIONS = tuple(field.name for field in fields(Durations))
CHANGEABLE = ("policies", "repetitions", "testbed", "options", "demo", *DURATIONS)


def requested(experiment: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """The experiment with the changes that are not None; keys are `CHANGEABLE`. Validated as the YAML is.

    `options` are of the testbed that is chosen in the end, laid over those of the YAML.
    """
    unknown = sorted(set(changes) - set(CHANGEABLE))
    if unknown:
        raise ExperimentError(f"cannot change {', '.join(unknown)}; what can be changed: {', '.join(CHANGEABLE)}")
    asked = {key: value for key, value in changes.items() if value is not None}
    if asked.pop("demo", False):
        experiment = demo(experiment)
    if "policies" in asked:
        experiment = only(experiment, tuple(asked.pop("policies")))
    if "testbed" in asked:
        experiment = replace(experiment, testbed=replace(experiment.testbed, name=asked.pop("testbed")))
    if options := asked.pop("options", None):
        experiment = replace(experiment, testbed=_with_options(experiment.testbed, options))
    repetitions = asked.pop("repetitions", experiment.repetitions)
    durations = replace(experiment.durations, **{key: float(value) for key, value in asked.items()})
    return from_data(replace(experiment, repetitions=repetitions, durations=durations).as_data(), "as asked for")


def _with_options(choice: TestbedChoice, options: Any) -> TestbedChoice:
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise ExperimentError(f'options is {options!r}; give names with values, such as {{"region": "eu-west-1"}}')
    mine = {**choice.options.get(choice.name, {}), **options}
    return replace(choice, options={**choice.options, choice.name: mine})
