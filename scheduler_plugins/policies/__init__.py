"""The policies by name. Adding one: a file here, a line in POLICIES, a test; contract tests run over the whole dict.

Errors: PolicyError (blame: configuration), raised by `bind` only; a policy itself never raises for bad input data, it
returns a decision whose reason says why it holds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from scheduler_plugins.model import Decision, Policy
from scheduler_plugins.policies import (
    dodo,
    ds2,
    even,
    foreign,
    greedy,
    henge,
    metis,
    round_robin,
    stela,
    storm,
    topology_aware,
)


class PolicyError(Exception):
    """A policy or parameter that does not exist, or a value that is not allowed."""

    blame = "configuration"


@dataclass(frozen=True)
class PolicyEntry:
    """A policy: its function, its frozen dataclass of parameters, the scale events that it answers.

    `reads_rates`: it decides nothing on an event without fresh rates. `is_host`: a scheduler in Nimbus places instead
    of it, in any round and whether or not it is asked.
    """

    decide: Callable[..., Decision]
    parameters: type
    events: frozenset[str]
    reads_rates: bool = False
    is_host: bool = False


POLICIES: Mapping[str, PolicyEntry] = {
    "dodo": PolicyEntry(dodo.decide, dodo.DodoParameters, frozenset({"reschedule"}), reads_rates=True),
    "ds2": PolicyEntry(ds2.decide, ds2.Ds2Parameters, frozenset({"reschedule"}), reads_rates=True),
    "even": PolicyEntry(even.decide, even.EvenParameters, frozenset({"scale_out", "reschedule"})),
    "foreign": PolicyEntry(
        foreign.decide, foreign.ForeignParameters, frozenset({"scale_out", "reschedule"}), is_host=True
    ),
    "greedy": PolicyEntry(greedy.decide, greedy.GreedyParameters, frozenset({"reschedule"}), reads_rates=True),
    "henge": PolicyEntry(henge.decide, henge.HengeParameters, frozenset(), reads_rates=True),
    "metis": PolicyEntry(metis.decide, metis.MetisParameters, frozenset({"reschedule"}), reads_rates=True),
    "round_robin": PolicyEntry(
        round_robin.decide, round_robin.RoundRobinParameters, frozenset({"scale_out", "scale_in"})
    ),
    "stela": PolicyEntry(stela.decide, stela.StelaParameters, frozenset({"scale_out", "scale_in"}), reads_rates=True),
    "storm": PolicyEntry(storm.decide, storm.StormParameters, frozenset({"scale_out", "reschedule"}), is_host=True),
    **{
        name: PolicyEntry(
            functools.partial(topology_aware.decide, strategy=strategy),
            topology_aware.TopologyAwareParameters,
            frozenset({"scale_out"}),
            reads_rates=strategy.by_load,
        )
        for name, strategy in topology_aware.STRATEGIES.items()
    },
}


def bind(name: str, parameters: Mapping[str, Any]) -> Policy:
    """Return the policy `name` with `parameters`. Raises PolicyError naming known policies and allowed values."""
    if name not in POLICIES:
        raise PolicyError(f"policy {name!r} is not known; known are {', '.join(sorted(POLICIES))}")
    entry = POLICIES[name]
    names = {field.name for field in fields(entry.parameters)}
    surplus = sorted(set(parameters) - names)
    if surplus:
        raise PolicyError(f"policy {name} has no parameter {surplus[0]!r}; known are {', '.join(sorted(names))}")
    try:
        settings = entry.parameters(**parameters)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"policy {name}: {error}") from error
    return functools.partial(entry.decide, parameters=settings)
