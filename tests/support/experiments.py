"""Experiments that differ from shipped ones."""

from collections.abc import Mapping
from typing import Any

from barograph.plan.experiment import Experiment, from_data, load


def changed(experiment: Experiment | str, **keys: Any) -> Experiment:
    """An experiment, or the shipped one of that name, with other values of these keys of its file. Of a mapping, keys
    that are not given stay; events come when all is steady, with one machine, and `machines.after` follows from them.
    """
    asked = load(experiment) if isinstance(experiment, str) else experiment
    data: dict[str, Any] = asked.as_data()
    for key, value in keys.items():
        data[key] = data[key] | value if key in ("machines", "durations", "testbed") else value
    data["events"] = [
        {"at": "steady", **({"machines": 1} if event["kind"] in ("scale_out", "scale_in") else {}), **event}
        for event in data["events"]
    ]
    joined = sum(event["machines"] for event in data["events"] if event["kind"] == "scale_out")
    left = sum(event["machines"] for event in data["events"] if event["kind"] == "scale_in")
    data["machines"] = data["machines"] | {"after": data["machines"]["before"] + joined - left}
    return from_data(data)


def variants_changed(experiment: Experiment, changes: Mapping[str, Mapping[str, Any]]) -> Experiment:
    """With other values of keys of its variants, by their names."""
    variants = experiment.as_data()["variants"]
    return changed(experiment, variants=[each | changes.get(each["name"], {}) for each in variants])
