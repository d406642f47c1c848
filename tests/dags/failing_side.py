"""The child process of a comparison on fakes, whose side B throws in Nimbus. `failing_side.py SERIES PID`."""

import sys
from typing import Any

from barograph.campaign import execution, steps
from barograph.errors import RunBroken
from barograph.plan.blocks import PlannedRun
from barograph.plan.experiment import TopologyChoice
from barograph.run.context import SeriesContext
from barograph.series.series import Series

whole = steps.context_of


def failing_context(series: Series) -> SeriesContext:
    bench = whole(series)
    submit = bench.cluster.submit

    def submitted(run: PlannedRun, topology: TopologyChoice) -> Any:
        if run.variant.name.endswith("_b"):
            raise RunBroken("Nimbus: java.lang.IllegalStateException: thrown by the branch")
        return submit(run, topology)

    bench.cluster.submit = submitted  # type: ignore[method-assign] # the fake is a plain object
    return bench


steps.context_of = failing_context
sys.exit(execution.main(sys.argv[1:]))
