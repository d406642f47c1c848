"""How the reaper fares: `reaper.json` in the state folder, the DAG's passes apart from those of the command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from analysis.errors import RecordError
from analysis.record import read_json, write_json_atomic
from inventory import leases

FILE = "reaper.json"
LATE_S = 35 * 60.0  # three passes of the DAG, and some
By = Literal["dag", "command"]
HOW = "`barograph ui` runs it every ten minutes; `barograph reap` is one pass"


def path() -> Path:
    return leases.state_dir() / FILE


def note(by: By, begun_s: float, ended_s: float, ended: Sequence[str], errors: Sequence[str]) -> None:
    """One pass. The last success stays on record when a later pass fails."""
    document = read()
    before = document.get(by, {})
    success_s = before.get("last_success_s") if errors else ended_s
    passed = {
        "last_pass_s": ended_s,
        "last_success_s": success_s,
        "duration_s": ended_s - begun_s,
        "ended": list(ended),
        "errors": list(errors),
    }
    write_json_atomic(path(), {"v": 1, **document, by: passed})


def read() -> dict[str, Any]:
    """Nothing where no pass was noted, or what was noted cannot be read: then it counts as never."""
    try:
        return read_json(path()) if path().exists() else {}
    except RecordError:
        return {}


def warning(now_s: float) -> str | None:
    """For who is about to rent machines: that nobody watches over them, and how to mend that."""
    success_s = read().get("dag", {}).get("last_success_s")
    if success_s is not None and now_s - success_s <= LATE_S:
        return None
    since = "has never succeeded here" if success_s is None else f"has not succeeded for {age(now_s - success_s)}"
    return f"warning: the reaper DAG {since}; until it does, forgotten machines only end themselves. {HOW}"


def status_lines(now_s: float) -> list[str]:
    """Of the DAG and of the command."""
    document = read()
    return [line for by in ("dag", "command") for line in _status(by, document.get(by), now_s)] + [HOW]


def healthy(now_s: float) -> bool:
    """Whether the DAG's last success is recent and its newest pass had no error."""
    return warning(now_s) is None and not read().get("dag", {}).get("errors")


def _status(by: str, passed: dict[str, Any] | None, now_s: float) -> list[str]:
    name = {"dag": "reaper DAG", "command": "barograph reap"}[by]
    if passed is None:
        return [f"{name}: no pass yet"]
    success_s = passed["last_success_s"]
    succeeded = "never" if success_s is None else f"{age(now_s - success_s)} ago"
    head = (
        f"{name}: last pass {age(now_s - passed['last_pass_s'])} ago, took {passed['duration_s']:.1f} s; last success"
        f" {succeeded}"
    )
    return [head, *(f"  ended {line}" for line in passed["ended"]), *(f"  FAILED {line}" for line in passed["errors"])]


def age(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`, `2.1 days`."""
    if seconds < 90:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
