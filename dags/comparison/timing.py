"""Where the wall time of a comparison goes: watched runs, switching between them, analysis between blocks, the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from analysis.record import SeriesPaths, write_json_atomic
from dags.overhead import overhead_of
from dags.run_record import read_run
from dags.series import Series

CHECKS = "checks.jsonl"  # a line for each analysis between blocks
FILE = "comparison_time.json"


@dataclass(frozen=True)
class Wall:
    """Seconds of one execution. `watched_s` is what the experiment itself asked for."""

    wall_s: float
    watched_s: float
    switching_s: float  # of the runs: cleaning, code and policy of the next side, submitting, collecting
    checks_s: float  # analysis between blocks
    analysis_s: float  # at the end
    runs: int

    @property
    def rest_s(self) -> float:
        """Machines, Storm on them, their release."""
        return max(0.0, self.wall_s - self.watched_s - self.switching_s - self.checks_s - self.analysis_s)

    @property
    def over_runs_percent(self) -> float | None:
        """All that is not a run, over the runs; None where there are none, or their seconds were none (fakes)."""
        runs_s = self.watched_s + self.switching_s
        return 100 * (self.wall_s - runs_s) / runs_s if 0 < runs_s <= self.wall_s else None


def note_check(series_dir: Path, t: float, blocks: int, seconds: float, **facts: Any) -> None:
    line = json.dumps({"t": t, "blocks": blocks, "seconds": seconds, **facts})
    with (series_dir / CHECKS).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def checks(series_dir: Path, since_s: float = 0.0) -> list[dict[str, Any]]:
    path = series_dir / CHECKS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line for line in map(json.loads, lines) if line["t"] >= since_s]


def used_s(series: Series) -> float:
    """What the comparison has taken in all its executions: attempts, analyses between blocks, and this opening."""
    attempts = list(_attempts(series.folder))
    begun = [float(run["started_s"]) for run in attempts if run["started_s"] >= series.opened_s]
    opening_s = min(begun) - series.opened_s if begun else 0.0
    return sum(map(_length, attempts)) + sum(float(line["seconds"]) for line in checks(series.folder)) + opening_s


def wall(series: Series, now_s: float, analysis_s: float) -> Wall:
    """Of the execution that goes on."""
    mine = [run for run in _attempts(series.folder) if run["started_s"] >= series.opened_s]
    watched_s = sum(_watched(run) for run in mine)
    checks_s = sum(line["seconds"] for line in checks(series.folder, series.opened_s))
    runs_s = sum(map(_length, mine))
    return Wall(now_s - series.opened_s, watched_s, runs_s - watched_s, checks_s, analysis_s, len(mine))


def write(series_dir: Path, found: Wall) -> None:
    facts = {"rest_s": found.rest_s, "over_runs_percent": found.over_runs_percent}
    write_json_atomic(series_dir / FILE, {"v": 1, **asdict(found), **facts})


def from_data(facts: Mapping[str, Any]) -> Wall:
    return Wall(**{each.name: facts[each.name] for each in fields(Wall)})


def told(found: Wall) -> str:
    """One line for the terminal."""
    over = "" if found.over_runs_percent is None else f" ({found.over_runs_percent:.1f} % over the runs themselves)"
    return (
        f"time: {_minutes(found.wall_s)} = {_minutes(found.watched_s)} watched + {_minutes(found.switching_s)}"
        f" switching in {found.runs} runs + {_minutes(found.checks_s)} analysis between blocks"
        f" + {_minutes(found.analysis_s)} at the end + {_minutes(found.rest_s)} machines{over}"
    )


def _attempts(series_dir: Path) -> Iterator[dict[str, Any]]:
    for folder in (SeriesPaths(series_dir).runs, series_dir / "attempts"):
        for path in sorted(folder.glob("*/run.json")):
            document = read_run(path.parent)
            if document is not None and "started_s" in document:
                yield document


def _length(run: dict[str, Any]) -> float:
    return max(0.0, float(run["ended_s"]) - float(run["started_s"]))


def _watched(run: dict[str, Any]) -> float:
    with suppress(KeyError, TypeError):
        return _length(run) - min(_length(run), overhead_of(run))
    return 0.0


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
