"""The limits of the steps of a run and of a series, and the expected and the longest length of runs and series within
these limits. Pure.

Smaller limits are defined where they apply: of plays and events in `events.kind`, of commands on machines in
`inventory.remote.ssh`, of builds in `barograph.code.build`.
"""

from __future__ import annotations

from dataclasses import dataclass

from barograph.plan.events.kind import (
    DRAIN_S,
    GIVE_BACK_S,
    LONGEST_S,
    OUTCOME_S,
    PLAYS_S,
    REGISTER_S,
    SCALE_ATTEMPTS,
)
from barograph.plan.experiment import SIMULATED, Experiment

FIRST_TUPLE_S = 150.0  # from the submission to the first tuple at a sink
LONGEST_PLAYBOOKS_S = PLAYS_S["reset"] + PLAYS_S["submit"] + PLAYS_S["kill"] + PLAYS_S["collect"]
LONGEST_SWITCH_S = PLAYS_S["switch"]  # to the code of another variant
LONGEST_BOOT_S = 300.0 + PLAYS_S["extend"]
LONGEST_ACQUISITION_S = 3600.0  # until all machines of the start accept connections
LONGEST_OPENING_S = 600.0 + PLAYS_S["deploy"]  # machines, packages and Storm on them
LONGEST_CLOSING_S = GIVE_BACK_S  # the machines are paid for until then, and not while it is analysed
LONGEST_ANALYSIS_S = 900.0  # of an analysis between blocks
REPLACING_S = 3600.0 + LONGEST_OPENING_S
ANY_RUN_S = float(LONGEST_S)
RUN_ATTEMPTS = 2  # of a run whose machines or network failed, or that was invalid


@dataclass(frozen=True)
class Limit:
    """The longest that a step may take, and the reason; beyond it the step hangs."""

    seconds: float
    reason: str


# For steps whose length does not depend on the experiment. Each is above the sum of the limits inside it, which name
# the hanging part: these end what the inner ones miss.
STEP_LIMITS = {
    "open": Limit(3 * 3600.0, "two codes are cloned (10 min each) and built (30 min each, and their bridges)"),
    "provision": Limit(4 * 3600.0, "root filesystem (50 min), Storm home (50), two jars (30); Emulab: nodes (45)"),
    "deploy": Limit(2 * 3600.0, "packages and Storm reach rented machines (30 min); jars are built anew (15 each)"),
    "plan": Limit(600.0, "a series in a bucket is brought up to date"),
    "release": Limit(3600.0, "EC2 and Emulab let machines go (10 and 15 min each time they are asked)"),
    "analyse": Limit(6 * 3600.0, "the tables of a long series on a box with few cores; a bucket"),
    "report": Limit(3600.0, "a series is sent to a bucket"),
}  # fmt: skip


def step_limit(step: str, experiment: Experiment | None = None) -> Limit:
    """Return the limit of a series' step: one of `STEP_LIMITS`, or `run`, whose limit is that of this experiment's
    runs.

    Without an experiment `run` is as long as any experiment may make it.
    """
    if step != "run":
        return STEP_LIMITS[step]
    longest_s = ANY_RUN_S if experiment is None else longest_run_s(experiment)
    reason = f"{RUN_ATTEMPTS} attempts; other machines between them (Emulab: 45 min); an analysis where a block ends"
    return Limit(RUN_ATTEMPTS * longest_s + REPLACING_S + LONGEST_ANALYSIS_S, reason)


@dataclass(frozen=True)
class Overhead:
    """Seconds beyond the watched time. These are the defaults, until runs have been measured."""

    opening_s: float = 60.0  # until the first run
    run_s: float = 55.0  # of each
    boot_s: float = 90.0  # of a scale-out whose machines boot
    closing_s: float = 45.0  # after the last run: release and analysis
    pace: float = 1.0  # seconds that pass in one second of a run: far less where it is simulated
    runs: int = 0  # number of measured runs behind it


DEFAULT_OVERHEAD = Overhead()
SIMULATED_OVERHEAD = Overhead(opening_s=2.0, pace=0.02)  # a few machines on one core, until runs have been simulated


def default_overhead(testbed: str) -> Overhead:
    return SIMULATED_OVERHEAD if testbed == SIMULATED else DEFAULT_OVERHEAD


def run_s(experiment: Experiment, overhead: Overhead | None = None) -> float:
    """Return the expected seconds of a run, where everything is steady at its floor."""
    seconds = overhead or default_overhead(experiment.testbed.name)
    watched_s = sum(_watched_s(experiment, place) for place in (None, *range(len(experiment.events))))
    return (watched_s + seconds.run_s + _boots(experiment) * seconds.boot_s) * seconds.pace


def _watched_s(experiment: Experiment, place: int | None) -> float:
    """Return the expected seconds from the event's zero on, including the event itself."""
    planned_s = 0.0 if place is None else experiment.events[place].planned_s
    return max(experiment.watched(place)[0], planned_s)


def longest_run_s(experiment: Experiment) -> float:
    """Return the longest that one attempt of a run can take before a limit ends it."""
    watched_s = sum(experiment.watched(place)[1] for place in (None, *range(len(experiment.events))))
    events_s = _longest_events_s(experiment, 0)
    switch_s = LONGEST_SWITCH_S if any(variant.code for variant in experiment.variants) else 0.0
    boots_s = _boots(experiment) * (LONGEST_BOOT_S + GIVE_BACK_S)
    return watched_s + FIRST_TUPLE_S + events_s + LONGEST_PLAYBOOKS_S + switch_s + boots_s


def series_s(experiment: Experiment, runs: int, overhead: Overhead | None = None) -> float:
    """Return the expected seconds of a series' execution with that many runs to do."""
    seconds = overhead or default_overhead(experiment.testbed.name)
    return seconds.opening_s + runs * run_s(experiment, seconds) + seconds.closing_s if runs else 0.0


def longest_series_s(experiment: Experiment, runs: int) -> float:
    """Return the longest with one attempt for each run; a repetition begins only where the budget still covers it."""
    return LONGEST_OPENING_S + runs * longest_run_s(experiment) + LONGEST_CLOSING_S if runs else 0.0


def joining_s(experiment: Experiment, place: int, overhead: Overhead = DEFAULT_OVERHEAD) -> float:
    """Return how long the machines that boot for `events[place]` are expected to be up in each run."""
    after_s = sum(_watched_s(experiment, following) for following in range(place, len(experiment.events)))
    return after_s + overhead.boot_s + overhead.run_s


def longest_joining_s(experiment: Experiment, place: int) -> float:
    after_s = sum(experiment.watched(following)[1] for following in range(place, len(experiment.events)))
    events_s = _longest_events_s(experiment, place)
    return after_s + events_s + LONGEST_BOOT_S + LONGEST_PLAYBOOKS_S + GIVE_BACK_S


def _longest_events_s(experiment: Experiment, place: int) -> float:
    """Return the longest of the events from `place` on; each operation may wait before its rebalance, and once more
    where Nimbus restarts meanwhile."""
    waits_s = 2 * max(variant.wait_s for variant in experiment.variants)
    events, total_s, requests, is_held = experiment.events, 0.0, 0, False
    for number, event in enumerate(events):
        begins = event.is_hold and not event.planned_s
        if number >= place:
            # Awaited decisions: for each attempt at a scale event, and the last one of a hold that ends.
            decisions = SCALE_ATTEMPTS if event.asks_policy else int(event.is_hold and event.planned_s > 0)
            total_s += event.longest_s + decisions * waits_s
            # A lasting hold pauses before each scale event, after its policy's last decision.
            total_s += (OUTCOME_S + waits_s) * (event.asks_policy and (is_held or begins))
            # Late requests, carried out after an end: once in each hold that ends, and for a lasting hold in each event
            # and each following watch.
            requests += (event.is_hold and not begins) + is_held + (is_held or begins)
        is_held = is_held or begins
    return total_s + (requests * longest_request_s(experiment) if experiment.machines.limits is not None else 0.0)


def longest_request_s(experiment: Experiment) -> float:
    """Return the longest until requested machines have joined, or released ones have left."""
    boot_s = LONGEST_BOOT_S + GIVE_BACK_S if experiment.testbed.joining == "booted" else 0.0
    release_s = 2 * DRAIN_S + PLAYS_S["leave"] + PLAYS_S["collect"] + GIVE_BACK_S
    return max(boot_s + PLAYS_S["join"] + REGISTER_S, release_s)


def first_hold(experiment: Experiment) -> int | None:
    """Return the event from which on a policy may ask for machines; None: none."""
    holds = (place for place, event in enumerate(experiment.events) if event.is_hold)
    return next(holds, None) if experiment.machines.limits is not None else None


def _boots(experiment: Experiment) -> int:
    if experiment.testbed.joining != "booted":
        return 0
    return sum(event.joins > 0 for event in experiment.events)
