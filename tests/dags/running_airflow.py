"""An Airflow of a test's own, with a scheduler that works: what a person does in it, by its REST interface."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.child_processes import ChildProcess
from barograph.settings import ROOT
from tests.support.cloud.cloud import NO_WAY, Cloud

DAG, OTHER = "stela.star", "stela.linear"
PACE = 0.05  # real seconds for one of the fake testbed
LONG = {
    "repetitions": 1, "variants": ["stela"], "series": "new",
    "warm_up_floor_s": 12_000, "warm_up_ceiling_s": 16_000, "after_floor_s": 50, "horizon_s": 90,
}  # fmt: skip
SHORT = {**LONG, "repetitions": 2, "warm_up_floor_s": 30, "warm_up_ceiling_s": 60}
REAP = """
import sys, time
from barograph.machines.reaper import sweep
rows = sweep(dry_run=False, by="dag", now_s=time.time() + float(sys.argv[1]))
assert not any(row.error for row in rows), rows
"""
HOUR = 3600.0


@dataclass(frozen=True)
class Site:
    """Where the machines come from; `cloud` is there for `ec2`."""

    testbed: str
    cloud: Cloud | None = None

    def environment(self) -> dict[str, str]:
        return self.cloud.environment() if self.cloud else {}

    def conf(self, answers: Mapping[str, Any]) -> dict[str, Any]:
        """The trigger form's answers, for this site."""
        options = {"options": self.cloud.options(**NO_WAY)} if self.cloud else {}
        return {**answers, "testbed": self.testbed, **options}

    def machines(self, state: Path) -> list[str]:
        return self.cloud.rented() if self.cloud else sorted(path.name for path in state.glob("fake/*/*"))

    def left(self, state: Path) -> list[str]:
        """Machines, and all else that a lease has on the testbed: disks, key pairs, groups, spot requests."""
        if self.cloud is None:
            return self.machines(state)
        return [f"{kind} {id_}" for kind, ids in vars(self.cloud.left()).items() for id_ in ids]


@dataclass
class Airflow:
    """`barograph ui`, which we started, and its REST interface."""

    process: ChildProcess
    port: int
    env: dict[str, str]
    home: Path
    site: Site
    token: str = ""

    @property
    def under(self) -> Path:
        """The state folder."""
        return Path(self.env["BAROGRAPH_STATE"])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from error

    def log_in(self) -> None:
        (user, password), *_ = json.loads((self.home / "airflow" / "passwords.json").read_text()).items()
        self.token = self.ask("POST", "/auth/token", {"username": user, "password": password})["access_token"]

    def trigger(self, dag: str = DAG, answers: Mapping[str, Any] = LONG) -> str:
        self.ask("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})
        body = {"logical_date": None, "conf": self.site.conf(answers)}
        return str(self.ask("POST", f"/api/v2/dags/{dag}/dagRuns", body)["dag_run_id"])

    def state(self, run: str, dag: str = DAG) -> str:
        return str(self.ask("GET", f"/api/v2/dags/{dag}/dagRuns/{run}")["state"])

    def tasks(self, run: str, dag: str = DAG) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")[
            "task_instances"
        ]
        return found

    def task_states(self, run: str, dag: str = DAG) -> dict[str, str]:
        """By name; a run of the series by its own."""
        return {task["rendered_map_index"] or task["task_id"]: task["state"] for task in self.tasks(run, dag)}

    def mark(self, run: str, state: str, task: str | None = None, index: int | None = None, dag: str = DAG) -> None:
        """As a person does in the grid view; without a task: the whole run."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}"
        if task is None:
            self.ask("PATCH", path, {"state": state})
            return
        mapped = "" if index is None else f"/{index}"
        self.ask("PATCH", f"{path}/taskInstances/{task}{mapped}", {"new_state": state})

    def clear(self, run: str, task: str | list[Any], dag: str = DAG, downstream: bool = True) -> None:
        """`task`: its name, or that and the index of one that is mapped."""
        body = {"dry_run": False, "dag_run_id": run, "task_ids": [task], "include_downstream": downstream,
                "only_failed": False, "reset_dag_runs": True}  # fmt: skip
        self.ask("POST", f"/api/v2/dags/{dag}/clearTaskInstances", body)

    def machines(self) -> list[str]:
        return self.site.machines(self.under)

    def leases(self) -> list[str]:
        return [path.stem for path in self.under.glob("leases/*.json")]

    def series(self, dag: str = DAG) -> Path:
        folders = Path(self.env["BAROGRAPH_RESULTS"]).joinpath(*dag.split(".")).glob("*")
        return max(folders, key=lambda path: path.stat().st_mtime)

    def reap(self, later_s: float = 0.0) -> None:
        """The reaper's next pass, `later_s` from now."""
        subprocess.run([sys.executable, "-c", REAP, str(later_s)], cwd=ROOT, env=self.env, check=True)

    def await_measuring(self, run: str) -> None:
        """Until the series of the run has machines and watches its topology."""

        def measures() -> bool:
            assert self.state(run) != "failed", f"{run} failed; see its tasks' logs in {self.home}"
            return bool(self.leases()) and self._phase() == "warm_up"

        until(measures, self.process, f"{run} measures")
        assert "master" in self.machines()

    def _phase(self) -> str:
        """The newest series' phase."""
        file = self.series() / "progress.jsonl"
        told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return next((line["phase"] for line in reversed(told) if line["kind"] == "phase"), "")


def until(question: Callable[[], bool], process: ChildProcess, what: str, limit_s: float = 600.0) -> None:
    deadline = time.monotonic() + limit_s
    while not question():
        assert process.exit_code() is None, f"Airflow ended with {process.exit_code()} while waiting until {what}"
        assert time.monotonic() < deadline, f"waited {limit_s:g} s until {what}"
        time.sleep(0.5)


def is_known(airflow: Airflow) -> bool:
    try:
        airflow.ask("GET", f"/api/v2/dags/{DAG}")
    except (AssertionError, OSError):  # of one that begins
        return False
    return True


def started_s(series: Path, run: str) -> float:
    """When it began; 0 while it has no record."""
    file = series / "runs" / run / "run.json"
    document = json.loads(file.read_text()) if file.exists() else {}
    return float(document["started_s"]) if document.get("status") == "complete" else 0.0
