"""Wall time of a comparison and its parts: comparison_time.json beside its series, and a line of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record.files import read_json, write_json_atomic

FILE = "comparison_time.json"


@dataclass(frozen=True)
class WallTime:
    """Seconds of one execution. `watched_s`: requested by the experiment itself."""

    wall_s: float
    watched_s: float
    switching_s: float  # of the runs: cleaning, code and policy of the next side, submitting, collecting
    checks_s: float  # analysis between blocks
    analysis_s: float  # at the end
    runs: int

    @property
    def rest_s(self) -> float:
        """Return the time of machines, Storm on them, and their release."""
        return max(0.0, self.wall_s - self.watched_s - self.switching_s - self.checks_s - self.analysis_s)

    @property
    def over_runs_percent(self) -> float | None:
        """Return everything but the runs, over the runs; None without runs, or if their seconds were 0 (fakes)."""
        runs_s = self.watched_s + self.switching_s
        return 100 * (self.wall_s - runs_s) / runs_s if 0 < runs_s <= self.wall_s else None


def read_wall_time(series_dir: Path) -> WallTime | None:
    """Return it; None if it was not timed, or cannot be read, because no answer depends on it."""
    path = series_dir / FILE
    try:
        return wall_time_from(read_json(path)) if path.is_file() else None
    except (RecordError, KeyError):
        return None


def write_wall_time(series_dir: Path, times: WallTime) -> None:
    shares = {"rest_s": times.rest_s, "over_runs_percent": times.over_runs_percent}
    write_json_atomic(series_dir / FILE, {"v": 1, **asdict(times), **shares})


def wall_time_from(facts: Mapping[str, Any]) -> WallTime:
    return WallTime(**{each.name: facts[each.name] for each in fields(WallTime)})


def wall_time_line(found: WallTime) -> str:
    """Return the wall time in one line."""
    overhead = "" if found.over_runs_percent is None else f" ({found.over_runs_percent:.1f} % over the runs themselves)"
    return (
        f"{_minutes(found.wall_s)} = {_minutes(found.watched_s)} watched + {_minutes(found.switching_s)}"
        f" switching in {found.runs} runs + {_minutes(found.checks_s)} analysis between blocks"
        f" + {_minutes(found.analysis_s)} at the end + {_minutes(found.rest_s)} machines{overhead}"
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
