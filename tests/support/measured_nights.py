"""A suite on the fake testbed, and nights of it measured in this process: real series and runs, tables by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.record import small_tables
from analysis.record.files import SeriesPaths, read_json
from barograph.campaign import steps
from barograph.cli import nightly
from barograph.nights.suite import Choice, Suite
from barograph.plan.experiment import load, with_changes
from barograph.series.series import Series, open_series
from tests.support.durations import SHORT

SUITE = Suite(
    "try", "Two experiments", "0 1 * * *", "fake", 10.0,
    (Choice("stela/linear", repetitions=2), Choice("stela/star", ("stela",), 2)),
)  # fmt: skip
MakeCommit = Callable[..., str]
CLAIM = {"id": "S02", "verdict": "differs", "measured": 1.5, "low": 1.0, "high": 2.0, "direction": "same"}


def analysed(series: Series, throughput: float) -> None:
    """The small tables that Spark would have written, with that throughput after the event."""
    paths = SeriesPaths(series.folder)
    runs = [read_json(path) for path in sorted((series.folder / "runs").glob("*/run.json"))]
    plain = ("run_id", "series_id", "experiment", "repetition", "order", "status")
    flat = [{**{key: run[key] for key in plain}, "variant": run["variant"]["name"]} for run in runs]
    small_tables.write(paths, "runs", flat)
    rows = [
        {"run_id": run["run_id"], "event_id": "e1", "metric": metric, "value": value, "censored": censored}
        for run in runs
        for metric, value, censored in (
            ("throughput_after", throughput + run["repetition"], False),
            ("convergence_sp_s", 90.0, run["repetition"] == 2),
        )
    ]
    small_tables.write(paths, "measurements", rows)
    claims = [{**CLAIM, "experiment": series.experiment.name}, {**CLAIM, "id": "S99", "experiment": "other/one"}]
    (series.folder / "claims.json").write_text(json.dumps({"v": 1, "claims": claims}))


@dataclass
class World:
    """What the nights of a test meet. `before`: called with each series before it is measured; may raise."""

    results: Path
    now_s: float = 1_763_690_000.0
    throughput: float = 200.0
    run_s: float = 60.0  # how long a run takes on the clock
    before: Callable[[Series], None] = lambda _series: None
    opened: list[str] = field(default_factory=list)
    new: list[bool] = field(default_factory=list)

    def prepare(self, name: str, changes: Mapping[str, Any], *, new: bool, **_: object) -> Series:
        self.opened.append(name)
        self.new.append(new)
        return open_series(with_changes(load(name), {**SHORT, **changes}), new=new)

    def carry_out(self, series: Series, _console: Console) -> int:
        self.before(series)
        while steps.do_run(series.folder):
            self.now_s += self.run_s
        analysed(series, self.throughput)
        return 0

    def nightly(self, *, suite: str = "try", **asked: Any) -> tuple[int, str]:
        """Exit code and what was said; a day passes."""
        console = Console(file=io.StringIO(), width=200)
        code = nightly.nightly(suite, console, **asked)
        self.now_s += 86_400.0
        return code, console.file.getvalue()  # type: ignore[attr-defined] # the StringIO above

    def nights(self) -> list[dict[str, Any]]:
        return [read_json(path) for path in sorted((self.results / "nightly" / "try" / "nights").glob("*.json"))]
