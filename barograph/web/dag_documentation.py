"""Documentation that Airflow shows beside a DAG: what is measured, how, and for how long. Pure; Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable

from barograph.nights.suite import Suite
from barograph.plan.durations import series_s
from barograph.plan.experiment import Experiment
from barograph.plan.topologies import names_text

TASKS = """
### Its tasks
`open_series` checks the answers of the form and opens the series. `provision` (setup) takes the machines and `release`
(teardown) gives them back, whatever happens between. Both `open_series` and `provision` are deferred while another
series has the testbed: this run waits its turn. `deploy` (setup) puts Storm on the machines. Each `run` does the run
that it is named after, one after the other; those that were not needed are skipped. `analyse` makes the tables and the
report. Where a task fails the `watcher` fails too, so that it is seen. What was cut short goes on where it was when the
same answers are given again. To repeat a run, clear its task with what is downstream: machines are taken anew.
"""


COMPARISON_DOCUMENTATION = """
## Is B better than A?
A and B are branches, tags or commits of this repository, or names of files in `dags/schedulers/`, each of which
describes a scheduler that is not ours. Both are built first; then each block runs every variant on both sides, in
shuffled order, on the same machines. The answer is one sentence (better, worse, no difference, or undecided) with a
table of every metric: the difference, its interval, the noise of this testbed.

*Until certain* goes on with further blocks until they are enough to find a difference of the goal or to rule it out, or
the budget is spent. The same ref on both sides measures the noise itself.
"""


def suite_documentation(suite: Suite) -> str:
    schedule = f"each night by `{suite.schedule}` (cron, UTC)" if suite.schedule else "only when somebody triggers it"
    lines = [
        f"## {suite.title}",
        f"Measured {schedule}, one experiment after the other on `{suite.testbed}`, each as a new series. No run begins"
        f" whose expected end is later than {suite.deadline_hours:g} h after the night's beginning.",
        *_items(
            f"`{each.experiment}`: {', '.join(f'`{variant}`' for variant in each.variants) or 'all its variants'}"
            f"{'' if each.repetitions is None else f', {each.repetitions} runs of each'}"
            for each in suite.experiments
        ),
        "Then the night is put on record, compared with the nights before, and published: on the page of the tab"
        " **Report**, in `findings.json`, and to the webhook where there is one. A confirmed regression makes the"
        " run fail; so does a task that failed, whose log says why.",
    ]
    return "\n\n".join(lines)


def experiment_documentation(experiment: Experiment) -> str:
    runs = experiment.repetitions * len(experiment.variants)
    minutes = series_s(experiment, runs) / 60
    claims, topologies = ", ".join(experiment.claims), [f"`{each.name}`" for each in experiment.every_topology()]
    variants = []
    for each in experiment.variants:
        parameters = "".join(f", {name}: {json.dumps(value)}" for name, value in each.parameters.items())
        topology = f", on a topology with {changes}" if (changes := each.topology_words()) else ""
        variants.append(f"`{each.name}`: policy `{each.policy}`{parameters}{topology}")
    events = []
    for place, event in enumerate(experiment.events, 1):
        moment = "once throughput is steady" if event.at == "steady" else f"{event.at:g} s after the one before it"
        events.append(f"`e{place}`: {event.words()}, {moment}")
    lines = [
        f"## {experiment.title}",
        f"Topolog{'ies' if len(topologies) > 1 else 'y'} {names_text(topologies)}"
        f" on {experiment.machines.before} machines of `{experiment.testbed.name}`"
        f" (type `{experiment.testbed.machine_type}`); each run is of one variant, and goes through the same events.",
        "### Variants",
        *_items(variants),
        "### Events",
        *_items(events),
        "### How long",
        f"{experiment.repetitions} runs of each variant, {runs} in all, about {minutes:.0f} min.",
        f"Claims of the papers that it tests: {claims}." if claims else "It tests no claim of a paper.",
        "The tab **Report** of a DAG run shows how far it is, and then what came of it.",
    ]
    return "\n\n".join(lines) + "\n" + TASKS


def _items(items: Iterable[str]) -> list[str]:
    return ["\n".join(f"- {item}" for item in items) or "None."]
