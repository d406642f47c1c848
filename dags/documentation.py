"""What Airflow shows of an experiment beside its DAG: what is measured, how, and for how long. Pure; Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from dags.duration import series_s
from dags.events import Crash, PlannedEvent, RateChange
from dags.experiment import Experiment, Variant

STEPS = """
### Its tasks
`open_series` checks the answers of the form and opens the series. `provision` (setup) takes the machines and `release`
(teardown) gives them back, whatever happens between. `deploy` puts Storm on them, each `run_next` does one run, one
after the other, and `analyse` makes the tables and the report. Where a task fails the `watcher` fails too, so that it
is seen. What was cut short goes on where it was when the same answers are given again.
"""


def documentation(experiment: Experiment) -> str:
    runs = experiment.repetitions * len(experiment.variants)
    minutes = series_s(experiment, runs) / 60
    claims = ", ".join(experiment.claims)
    lines = [
        f"## {experiment.title}",
        f"Topology `{experiment.topology.name}` on {experiment.machines.before} machines of `{experiment.testbed.name}`"
        f" (type `{experiment.testbed.machine_type}`); each run is of one variant, and goes through the same events.",
        "### Variants",
        *_items(_variant(variant) for variant in experiment.variants),
        "### Events",
        *_items(f"`e{place}`: {_event(event)}" for place, event in enumerate(experiment.events, 1)),
        "### How long",
        f"{experiment.repetitions} runs of each variant, {runs} in all, about {minutes:.0f} min.",
        f"Claims of the papers that it tests: {claims}." if claims else "It tests no claim of a paper.",
        "The tab **Report** of a DAG run shows how far it is, and then what came of it.",
    ]
    return "\n\n".join(lines) + "\n" + STEPS


def _items(items: Iterable[str]) -> list[str]:
    return ["\n".join(f"- {item}" for item in items) or "None."]


def _variant(variant: Variant) -> str:
    with_parameters = ", ".join(f"{name} = {value}" for name, value in variant.parameters.items())
    policy = f"policy `{variant.policy}`" + (f", {with_parameters}" if with_parameters else "")
    return f"`{variant.name}`: {policy}"


def _event(event: PlannedEvent) -> str:
    """`scale out by 1 machine, once throughput is steady`."""
    when = "once throughput is steady" if event.at == "steady" else f"{event.at:g} s after the one before it"
    return f"{_what(event)}, {when}"


def _what(event: PlannedEvent) -> str:
    if isinstance(event, Crash):
        back = "stays down" if event.restart_after_s is None else f"boots {event.restart_after_s:g} s later"
        return f"{event.machine} crashes and {back}"
    if isinstance(event, RateChange):
        return f"the input rate becomes {event.factor:g} times that of the submission"
    word = "out" if event.kind == "scale_out" else "in"
    return f"scale {word} by {event.machines} machine{'s' if event.machines > 1 else ''}"
