"""A page a run, from the small tables of its series."""

import json
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.calibration.validation import FOLDER, write
from analysis.record import event_timeline
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import rows
from analysis.report import run_page
from analysis.report.figures.run_timeline import MOST_WINDOWS, mean_by_window, window_width_s
from tests.support.series_by_hand import ZERO, write_series, write_table
from tests.unit.analysis.calibration.test_validation import COSTS, FOUND
from tests.unit.analysis.calibration.test_validation import run as run_with
from topologies import catalogue

RUN = "stela-r2"
NULLS = dict.fromkeys(
    ("policy", "parameters", "block", "repetition", "seed", "ended_s", "workers", "git_commit", "git_dirty",
     "failure_where")
)  # fmt: skip


def small_series(tmp_path: Path, **run: Any) -> SeriesPaths:
    """A series by hand with the tables that only pages of runs read; `run`: what the table of runs says of RUN."""
    root = write_series(tmp_path / "s", "stela/star", {"stela": 150.0})
    found = rows(SeriesPaths(root), "runs")
    shutil.rmtree(root / "tables" / "runs.parquet")
    write_table(root, "runs", [row | NULLS | (run if row["run_id"] == RUN else {}) for row in found])
    windows = [float(start) for start in range(-30, 60, 10)]
    write_table(root, "activity", [
        {"run_id": RUN, "event_id": "e1", "window_s": start, "component": "sink", "queue": 10.0 + start, "executed": 1,
         "emitted": None, "due": None} for start in windows
    ])  # fmt: skip
    write_table(root, "cpu_windows", [
        {"run_id": RUN, "window_s": start, "machine": machine, "utilisation_mean": 0.25, "memory_bytes_mean": 1.0}
        for start in windows for machine in ("m1", "m10", "m2")
    ])  # fmt: skip
    write_table(root, "settled", [_placed(phase, task, machine) for phase, task, machine in (
        ("before", 3, "m1"), ("before", 4, "m1"), ("after", 3, "m1"), ("after", 4, "m2"))])  # fmt: skip
    return SeriesPaths(root)


def _placed(phase: str, task: int, machine: str) -> dict[str, Any]:
    return {"run_id": RUN, "event_id": "e1", "phase": phase, "component": "sink", "task": task, "first_task": task,
            "last_task": task, "slot": f"{machine}:6700", "machine": machine}  # fmt: skip


def page(paths: SeriesPaths, run_id: str = RUN) -> str:
    every = [(run.run_id, one) for run in paths.all_runs() for one in event_timeline.event_outcomes(run)]
    run_page.write_all(paths, every)
    return (paths.run(run_id).root / "report.html").read_text()


def seen(text: str) -> str:
    body = re.sub(r"<(script|svg).*?</\1>", " ", text.partition("<body>")[2], flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def points(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(re.findall(r'class="points">(.*?)</script>', text)[0])
    return found


def test_a_page_has_the_timeline_placements_links_and_its_small_files(tmp_path: Path) -> None:
    paths = small_series(tmp_path)
    text = page(paths)
    traces = {(trace["n"], trace["m"]): trace for trace in points(text)["traces"]}
    assert [name for name, mark in traces if mark == "CPU"] == ["m1", "m2", "m10"]
    assert traces["at the sinks", "rate"]["v"] == {
        "0": [-25, -15, -5, 5, 15, 25, 35, 45, 55], "1": [100, 100, 100, 152, 152, 152, 152, 152, 152]
    }  # fmt: skip
    assert traces["sink", "queue"]["v"]["2"] == [-20, -10, 0, 10, 20, 30, 40, 50, 60]
    assert traces["m2", "CPU"]["v"]["3"] == 25
    assert traces["", "event"]["v"]["4"] == "scale out, +1 machine"
    heights = {name: traces[name, "CPU"]["y"][0] for name in ("m1", "m2", "m10")}
    assert heights["m1"] < heights["m2"] < heights["m10"]
    assert "offered at spouts" in text and "at the sinks" in text
    assert "m1 sink × 2 sink m2 – sink" in seen(text) and "<b>sink</b>" in text
    names = set(re.findall(r'href="data:[^"]+" download="([^"]+)"', text))
    assert {"timeline.csv", "timeline.parquet", "timeline.svg", "timeline.pdf", "events.csv", "decisions.csv",
            "placements.parquet"} <= names  # fmt: skip
    assert not (paths.run(RUN).root / "figures").exists()
    paths.report.write_text("the series")
    links = [href for href in re.findall(r'href="([^"]+)"', text) if not href.startswith(("data:", "#"))]
    assert len(links) == 3 and all((paths.run(RUN).root / href).is_file() for href in links)


def test_failures_come_first_and_errors_after_the_end_are_not_the_runs(tmp_path: Path) -> None:
    """Also: no offered rate of spouts that are not throttled, and the page of a run that left nothing."""
    paths = small_series(tmp_path, status="failed", failure_blame="infrastructure", failure_message="<i>ssh</i> died",
                     failure_where="watch")  # fmt: skip
    run = paths.run(RUN)
    with run.events.open("a") as file:
        file.write(json.dumps({"t": ZERO + 60, "kind": "topology_killed"}) + "\n")
    run.logs.mkdir()
    lost, halting = (f"{datetime.fromtimestamp(ZERO + after, UTC):%Y-%m-%dT%H:%M:%S}Z [ERROR]" for after in (5, 61))
    (run.logs / "worker.log").write_text(f"{lost} worker is lost\n{halting} Halting process\n")
    (run.root / "topology.yaml").write_text(catalogue.render("payload", {"unthrottled": True}))
    for line_file in paths.run("stela-r3").root.iterdir():
        line_file.unlink()
    text = page(paths)
    assert "failed, blamed on infrastructure, in watch: &lt;i&gt;ssh&lt;/i&gt; died" in text
    assert text.index("What went wrong") < text.index("Over time") and "not counted in any claim" in text
    assert "5.0 [ERROR] worker is lost worker.log 1 1" in seen(text)
    assert "Halting process" not in text and "1 more kinds of errors came after" in text
    assert "offered at spouts" not in text and "at the sinks" in text
    empty = (paths.run("stela-r3").root / "report.html").read_text()
    for words in ("The run left no events", "There are no raw logs of this run here", "The run reached no event"):
        assert words in empty, words


def test_a_long_run_is_drawn_in_wider_windows() -> None:
    day = [(10.0 * i, float(i % 2)) for i in range(8640)]
    width = window_width_s([day])
    line = mean_by_window(day, width)
    assert width % 10 == 0 and len(line) <= MOST_WINDOWS and line[0][0] == width / 2
    assert sum(rate for _, rate in line) / len(line) == 0.5


def test_facts_of_a_run(tmp_path: Path) -> None:
    run = {"run_id": RUN, "order": 1, **NULLS, "started_s": 1_767_225_600.0, "ended_s": 1_767_225_700.0}
    changes = {"parameters": {"ms_per_character": 0.4}, "overrides": {}}
    facts = dict(run_page.facts(run, {"variant": {"topology": changes}}, [], [], tmp_path))
    assert facts["topology differs"] == "parameters: ms_per_character = 0.4"
    assert facts["start"] == "2026-01-01 00:00:00 UTC" and "start in simulated time" not in facts
    how = {"harness_facts": json.dumps({"simulated": {"seed": 1}}), "date_s": 1_795_500_000.0}
    facts = dict(run_page.facts(run | how, {"variant": {"topology": None}}, [], [], tmp_path))
    assert "topology differs" not in facts and facts["start"] == "2026-11-24 06:00:00 UTC"
    assert facts["start in simulated time"] == "2026-01-01 00:00:00 UTC" and facts["duration"] == "100 s"
    write(tmp_path / FOLDER / "one", FOUND)
    of_model = dict(run_page.facts(run | run_with(COSTS), {}, [], [], tmp_path / "stela" / "linear" / "20261124-3"))
    assert "throughput after 4.0 % (9.0; −1.0)" in of_model["simulated"]
