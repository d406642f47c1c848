"""`barograph bisect …` on fakes, where the commits named in $SLOW_COMMITS are 20 % slower than the others.

As a child process (`slow_commits.py child SERIES PID`): one comparison of the search.
"""

import os
import subprocess
import sys
from typing import Any

from rich.console import Console

from dags.plan import PlannedRun
from dags.series import Series
from dags.steps import fake_cluster, series_steps
from dags.steps.under_way import Bench
from dags.terminal import bisect as command
from dags.terminal import child

SLOW = os.environ["SLOW_COMMITS"].split()
whole = series_steps.bench_for


def bench_for(series: Series) -> Bench:
    bench = whole(series)
    submit = bench.cluster.submit

    def submitted(run: PlannedRun) -> Any:
        slow = run.variant.code is not None and run.variant.code.commit in SLOW
        fake_cluster.RATE_OF_A_MACHINE = 40.0 if slow else 50.0
        return submit(run)

    bench.cluster.submit = submitted  # type: ignore[method-assign] # the fake is a plain object
    return bench


def carry_out(series: Series, _console: Console, _ending: object) -> int:
    argv = [sys.executable, __file__, "child", str(series.folder), str(os.getpid())]
    return subprocess.run(argv, check=True).returncode


if sys.argv[1] == "child":
    series_steps.bench_for = bench_for
    sys.exit(child.main(sys.argv[2:]))
command.carry_out = carry_out
sys.exit(__import__("barograph").main(["bisect", *sys.argv[1:]]))
