"""A page a run, from the small tables of its series."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.calibration.validation import FOLDER, write
from analysis.record import event_timeline
from analysis.record.files import SeriesPaths
from analysis.report import run_page
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
    table = root / "tables" / "runs.parquet" / "part-0.parquet"
    from pyarrow import parquet

    found = parquet.read_table(table).to_pylist()
    table.unlink()
    table.parent.rmdir()
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


def test_the_timeline_has_rates_queues_cpu_and_the_event(tmp_path: Path) -> None:
    traces = {(trace["n"], trace["m"]): trace for trace in points(page(small_series(tmp_path)))["traces"]}
    assert [name for name, mark in traces if mark == "CPU"] == ["m1", "m2", "m10"]
    assert traces["at sinks", "rate"]["v"] == {
        "0": [-25, -15, -5, 5, 15, 25, 35, 45, 55], "1": [100, 100, 100, 152, 152, 152, 152, 152, 152]
    }  # fmt: skip
    assert traces["sink", "queue"]["v"]["2"] == [-20, -10, 0, 10, 20, 30, 40, 50, 60]
    assert traces["m2", "CPU"]["v"]["3"] == 25
    assert traces["", "event"]["v"]["4"] == "scale out, +1 machine"
    heights = {name: traces[name, "CPU"]["y"][0] for name in ("m1", "m2", "m10")}
    assert heights["m1"] < heights["m2"] < heights["m10"]


def test_small_files_are_in_the_page_and_not_beside_it(tmp_path: Path) -> None:
    paths = small_series(tmp_path)
    text = page(paths)
    names = set(re.findall(r'href="data:[^"]+" download="([^"]+)"', text))
    assert {"timeline.csv", "timeline.parquet", "timeline.svg", "timeline.pdf", "events.csv", "decisions.csv",
            "placements.parquet"} <= names  # fmt: skip
    assert not (paths.run(RUN).root / "figures").exists()


def test_placement_before_and_after_shows_what_moved(tmp_path: Path) -> None:
    text = page(small_series(tmp_path))
    assert "m1 sink × 2 sink m2 – sink" in seen(text)
    assert "<b>sink</b>" in text


def test_what_went_wrong_is_said_first_and_escaped(tmp_path: Path) -> None:
    paths = small_series(tmp_path, status="failed", failure_blame="infrastructure", failure_message="<i>ssh</i> died",
                     failure_where="watch")  # fmt: skip
    text = page(paths)
    assert "failed, blamed on infrastructure, in watch: &lt;i&gt;ssh&lt;/i&gt; died" in text
    assert text.index("What went wrong") < text.index("Over time")
    assert "not counted in any claim" in text


def test_errors_after_the_end_are_not_errors_of_the_run(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    paths = small_series(tmp_path)
    run = paths.run(RUN)
    with run.events.open("a") as file:
        file.write(json.dumps({"t": ZERO + 60, "kind": "topology_killed"}) + "\n")
    run.logs.mkdir()
    stamps = [datetime.fromtimestamp(ZERO + after, UTC).isoformat() for after in (5, 61)]
    lines = [f"{stamps[0][:19]}Z [ERROR] worker is lost", f"{stamps[1][:19]}Z [ERROR] Halting process"]
    (run.logs / "worker.log").write_text("\n".join(lines) + "\n")
    text = seen(page(paths))
    assert "5.0 [ERROR] worker is lost worker.log 1 1" in text
    assert "Halting process" not in text and "1 more kinds of errors came after" in text


def test_a_run_that_left_nothing_has_a_page_that_says_so(tmp_path: Path) -> None:
    paths = small_series(tmp_path)
    write_table_row = paths.run("stela-r3").root
    for file in write_table_row.iterdir():
        file.unlink()
    text = seen(page(paths, "stela-r3"))
    for words in ("The run left no events", "There are no raw logs of this run here", "The run reached no event"):
        assert words in text, words


def test_pages_lead_to_each_other_and_to_the_report(tmp_path: Path) -> None:
    paths = small_series(tmp_path)
    text = page(paths)
    paths.report.write_text("the series")
    links = [href for href in re.findall(r'href="([^"]+)"', text) if not href.startswith(("data:", "#"))]
    assert len(links) == 3
    for href in links:
        assert (paths.run(RUN).root / href).is_file(), href


def test_a_long_run_is_drawn_in_wider_windows() -> None:
    from analysis.report.figures.run_timeline import MOST_WINDOWS, mean_by_window, window_width_s

    day = [(10.0 * i, float(i % 2)) for i in range(8640)]
    width = window_width_s([day])
    line = mean_by_window(day, width)
    assert width % 10 == 0 and len(line) <= MOST_WINDOWS
    assert sum(rate for _, rate in line) / len(line) == 0.5
    assert line[0][0] == width / 2


def test_a_topology_that_differs_from_the_experiments_is_said(tmp_path: Path) -> None:
    run = {"run_id": RUN, "order": 1, "started_s": None, **NULLS}
    changes = {"parameters": {"ms_per_character": 0.4}, "overrides": {}}
    for topology, said in ((changes, "parameters: ms_per_character = 0.4"), (None, None)):
        facts = dict(run_page.facts(run, {"variant": {"topology": topology}}, [], [], tmp_path))
        assert facts.get("topology differs") == said


def test_a_simulated_run_says_when_it_was_made_and_when_its_own_time_began(tmp_path: Path) -> None:
    run = {"run_id": RUN, "order": 1, **NULLS, "started_s": 1_767_225_600.0, "ended_s": 1_767_225_700.0}
    facts = dict(run_page.facts(run, {}, [], [], tmp_path))
    assert facts["start"] == "2026-01-01 00:00:00 UTC" and "start in simulated time" not in facts
    how = {"harness_facts": json.dumps({"simulated": {"seed": 1}}), "date_s": 1_795_500_000.0}
    facts = dict(run_page.facts(run | how, {}, [], [], tmp_path))
    assert facts["start"] == "2026-11-24 06:00:00 UTC"
    assert facts["start in simulated time"] == "2026-01-01 00:00:00 UTC" and facts["duration"] == "100 s"


def test_of_spouts_that_are_not_throttled_no_offered_rate_is_drawn(tmp_path: Path) -> None:
    paths = small_series(tmp_path)
    assert "offered at spouts" in page(paths)
    (paths.run(RUN).root / "topology.yaml").write_text(catalogue.render("payload", {"unthrottled": True}))
    without = page(paths)
    assert "offered at spouts" not in without and "at sinks" in without


def test_a_simulated_run_repeats_the_errors_of_its_costs(tmp_path: Path) -> None:
    write(tmp_path / FOLDER / "one", FOUND)
    run = {"run_id": RUN, "order": 1, "started_s": None, **NULLS, **run_with(COSTS)}
    facts = dict(run_page.facts(run, {}, [], [], tmp_path / "stela" / "linear" / "20261124-3"))
    assert "throughput after 4.0 % (9.0; −1.0)" in facts["simulated"]
