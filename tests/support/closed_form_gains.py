"""What the closed form (analysis.claims.capacity) gives over the throughput of the start, in percent."""

from analysis.claims import capacity
from scheduler_plugins.policies.stela import StelaParameters


def gain_percent(topology: capacity.TopologyCapacity, executors: capacity.Sizes) -> float:
    return over_start(topology, capacity.throughput(topology, executors))


def best_gain_percent(topology: capacity.TopologyCapacity, slots: int) -> float:
    """The most that any distribution of up to `slots` more executors gives, or a bound."""
    return over_start(topology, capacity.best(topology, slots).per_s)


def stela_gain_percent(topology: capacity.TopologyCapacity, slots: int, parameters: StelaParameters) -> float:
    return gain_percent(topology, capacity.stela_executors(topology, slots, parameters))


def over_start(topology: capacity.TopologyCapacity, per_s: float) -> float:
    return 100.0 * (per_s / capacity.throughput(topology, topology.initial) - 1.0)
