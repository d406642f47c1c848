"""`barograph bisect …` on fakes, where the commits named in $SLOW_COMMITS are 20 % slower than the others.

As a child process (`slow_commits.py child SERIES PID`): one comparison of the search.
"""

import os
import subprocess
import sys
from typing import Any

from rich.console import Console

from barograph import cli
from barograph.campaign import execution, steps
from barograph.cli import bisect
from barograph.plan.blocks import PlannedRun
from barograph.plan.experiment import TopologyChoice
from barograph.run.context import SeriesContext
from barograph.series.series import Series
from tests.support.fakes import storm

SLOW = os.environ["SLOW_COMMITS"].split()
whole = steps.context_of


def context_of(series: Series) -> SeriesContext:
    bench = whole(series)
    submit = bench.cluster.submit

    def submitted(run: PlannedRun, topology: TopologyChoice) -> Any:
        slow = run.variant.code is not None and run.variant.code.commit in SLOW
        storm.RATE_OF_A_MACHINE = 40.0 if slow else 50.0
        return submit(run, topology)

    bench.cluster.submit = submitted  # type: ignore[method-assign] # the fake is a plain object
    return bench


def carry_out(series: Series, _console: Console, _ending: object) -> int:
    argv = [sys.executable, __file__, "child", str(series.folder), str(os.getpid())]
    return subprocess.run(argv, check=True).returncode


if sys.argv[1] == "child":
    steps.context_of = context_of
    sys.exit(execution.main(sys.argv[2:]))
bisect.carry_out = carry_out
sys.exit(cli.main(["bisect", *sys.argv[1:]]))
