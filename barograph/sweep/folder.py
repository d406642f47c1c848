"""A sweep on disk, `results/<family>/<name>/sweep-<date>-<time>-<digest>/`: `sweep.json`, and a series' folder for each
point in `points/`. `runs/` has a link to every run of a complete point, and with `tables/` the sweep's folder is to the
analysis what a series' folder is.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from analysis.record.sweep_record import OTHER_CODE, PREFIX, SWEEP_FILE
from barograph.plan.blocks import stamp
from barograph.plan.sweep import Point, Sweep, sweep_digest
from barograph.series.provenance import code_of_today, code_words, is_of_code
from barograph.series.run_record import read_run
from barograph.settings import results_root
from barograph.sweep.point import Failure, failure_data, failures_of, state_of, write_point_file


@dataclass(frozen=True)
class SweepFolder:
    root: Path
    points: tuple[Point, ...]

    def of(self, point: Point) -> Path:
        return self.root / "points" / point.point_id

    def missing(self) -> tuple[Point, ...]:
        """Points that are not complete: they were not begun, cut short, or a run of them failed."""
        return tuple(point for point in self.points if state_of(self.of(point)) != "complete")

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    def facts(self) -> dict[str, Any]:
        """Of the sweep, for the documents of its points."""
        return {"sweep": self.root.name, **code_of_today()}

    def runs_of_other_code(self, today: Mapping[str, Any]) -> dict[str, int]:
        """How many complete runs are not known to be of the code that `code_of_today` says, by the words for theirs."""
        runs = (read_run(run) or {} for point in self.points for run in SeriesPaths(self.of(point)).runs.glob("*"))
        complete = (run for run in runs if run.get("status") == "complete")
        return dict(sorted(Counter(code_words(run) for run in complete if not is_of_code(run, today)).items()))


def open_sweep(sweep: Sweep, points: Sequence[Point], *, new: bool) -> SweepFolder:
    """The newest sweep of exactly this request, complete or not, or (or if `new`) a fresh one."""
    digest = sweep_digest(points)
    above = results_root() / sweep.name
    earlier = sorted(above.glob(f"{PREFIX}*-{digest}/{SWEEP_FILE}"))
    if earlier and not new:
        return SweepFolder(earlier[-1].parent, tuple(points))
    folder = SweepFolder(_new_folder(above, digest, time.time()), tuple(points))
    write_json_atomic(folder.root / SWEEP_FILE, _document(sweep, points))
    return folder


def _new_folder(above: Path, digest: str, now_s: float) -> Path:
    folder = above / f"{PREFIX}{stamp(now_s)}-{digest}"
    try:
        folder.mkdir(parents=True)
    except FileExistsError:  # twice within one second
        return _new_folder(above, digest, now_s + 1)
    return folder


def _document(sweep: Sweep, points: Sequence[Point]) -> dict[str, Any]:
    first = points[0].experiment
    return {
        "v": 1,
        "experiment": sweep.name,
        "title": first.title,
        "opened_s": time.time(),
        "variants": list(dict.fromkeys(each.name for point in points for each in point.experiment.variants)),
        "events": _events(points),
        "axes": [axis.as_data() for axis in sweep.axes],
        "points": [{"point_id": point.point_id, "values": dict(point.values)} for point in points],
    }


def _events(points: Sequence[Point]) -> dict[str, str]:
    """In words, by id; where they differ among points by their kind alone."""
    found: dict[str, dict[str, str]] = {}
    for point in points:
        for place, event in enumerate(point.experiment.events, start=1):
            found.setdefault(f"e{place}", {})[event.words()] = event.kind.replace("_", " ")
    return {
        event_id: next(iter(kinds)) if len(kinds) == 1 else f"{' or '.join(dict.fromkeys(kinds.values()))}, as swept"
        for event_id, kinds in found.items()
    }


def link_runs(folder: SweepFolder) -> int:
    """How many complete runs the sweep has; each gets its link, `<number of the point>.<run>`."""
    runs = SeriesPaths(folder.root).runs
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir()
    number = 0
    for point in folder.points:
        for run in sorted(SeriesPaths(folder.of(point)).runs.glob("*")):
            if (read_run(run) or {}).get("status") == "complete":
                target = Path("..") / run.relative_to(folder.root)
                (runs / linked_name(point, run.name)).symlink_to(target, target_is_directory=True)
                number += 1
    return number


def linked_name(point: Point, run_id: str) -> str:
    return f"{point.number:05d}.{run_id}"


def note_failures(folder: SweepFolder, point: Point, failures: Sequence[Failure]) -> None:
    """Of a point that could not say so itself; what an earlier execution has noted goes. Raises OSError where it can
    have no folder."""
    if failures_of(folder.of(point)) != [failure_data(each) for each in failures]:
        folder.of(point).mkdir(parents=True, exist_ok=True)
        write_point_file(folder.of(point), failures)
    for each in failures:
        if each.trace:
            (folder.of(point) / "failure.txt").write_text(each.trace, encoding="utf-8")


def update_document(
    folder: SweepFolder, latest: Mapping[str, Sequence[Failure]], others: Mapping[str, int], today: Mapping[str, Any]
) -> None:
    """Write into `sweep.json` what failed in which point, and the code, for the report and the ledger.

    `latest`: by the point's id, failures of this execution. It has tried every point that was not complete, and a
    point's folder may not have them, as where the disk is full. `others`: see `runs_of_other_code`.
    """
    rows = [
        {"point": point.number, "values": dict(point.values), **failure_data(failure)}
        for point in folder.points
        for failure in latest.get(point.point_id, ())
    ]
    path = folder.root / SWEEP_FILE
    code = {"code": code_words(today), OTHER_CODE: dict(others)}
    write_json_atomic(path, {**read_json(path), "failures": rows, **code})
