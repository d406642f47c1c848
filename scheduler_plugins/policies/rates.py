"""Whether the measured rates of an observation are there and fresh enough to decide on."""

from __future__ import annotations

from scheduler_plugins.model import Observation, Topology


def why_not_usable(observation: Observation, max_samples_age_s: float) -> str:
    """Why no decision can be based on the rates; empty if it can.

    A bolt without a rate has not been seen at all. An edge without one may just have been silent: it counts as 0.
    """
    if observation.samples_age_s is None:
        return "no samples yet"
    if observation.samples_age_s > max_samples_age_s:
        return f"samples are {observation.samples_age_s:.1f} s old, allowed are {max_samples_age_s:g} s"
    missing = [name for topology in observation.topologies for name in _unmeasured(topology)]
    return f"no rates of {', '.join(missing)}" if missing else ""


def _unmeasured(topology: Topology) -> list[str]:
    return [c.name for c in topology.components if c.kind == "bolt" and c.executed_per_s is None]
