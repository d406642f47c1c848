"""The child process of a comparison on fakes, whose side B throws in Nimbus. `failing_side.py SERIES PID`."""

import sys
from typing import Any

from dags.errors import RunBroken
from dags.plan import PlannedRun
from dags.series import Series
from dags.steps import series_steps
from dags.steps.under_way import Bench
from dags.terminal import child

whole = series_steps.bench_for


def bench_for(series: Series) -> Bench:
    bench = whole(series)
    submit = bench.cluster.submit

    def submitted(run: PlannedRun) -> Any:
        if run.variant.name.endswith("_b"):
            raise RunBroken("Nimbus: java.lang.IllegalStateException: thrown by the branch")
        return submit(run)

    bench.cluster.submit = submitted  # type: ignore[method-assign] # the fake is a plain object
    return bench


series_steps.bench_for = bench_for
sys.exit(child.main(sys.argv[1:]))
