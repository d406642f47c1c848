"""The plugin for Airflow, which loads every file of this folder in each of its processes.

Only the server of its pages uses the applications: nothing of the site is imported anywhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

PREFIX = "/barograph"
# A curve on a sheet of paper, visible on every colour that Airflow puts behind it.
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='%2352525b'"
    " stroke-width='2' stroke-linecap='round' stroke-linejoin='round'%3E%3Crect x='2' y='4' width='20' height='16'"
    " rx='2' fill='%23fff'/%3E%3Cpath d='M6 10c3 0 3 1 4 4s2 3 3 0 2-5 5-5'/%3E%3C/svg%3E"
)


class BarographPlugin(AirflowPlugin):
    name = "barograph"
    # Relative, so that they work where Airflow itself is below a path.
    external_views = [  # noqa: RUF012 - Airflow declares it as each plugin's own
        {"name": "Barograph", "destination": "nav", "url_route": "barograph", "href": "barograph/",
         "nav_top_level": True, "icon": ICON},
        {"name": "Report", "destination": "dag_run", "url_route": "report",
         "href": "barograph/run?dag_id={DAG_ID}&run_id={RUN_ID}", "icon": ICON},
    ]  # fmt: skip

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # made when it is asked for
        from barograph.web.site import build

        return [{"app": build(), "url_prefix": PREFIX, "name": "Barograph"}]

    @cached_property
    def fastapi_root_middlewares(self) -> list[dict[str, Any]]:  # type: ignore[override]
        from barograph.web.airflow_api import AirflowInScope

        return [{"middleware": AirflowInScope, "name": "Barograph's way to the REST API"}]
