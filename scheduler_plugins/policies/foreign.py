"""A foreign scheduler, in Storm's own form: the bridge hosts the class and lets it do all placing.

`scheduler` is its IScheduler, whose jar is in the run's Storm home. As for Storm's own schedulers, `rebalance: true`
asks Nimbus for a rebalance at a scale-out or a reschedule, and it cannot choose machines to leave: it answers no
scale-in. If it throws or hangs, the bridge reports it and places nothing: the run belongs to that scheduler, and has
failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_plugins.model import FOREIGN, Decision, Memory, Observation
from scheduler_plugins.policies.parameters import check_parameters
from scheduler_plugins.policies.storm import delegate

CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")


@dataclass(frozen=True)
class ForeignParameters:
    scheduler: str = ""  # of the variant's code; the harness adds it
    rebalance: bool = False
    conf: Mapping[str, Any] = field(default_factory=dict)  # laid over Nimbus' conf and the topologies'

    def __post_init__(self) -> None:
        if not CLASS_NAME.fullmatch(self.scheduler):
            raise ValueError(
                f"scheduler is {self.scheduler!r}; it must be the class of an IScheduler, which the variant's"
                " code.scheduler names"
            )
        check_parameters(self)


def decide(observation: Observation, memory: Memory, parameters: ForeignParameters) -> Decision:
    name = parameters.scheduler
    decision = delegate(observation, memory, FOREIGN, parameters.conf, rebalance=parameters.rebalance, called=name)
    return replace(decision, scheduler_class=name)
