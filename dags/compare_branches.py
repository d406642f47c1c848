"""The DAG `compare_branches`: whether B is better than A, on one experiment, in blocks on the same machines.

A and B are git refs of this repository, or files of `schedulers/`, each of which describes a scheduler that is not ours
(docs/comparing.md). Only wiring: the first task refuses sides that cannot be compared and builds both, the others are
those of every experiment (`dags.wiring`).
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param

from barograph.plan.experiment import names
from barograph.web import COMPARISON_DAG
from barograph.web.dag_documentation import COMPARISON_DOCUMENTATION
from dags.wiring import (
    NEW,
    add_series_tasks,
    is_cleared,
    limit_of,
    new_dag,
    options_param,
    series_of,
    series_param,
    waiting_task,
)
from inventory import TESTBEDS


def form() -> dict[str, Param]:
    side = "A branch, a tag or a commit of this repository, or the name of a file of dags/schedulers"
    experiments = list(names())
    first = "stela/star" if "stela/star" in experiments else experiments[0]
    return {
        "a": Param("main", type="string", minLength=1, title="A", description=side),
        "b": Param(None, type="string", minLength=1, title="B", description=f"{side}; compared against A"),
        "experiment": Param(first, type="string", enum=experiments, title="Experiment"),
        "variants": Param(
            [], type="array", items={"type": "string"}, title="Variants",
            description="Which of the experiment's variants to compare, one a line; none: all of them",
        ),
        "blocks": Param(
            None, type=["null", "integer"], minimum=3, maximum=1000, title="Blocks",
            description="Runs of each variant on each side; empty: those of the experiment, at least 3",
        ),
        "until_certain": Param(
            False, type="boolean", title="Until certain",
            description="Add blocks until they find the goal or rule it out, or the budget is spent",
        ),
        "goal_percent": Param(
            5.0, type="number", exclusiveMinimum=0, maximum=100, title="Goal (%)",
            description="The difference that must not be overlooked; no difference: the whole interval is within it",
        ),
        "budget": Param(
            None, type=["null", "string"], title="Budget", examples=["20 blocks", "2h", "$5"],
            description="With “until certain”: 20 blocks, 2h, 90min, or $5 where machines cost money",
        ),
        "testbed": Param(
            None, type=["null", "string"], enum=[None, *TESTBEDS], title="Testbed",
            values_display={"null": "that of the experiment"},
        ),
        "series": series_param("comparison"),
        "rebuild": Param(
            False, type="boolean", title="Build again", description="Also what failed to build before"
        ),
        "options": options_param(),
    }  # fmt: skip


def build() -> DAG:
    with new_dag(
        COMPARISON_DAG,
        "Is B better than A, on one experiment, in blocks on the same machines",
        form=form(),
        tags=["comparison"],
        documentation=COMPARISON_DOCUMENTATION,
    ) as dag:

        @waiting_task(execution_timeout=limit_of("open"))
        def open_comparison(params: dict[str, Any] | None = None, ti: Any = None) -> str:
            from barograph.compare import request

            assert params is not None and ti is not None, "Airflow passes the form's answers and the task instance"
            comparison = request.comparison_request(request.with_registered_sides(params))
            new, rebuild = params["series"] == NEW, params["rebuild"]
            folder = request.open_comparison(comparison, new=new, again=is_cleared(ti), rebuild=rebuild)
            return series_of(folder, ti)

        add_series_tasks(open_comparison())
    return dag


compare_branches = build()
