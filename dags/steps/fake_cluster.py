"""A cluster that exists in memory: the whole flow without machines, in no time. Passes for Cluster and ServiceClient.

Its topology is a spout and a sink at a steady rate that rises when a machine joins. Faults are asked for by name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dags.plan import PlannedRun
from dags.service_client import ServiceRefused, ServiceUnreachable
from dags.service_state import SeenDecision, Series, ServiceState
from dags.steps.ports import ClusterFacts, Collected

RATE, RATE_AFTER = 200.0, 250.0  # tuples/s
WITHHELD_S = 2
DECIDE_S, APPLY_S, RESTART_S = 1.0, 2.0, 5.0


@dataclass
class FakeClock:
    """Time passes only in sleep; `pace` is how many real seconds a second takes."""

    time_s: float = 1_700_000_000.0
    pace: float = 0.0

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        if self.pace:
            time.sleep(seconds * self.pace)
        self.time_s += seconds


@dataclass
class FakeStorm:
    """`faults`: name → value, such as {"dead": ("m2",)}; what each does is where it is read."""

    clock: FakeClock
    before: int
    after: int
    topology: str = "star"
    faults: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    given: dict[str, dict[str, Any]] = field(default_factory=dict)  # by call, what the last one was given
    _run_id: str = ""
    _policy: str = ""
    _machines: list[str] = field(default_factory=list)
    _submitted_s: float | None = None
    _killed_s: float | None = None
    _event: tuple[str, float] | None = None

    # As Cluster

    def deploy(self) -> None:
        self._called("deploy")

    def reset(self, run: PlannedRun) -> None:
        self._called("reset", run_id=run.run_id)
        self._machines = [f"m{number}" for number in range(1, self.before + 1)]
        self._submitted_s, self._killed_s, self._event = None, None, None

    def submit(self, run: PlannedRun) -> None:
        self._called("submit", run_id=run.run_id)
        self._submitted_s = self.clock.now()

    def join(self, machines: Sequence[str]) -> None:
        self._called("join", machines=tuple(machines))
        if not self.faults.get("never_registers"):
            self._machines.extend(machines)

    def stop(self) -> None:
        self._called("stop")
        self._killed_s = self.clock.now()

    def collect(self, folder: Path) -> Collected:
        self._called("collect")
        if self._submitted_s is None:
            return Collected(("workers/*.jsonl",))
        for name in ("workers", "machines"):
            (folder / name).mkdir(exist_ok=True)
        _write(folder / "decisions.jsonl", [self._decision_line()])
        _write(folder / "workers" / "m1-6700.jsonl", [self._worker_line(t) for t in self._seconds()])
        for name in self._machines:
            _write(folder / "machines" / f"{name}.jsonl", [_machine_line(name, t) for t in self._seconds()])
        fallbacks = [{"t": self.clock.now(), "kind": "fallback", "reason": why} for why in self._fault("fallback", ())]
        _write(folder / "bridge.jsonl", fallbacks)
        return Collected(tuple(self._fault("missing", ())), dict.fromkeys(self._machines, 0.0))

    def silent_machines(self) -> tuple[str, ...]:
        return tuple(self.faults.get("dead", ()))

    def facts(self) -> ClusterFacts:
        names = [f"m{number}" for number in range(1, self.after + 1)]
        machine = {"type": "type_1", "cores": 0.25, "memory_mb": 768, "bandwidth_mbit": 100, "slots": 4}
        machines = {
            name: {**machine, "joins_at_scale": number > self.before} for number, name in enumerate(names, start=1)
        }
        return ClusterFacts(machines, {"storm": "none: a fake cluster"}, {})

    # As ServiceClient

    def configure(self, run_id: str, policy: str, parameters: Mapping[str, Any], seed: int, window_s: float) -> None:
        self._called("configure", parameters=dict(parameters), seed=seed, window_s=window_s)
        self._run_id, self._policy = run_id, policy

    def scale(self, event_id: str, kind: str, joined: Sequence[str], leave: int) -> None:
        self._called("scale", kind=kind, joined=tuple(joined), leave=leave)
        if self._event is not None:
            raise ServiceRefused("/scale of the policy service answered 409: an event is pending")
        self._event = (event_id, self.clock.now())

    def state(self) -> ServiceState:
        self._raise_if_asked("state")
        since_s = self._since_submission()
        if since_s >= self.faults.get("unreachable_after_s", float("inf")):
            raise ServiceUnreachable("the policy service at http://fake does not answer")
        dead = self.silent_machines() if since_s >= self.faults.get("dies_after_s", 0.0) else ()
        silent_s = max(0.0, since_s - self.faults["silent_after_s"]) if "silent_after_s" in self.faults else 0.0
        failed = since_s >= self.faults.get("policy_fails_after_s", float("inf"))
        return ServiceState(
            run_id=self._run_id,
            t=self.clock.now(),
            policy=self._policy,
            machines=tuple(name for name in self._machines if name not in dead),
            samples_age_s=0.8 + silent_s,
            workers_reporting=1,
            tasks_placed=2,
            tasks_total=2,
            pending_event=self._pending(),
            decisions=self._decisions(),
            series=self._series(),
            policy_error="ZeroDivisionError: division by zero" if failed else None,
        )

    def _called(self, name: str, **given: Any) -> None:
        self.calls.append(name)
        self.given[name] = given
        self._raise_if_asked(name)

    def _raise_if_asked(self, name: str) -> None:
        """A fault named like the call is a list of what its next calls raise, None for nothing."""
        errors = self.faults.get(name)
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error

    def _fault(self, name: str, default: Any) -> Any:
        return self.faults.get(name, default)

    def _since_submission(self) -> float:
        return self.clock.now() - self._submitted_s if self._submitted_s is not None else -1.0

    def _pending(self) -> str | None:
        if self._event is None:
            return None
        stuck = self.faults.get("never_decides")
        return self._event[0] if stuck or self.clock.now() < self._event[1] + DECIDE_S else None

    def _decisions(self) -> tuple[SeenDecision, ...]:
        if self._event is None or self._pending() is not None:
            return ()
        event_id, begin_s = self._event
        done_s = begin_s + APPLY_S if self.clock.now() >= begin_s + APPLY_S else None
        refused = self._fault("refused", "")
        applied = done_s is not None and not refused
        return (SeenDecision("d1", begin_s + DECIDE_S, event_id, "dealt again", applied, done_s, refused),)

    def _seconds(self) -> range:
        if self._submitted_s is None:
            return range(0)
        end_s = self._killed_s or self.clock.now() - WITHHELD_S
        return range(int(self._submitted_s) + 1, int(end_s))

    def _series(self) -> Series:
        seconds = tuple(self._seconds())
        rates = tuple(self._rate(t) for t in seconds)
        return Series(seconds, rates, rates, rates)

    def _rate(self, t: int) -> float:
        if self._fault("no_tuples", False) or (self._fault("unsteady", False) and t // 20 % 2):
            return 0.0
        if self._event is None or t < self._event[1] + APPLY_S:
            return RATE
        return 0.0 if t < self._event[1] + RESTART_S else RATE_AFTER

    def _decision_line(self) -> dict[str, Any]:
        components = [
            {"name": "spout_1", "kind": "spout", "tasks": [1], "executors": [[1, 1]]},
            {"name": "sink_1", "kind": "bolt", "tasks": [2], "executors": [[2, 2]]},
        ]
        edges = [{"source": "spout_1", "stream": "default", "target": "sink_1", "grouping": "shuffle"}]
        shown = {"id": f"{self.topology}-1", "name": self.topology, "workers": 1, "uptime_s": 0, "rebalancing": False}
        shown |= {"components": components, "edges": edges, "placement": {"1": "m1:6700", "2": "m1:6700"}}
        decision: dict[str, Any] = {"decision_id": None, "policy": self._policy, "reason": "", "topologies": {}}
        request = {"v": 1, "t": self._submitted_s, "machines": [], "topologies": [shown]}
        line = {"t": self._submitted_s, "run_id": self._run_id, "request": request, "observation": {}, "memory": {}}
        return line | {"decision": decision, "duration_ms": 1.0}

    def _worker_line(self, t: int) -> dict[str, Any]:
        rate = int(self._rate(t))
        head = {"v": 1, "t": float(t), "dt_s": 1.0, "machine": "m1", "port": 6700, "pid": 1, "seq": t}
        tasks = {"task": [1, 2], "component": ["spout_1", "sink_1"], "emitted": [rate, 0], "transferred": [rate, 0]}
        tasks |= {"executed": [0, rate], "execute_ms": [0.0, rate * 1.0], "process_ms": [None, None], "queue": [0, 0]}
        latency = {"task": [2], "n": [rate], "sum_ms": [rate * 2.0], "max_ms": [3.0]}
        latency |= {"p50_ms": [2.0], "p95_ms": [2.5], "p99_ms": [2.9]}
        spouts = {"task": [1], "due": [rate], "emitted": [rate], "behind_ms": [0.0]}
        return head | {"topology": f"{self.topology}-1", "tasks": tasks, "sinks": latency, "spouts": spouts}


def _machine_line(name: str, t: int) -> dict[str, Any]:
    used = {"cpu_cores": 0.1, "cpu_quota_cores": 0.25, "throttled_ms": 0.0}
    memory = {"memory_bytes": 400_000_000, "memory_limit_bytes": 805_306_368}
    interfaces = {"name": ["ctl0", "exp0"], "rx_bytes": [1200, 52000], "tx_bytes": [900, 51000]}
    return {"v": 1, "t": float(t), "dt_s": 1.0, "machine": name, **used, **memory, "interfaces": interfaces}


def _write(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
