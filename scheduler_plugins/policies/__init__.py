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
from scheduler_plugins.policies import ds2, even, foreign, greedy, metis, round_robin, stela, storm, topology_aware


class PolicyError(Exception):
    """A policy or parameter that does not exist, or a value that is not allowed."""

    blame = "configuration"


@dataclass(frozen=True)
class Entry:
    """A policy: its function, its frozen dataclass of parameters, the scale events that it answers.

    `reads_rates`: it decides nothing on an event without fresh rates. `is_host`: a scheduler in Nimbus places instead
    of it, in any round and whether or not it is asked.
    """

    decide: Callable[..., Decision]
    parameters: type
    events: frozenset[str]
    reads_rates: bool = False
    is_host: bool = False


POLICIES: Mapping[str, Entry] = {
    "ds2": Entry(ds2.decide, ds2.Parameters, frozenset({"reschedule"}), reads_rates=True),
    "even": Entry(even.decide, even.Parameters, frozenset({"scale_out", "reschedule"})),
    "foreign": Entry(foreign.decide, foreign.Parameters, frozenset({"scale_out", "reschedule"}), is_host=True),
    "greedy": Entry(greedy.decide, greedy.Parameters, frozenset({"reschedule"}), reads_rates=True),
    "metis": Entry(metis.decide, metis.Parameters, frozenset({"reschedule"}), reads_rates=True),
    "round_robin": Entry(round_robin.decide, round_robin.Parameters, frozenset({"scale_out", "scale_in"})),
    "stela": Entry(stela.decide, stela.Parameters, frozenset({"scale_out", "scale_in"}), reads_rates=True),
    "storm": Entry(storm.decide, storm.Parameters, frozenset({"scale_out", "reschedule"}), is_host=True),
    **{
        name: Entry(
            functools.partial(topology_aware.decide, strategy=strategy),
            topology_aware.Parameters,
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
