"""The papers' "round robin scheduler (same as Storm's default)": everything is dealt out again over the remaining
machines.

At a scale-in the machines to leave are named (`machines: [m1, m4]`) or drawn (`machines: random`, with `seed`), as for
SP figure 8's two groups of randomly selected machines; a scale-out is that of `even` with `rebalance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from scheduler_plugins.model import Decision, Memory, Observation
from scheduler_plugins.policies import even, initial_placement, scaling
from scheduler_plugins.policies.parameters import check_parameters


@dataclass(frozen=True)
class RoundRobinParameters:
    machines: Literal["random"] | Sequence[str] = "random"  # the machines that leave, in this order
    seed: int = 0  # of the draw
    initial: initial_placement.InitialRule = "round_robin"

    def __post_init__(self) -> None:
        check_parameters(self)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ValueError(f"seed is {self.seed!r}; allowed is a whole number")
        names = () if isinstance(self.machines, str) or not isinstance(self.machines, Sequence) else self.machines
        is_list = all(isinstance(name, str) for name in names) and 0 < len(set(names)) == len(names)
        if self.machines != "random" and not is_list:
            raise ValueError(f"machines is {self.machines!r}; allowed are random and a list of different machine names")


def decide(
    observation: Observation, memory: Memory, parameters: RoundRobinParameters = RoundRobinParameters()
) -> Decision:
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    if first is not None or observation.event is None:
        return first or Decision(memory=memory)
    if observation.event.kind == "scale_out":
        return even.place_everything_again(observation, memory)
    leave = observation.event.leave
    candidates = sorted(machine.name for machine in scaling.living_machines(observation))
    if parameters.machines == "random":
        draw = Random(parameters.seed).sample(candidates, min(max(leave, 0), len(candidates)))
        release = tuple(name for name in candidates if name in draw)
    else:
        release = tuple(name for name in parameters.machines if name in candidates)[:leave]
    why = scaling.scale_in_problem(observation)
    if not why and len(release) < leave:
        remark = f"of the machines named in `machines` {len(release)} are alive ({', '.join(release) or 'none'})"
        why = f"{leave} machines are to leave; {remark}"
    staying = [machine for machine in observation.machines if machine.name not in release]
    if not why and not initial_placement.has_slot_for_each(observation.topologies, staying):
        why = initial_placement.TOO_FEW_SLOTS
    if why:
        return scaling.refuse_scale_in(memory, why)
    placements = initial_placement.place_all(observation.topologies, staying)
    how = "drawn" if parameters.machines == "random" else "as named"
    reason = f"{', '.join(release)} leave, {how}; every executor dealt out again over the others"
    return Decision(placement=placements, release=release, memory=memory, settled=True, reason=reason)
