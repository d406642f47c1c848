"""The limits of a run's steps, and how long runs and series take: as expected, and at the longest that these limits
allow. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from barograph.plan.experiment import Experiment

FIRST_TUPLE_S = 150.0  # from the submission to the first tuple at a sink
LONGEST_PLAYBOOKS_S = 300.0  # reset, submit and collect on a slow network
LONGEST_SWITCH_S = 120.0  # to the code of another variant
LONGEST_BOOT_S = 600.0
LONGEST_ACQUISITION_S = 3600.0  # until all machines of the start let us in
LONGEST_OPENING_S = 1200.0  # machines, packages and Storm on them
LONGEST_CLOSING_S = 120.0


@dataclass(frozen=True)
class Overhead:
    """Seconds that are not watched time. These are the defaults, until runs have been measured."""

    opening_s: float = 60.0  # until the first run
    run_s: float = 55.0  # of each
    boot_s: float = 90.0  # of a scale-out whose machines boot
    closing_s: float = 45.0  # after the last run: release and analysis
    runs: int = 0  # how many measured runs it is from


DEFAULT_OVERHEAD = Overhead()


def run_s(experiment: Experiment, overhead: Overhead = DEFAULT_OVERHEAD) -> float:
    """A run's expected length in seconds, where everything is steady at its floor."""
    watched_s = sum(experiment.watched(place)[0] for place in _places(experiment))
    return watched_s + overhead.run_s + _boots(experiment) * overhead.boot_s


def longest_run_s(experiment: Experiment) -> float:
    """What one attempt of a run can take before one of its limits ends it."""
    watched_s = sum(experiment.watched(place)[1] for place in _places(experiment))
    events_s = sum(event.longest_s for event in experiment.events)
    switch_s = LONGEST_SWITCH_S if any(variant.code for variant in experiment.variants) else 0.0
    return watched_s + FIRST_TUPLE_S + events_s + LONGEST_PLAYBOOKS_S + switch_s + _boots(experiment) * LONGEST_BOOT_S


def series_s(experiment: Experiment, runs: int, overhead: Overhead = DEFAULT_OVERHEAD) -> float:
    """Of a series' execution with that many runs to do."""
    return overhead.opening_s + runs * run_s(experiment, overhead) + overhead.closing_s if runs else 0.0


def longest_series_s(experiment: Experiment, runs: int) -> float:
    """Each run attempted once; a repetition is begun only where the budget still covers it."""
    return LONGEST_OPENING_S + runs * longest_run_s(experiment) + LONGEST_CLOSING_S if runs else 0.0


def joining_s(experiment: Experiment, place: int, overhead: Overhead = DEFAULT_OVERHEAD) -> float:
    """How long the machines that boot for `events[place]` are there, in each run, as expected."""
    after_s = sum(experiment.watched(later)[0] for later in range(place, len(experiment.events)))
    return after_s + overhead.boot_s + overhead.run_s


def longest_joining_s(experiment: Experiment, place: int) -> float:
    after_s = sum(experiment.watched(later)[1] for later in range(place, len(experiment.events)))
    events_s = sum(event.longest_s for event in experiment.events[place:])
    return after_s + events_s + LONGEST_BOOT_S + LONGEST_PLAYBOOKS_S


def _places(experiment: Experiment) -> tuple[int | None, ...]:
    return (None, *range(len(experiment.events)))


def _boots(experiment: Experiment) -> int:
    if experiment.testbed.joining != "booted":
        return 0
    return sum(event.joins > 0 for event in experiment.events)
