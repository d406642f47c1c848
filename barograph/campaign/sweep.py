"""A sweep on disk, `results/<family>/<name>/sweep-<date>-<time>-<digest>/`: `sweep.json`, and a series' folder for each
point in `points/`. `runs/` has a link to every run of a complete point, so that with `tables/` the analysis reads the
sweep's folder like a series' folder.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.pipeline import analyse_sweep
from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from analysis.record.sweep_record import OTHER_CODE, PREFIX, SWEEP_FILE
from barograph.campaign.simulation import SimulationFailure, link_runs_of_cells, state_of
from barograph.errors import Say
from barograph.plan.blocks import stamp
from barograph.plan.sweep import Sweep, SweepPoint, sweep_digest
from barograph.series.provenance import code_of_today, code_words, is_of_code
from barograph.series.results import avro_jars, results, results_of
from barograph.series.run_record import read_run
from barograph.series.series import new_folder
from barograph.settings import results_root, spark_master


@dataclass(frozen=True)
class SweepFolder:
    root: Path
    points: tuple[SweepPoint, ...]

    def of(self, point: SweepPoint) -> Path:
        return self.root / "points" / point.point_id

    def missing(self) -> tuple[SweepPoint, ...]:
        """Return the points that are not complete: they were not begun, cut short, or a run of them failed."""
        return tuple(point for point in self.points if state_of(self.of(point)) != "complete")

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    def facts(self) -> dict[str, Any]:
        """Return the sweep's facts for the documents of its points."""
        return {"sweep": self.root.name, **code_of_today()}

    def runs_of_other_code(self, today: Mapping[str, Any]) -> dict[str, int]:
        """Count complete runs not known to have the code of `code_of_today`, by the description of theirs."""
        runs = (read_run(run) or {} for point in self.points for run in SeriesPaths(self.of(point)).runs.glob("*"))
        complete = (run for run in runs if run.get("status") == "complete")
        return dict(sorted(Counter(code_words(run) for run in complete if not is_of_code(run, today)).items()))


def open_sweep(sweep: Sweep, points: Sequence[SweepPoint], *, new: bool) -> SweepFolder:
    """Return the newest sweep of exactly this request, complete or not, or (or if `new`) a fresh one."""
    digest = sweep_digest(points, sweep.search)
    parent = results_root() / sweep.name
    candidates = sorted(parent.glob(f"{PREFIX}*-{digest}/{SWEEP_FILE}"))
    if candidates and not new:
        return SweepFolder(candidates[-1].parent, tuple(points))
    folder = SweepFolder(
        new_folder(lambda at_s: parent / f"{PREFIX}{stamp(at_s)}-{digest}", time.time()), tuple(points)
    )
    first = points[0].experiment
    kinds_of_events: dict[str, dict[str, str]] = {}
    for each in points:
        for place, event in enumerate(each.experiment.events, start=1):
            kinds_of_events.setdefault(f"e{place}", {})[event.words()] = event.kind.replace("_", " ")
    write_json_atomic(
        folder.root / SWEEP_FILE,
        {
            "v": 1,
            "experiment": sweep.name,
            "title": first.title,
            "opened_s": time.time(),
            "testbed": first.testbed.name,
            "variants": list(dict.fromkeys(each.name for point in points for each in point.experiment.variants)),
            "events": {
                event_id: next(iter(kinds))
                if len(kinds) == 1
                else f"{' or '.join(dict.fromkeys(kinds.values()))}, as swept"
                for event_id, kinds in kinds_of_events.items()
            },
            "axes": [axis.as_data() for axis in sweep.axes],
            "points": [{"point_id": point.point_id, "values": dict(point.values)} for point in points],
            **({} if sweep.search is None else {"search": {}}),
        },
    )
    return folder


def link_runs(folder: SweepFolder) -> int:
    """Link each complete run of the sweep as `<number of the point>.<run>`, and return their number."""
    runs = SeriesPaths(folder.root).runs
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir()
    return len(link_runs_of_cells(folder.root, {f"{point.number:05d}": folder.of(point) for point in folder.points}))


def update_document(
    folder: SweepFolder,
    latest: Mapping[str, Sequence[SimulationFailure]],
    others: Mapping[str, int],
    today: Mapping[str, Any],
) -> None:
    """Write the failures of each point and the code into `sweep.json`, for the report and the ledger. `latest`: by the
    point's id, failures of this execution. It has attempted every point that was not complete; a point's folder may
    lack its failures, as on a full disk. `others`: see `runs_of_other_code`."""
    rows = [
        {"point": point.number, "values": dict(point.values), **failure.as_data()}
        for point in folder.points
        for failure in latest.get(point.point_id, ())
    ]
    path = folder.root / SWEEP_FILE
    code = {"code": code_words(today), OTHER_CODE: dict(others)}
    write_json_atomic(path, {**read_json(path), "failures": rows, **code})


def write_report(folder: SweepFolder, say: Say) -> Path | None:
    """Write the report and return its path; None where no run is complete. If results go to a bucket, so do the page
    and its files; the points' records stay here, where they can be simulated again."""
    if not (number := link_runs(folder)):
        say("no run is complete: there is nothing to draw")
        return None
    say(f"analysing {number} runs in one Spark session")
    page = analyse_sweep(folder.root, spark_master(), jars=avro_jars(SeriesPaths(folder.root), say))
    place = results()
    if results_of(folder.root) == place:
        for file in (page, *sorted(SeriesPaths(folder.root).figures.glob("*"))):
            place.keep(file)
    return page
