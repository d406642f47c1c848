"""Airflow's REST API in the name of a page's reader: pages refuse what it refuses.

Requests are made inside the server, to the application that the site is mounted on: with the reader's own cookie or
token, without an address of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
from anyio import from_thread
from fastapi import HTTPException, Request, status
from starlette.types import ASGIApp, Receive, Scope, Send

from barograph.web import RESULT_KEY
from barograph.web.run_page import DagRunFacts

AIRFLOW = "barograph.airflow"
CREDENTIALS = ("cookie", "authorization")
FORBIDDEN = "You are logged in, but may not read the runs of the DAG that this belongs to."
KINDS = frozenset({"experiment", "comparison", "nightly"})  # tags of the DAGs that make a report
WATCHER = "watcher"  # fails because another task did
LIMIT_S = 60.0


class AirflowInScope:
    """Middleware of Airflow's application, which lets the site find it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[AIRFLOW] = scope.get("app")
        await self._app(scope, receive, send)


class AirflowReader:
    """The reader of a page. Call its methods in routes that are no coroutines; they raise HTTPException 401."""

    def __init__(self, request: Request) -> None:
        self._airflow: Any = request.scope[AIRFLOW]
        self._headers = {name: request.headers[name] for name in CREDENTIALS if name in request.headers}

    def require_login(self) -> None:
        """Require a login, and the right to see any DAG: a token that Airflow did not issue gets the same answer."""
        if self._get("dags", limit=1).status_code != 200:
            raise HTTPException(status.HTTP_403_FORBIDDEN, FORBIDDEN)

    def may_read(self, dags: Collection[str]) -> bool:
        """Return True if the reader may read the runs of all these DAGs; with none: of any DAG. Airflow does not know
        whose a deleted DAG was: only its administrators may still read it."""
        if not dags:
            return self._status("~") == 200
        answers = {self._status(dag) for dag in dags}
        return answers <= {200, 404} and (
            404 not in answers or self._get("connections", limit=1).status_code == 200  # shown to administrators only
        )

    def _status(self, dag: str) -> int:
        return int(self._get(f"dags/{_part(dag)}/dagRuns", limit=1).status_code)

    def require_right(self, dags: Collection[str]) -> None:
        if not self.may_read(dags):
            raise HTTPException(status.HTTP_403_FORBIDDEN, FORBIDDEN)

    def dag_run(self, dag_id: str, run_id: str) -> DagRunFacts | None:
        """Return the facts of the run; None where there is no such run."""
        path = f"dags/{_part(dag_id)}/dagRuns/{_part(run_id)}"
        answer = self._get(path)
        if answer.status_code == 403:
            raise HTTPException(status.HTTP_403_FORBIDDEN, FORBIDDEN)
        if answer.status_code != 200:
            return None
        run = answer.json()
        tags = {tag["name"] for tag in self._found(f"dags/{_part(dag_id)}").get("tags", [])}
        failures = self._found(f"{path}/taskInstances", state="failed", limit=100).get("task_instances", [])
        names = {task["task_id"] for task in failures}
        return DagRunFacts(
            dag_id, run_id, str(run["state"]), _epoch_s(run["start_date"]), _epoch_s(run["end_date"]),
            bool(tags & KINDS), self._result(path),
            tuple(sorted(name for name in names if name.rpartition(".")[2] != WATCHER)),
        )  # fmt: skip

    def _result(self, run: str) -> str | None:
        entries = self._found(f"{run}/taskInstances/~/xcomEntries", xcom_key=RESULT_KEY).get("xcom_entries", [])
        if not entries:
            return None
        answer = self._found(f"{run}/taskInstances/{_part(entries[0]['task_id'])}/xcomEntries/{RESULT_KEY}").get(
            "value"
        )
        if not isinstance(answer, str):
            return None
        try:  # Airflow gives an XCom as it stores it: JSON
            read = json.loads(answer)
        except ValueError:
            return answer
        return read if isinstance(read, str) else None

    def _found(self, path: str, **query: str | int) -> dict[str, Any]:
        """Return the answer; empty where nothing exists, or not for this reader."""
        answer = self._get(path, **query)
        return dict(answer.json()) if answer.status_code == 200 else {}

    def _get(self, path: str, **query: str | int) -> httpx.Response:
        answer = from_thread.run(partial(self._ask, path, query))
        if answer.status_code == 401:
            raise HTTPException(status.HTTP_401_UNAUTHORIZED)
        if answer.status_code >= 500:
            raise HTTPException(status.HTTP_502_BAD_GATEWAY, f"Airflow's API answers {answer.status_code} to {path}.")
        return answer

    async def _ask(self, path: str, query: dict[str, str | int]) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._airflow, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow", timeout=LIMIT_S) as client:
            return await client.get(f"/api/v2/{path}", params=query, headers=self._headers)


def _part(name: str) -> str:
    """Quote a part of a path: names of runs contain colons and plus signs, and users' text may contain anything."""
    return quote(name, safe="~")


def _epoch_s(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp()
