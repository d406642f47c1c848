"""`barograph …` as it is, but `rented/star` has one worker machine, nobody joins, and a run is as short as can be.

python -m tests.support.cloud.short_star run rented/star --option market=spot
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from barograph import cli
from barograph.cli import execution, run
from barograph.plan.events.rates import RateChange
from barograph.plan.experiment import EXPERIMENTS, Durations, Experiment, MachineCount, load

# What AWS takes back is asked for each 15 s: a run lasts longer than that after its first tuple.
WARM_UP_S = 25.0


def shortened(name: str, folder: Path = EXPERIMENTS) -> Experiment:
    whole = load(name, folder)
    return replace(
        whole,
        topology=replace(whole.topology, parameters={"rate_per_s": 40.0}, overrides={"workers": 2}),
        testbed=replace(whole.testbed, joining="ready"),
        machines=MachineCount(before=1, after=1),
        events=(RateChange(at=WARM_UP_S, factor=1.0),),
        durations=Durations(warm_up_floor_s=10.0, warm_up_ceiling_s=20.0, after_floor_s=12.0, horizon_s=15.0),
    )


if __name__ == "__main__":
    for module in (execution, run):
        module.load = shortened  # type: ignore[attr-defined]  # their own imports of it
    sys.exit(cli.main(sys.argv[1:]))
