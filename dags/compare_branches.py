"""The DAG `compare_branches`: is B better than A, on one experiment, in blocks on the same machines.

A and B are git refs of this repository, or paths of YAML files that describe a scheduler that is not ours
(docs/comparing.md). Only wiring: the first task refuses what cannot be compared and builds both sides, the others are
those of every experiment (`dags.wiring`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from barograph.plan.experiment import names
from barograph.web.dag_documentation import COMPARISON_DOCUMENTATION
from dags.wiring import NEW, add_series_tasks, new_dag, opened_param, options_param, series_param
from inventory import TESTBEDS

LATEST_END = timedelta(hours=48)
POOL = "default_pool"  # the form chooses the testbed, and the lease keeps two series of one testbed apart


def form() -> dict[str, Param]:
    side = "A branch, a tag or a commit of this repository, or the whole path of a scheduler's YAML file"
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
            description="Add blocks until every interval is narrow enough, or the budget is spent",
        ),
        "goal_percent": Param(
            5.0, type="number", exclusiveMinimum=0, maximum=100, title="Goal (%)",
            description="Narrow enough: the interval reaches at most this far to either side",
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
        "opened": opened_param(),
    }  # fmt: skip


def build() -> DAG:
    with new_dag(
        "compare_branches",
        "Is B better than A, on one experiment, in blocks on the same machines",
        form=form(),
        tags=["comparison"],
        limit=LATEST_END,
        documentation=COMPARISON_DOCUMENTATION,
    ) as dag:

        @task
        def open_comparison(params: Mapping[str, Any] | None = None) -> str:
            from airflow.sdk.exceptions import AirflowFailException

            from barograph.compare.request import comparison_request
            from barograph.compare.request import open_comparison as open_asked
            from barograph.errors import blame_of, message_of

            assert params is not None, "Airflow passes the trigger form's answers"
            if params["opened"]:
                return str(params["opened"])
            try:
                folder = open_asked(comparison_request(params), new=params["series"] == NEW, rebuild=params["rebuild"])
            except Exception as error:
                if blame_of(error) == "harness":
                    raise
                raise AirflowFailException(f"{blame_of(error)}: {message_of(error)}") from None
            return str(folder)

        add_series_tasks(open_comparison(), POOL)
    return dag


compare_branches = build()
