"""Sentences of pages: the load of runs, what clocks make of latencies, how far simulated runs can be trusted."""

import json
import re
from pathlib import Path
from typing import Any

from analysis.calibration.validation import FOLDER, write
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.report import page
from analysis.report.series_tables import Measured
from analysis.report.words import (
    clock_sentences,
    model_sentence,
    model_sentence_of_series,
    untimed_sentences,
    workload_sentences,
)
from tests.support import sentences
from tests.support.sentences import require_known
from tests.support.series_by_hand import cut_short
from tests.unit.analysis.calibration.test_validation import COSTS, FOUND, run
from topologies import catalogue, work

REAL = {"harness_facts": json.dumps({"cpus": 2})}


def test_every_group_of_sentences_has_its_test() -> None:
    tests = Path(sentences.FILE).parent.rglob("test_*.py")
    groups = {name for path in tests for name in re.findall(r'require_known\(\s*"([^"]+)"', path.read_text())}
    assert groups == set(json.loads(sentences.FILE.read_text()))


def test_sentences_of_workloads(tmp_path: Path) -> None:
    """The last ones: queues without a limit, also where another variant's have one."""
    paths = SeriesPaths(tmp_path)

    def write_topology(run: str, text: str) -> None:
        paths.run(run).root.mkdir(parents=True, exist_ok=True)
        (paths.run(run).root / "topology.yaml").write_text(text)

    def load_of(topology: str, **parameters: Any) -> str:
        write_topology("even-r1", catalogue.render(topology, parameters))
        measurements = {("even-r1", "e1"): {"due_before": Measured(900.0)}}
        return " ".join(workload_sentences(paths, [{"run_id": "even-r1"}], measurements, []))

    for name, config in (("a-r1", {}), ("b-r1", {work.BUFFER: work.UNBOUNDED})):
        write_topology(name, catalogue.render("star", overrides={"config": config}))
    both, one = (
        " ".join(workload_sentences(paths, [{"run_id": name} for name in runs], {}, []))
        for runs in (("a-r1", "b-r1"), ("b-r1",))
    )
    require_known("workloads", {
        **{name: load_of(name) for name in ("star", "parallel", "payload", "opengov", "reference")},
        "opengov, not throttled": load_of("opengov", unthrottled=True, rate_per_s=1500.0),
        "star, with a limit and without": both, "star, without a limit": one,
    })  # fmt: skip


def test_sentences_beside_latencies() -> None:
    measured = {"run_id": "stela-r1", "clock_offset_ms": {"m1": 9.0}, "clock_error_ms": 0.31}
    older = {"run_id": "stela-r2", "clock_offset_ms": {"m1": -0.5, "m2": 1.0, "m3": None}}
    blind = {"run_id": "stela-r3", "clock_end_offset_ms": {"m1": 0.1, "m2": None}}
    corrected = {"run_id": "stela-r1", "machines": {"m1": {}, "m2": {}, "m5": {}}, "clock_error_ms": 31.0,
                 "clock_offset_ms": {"master": 0.0, "m1": 0.0, "m2": 30.0},
                 "clock_end_offset_ms": {"master": 0.0, "m1": 4.0, "m2": 34.5},
                 "clock_offset_error_ms": {"master": 9.0, "m1": 0.25, "m2": 0.25}}  # fmt: skip
    window = {"run_id": "stela-r1", "n": 10, "corrected": 10, "p95_ms": 5.0}
    shares = {"stela-r1": 0.5, "stela-r2": 0.6, "even-r1": 7.0}
    rows = [{"run_id": run_id, "metric": "untimed_percent_after", "value": share} for run_id, share in shares.items()]
    require_known("latencies", {name: " ".join(of) for name, of in {
        "clocks": clock_sentences([measured, older, blind], []),
        # Both measurements, and by how much they moved against each other; m5 never joined.
        "clocks taken out": clock_sentences([corrected], [window]),
        "some of another's": clock_sentences([corrected], [{**window, "corrected": 9}]),
        "no percentile": clock_sentences([corrected], [{**window, "corrected": 0, "p95_ms": None}]),
        "percentiles of seconds": clock_sentences([corrected], [{"run_id": "stela-r1", "n": 10, "p95_ms": 5.0}]),
        "tuples that never came": untimed_sentences(["stela-r1", "stela-r2"], rows),
    }.items()})  # fmt: skip
    assert clock_sentences([{"run_id": "stela-r4"}], []) == untimed_sentences(["stela-r1"], rows) == []


def simulated(**costs: float) -> dict[str, Any]:
    return {"harness_facts": json.dumps({"simulated": {"seed": 3, "sample_s": 1, "costs": costs}})}


def test_simulated_numbers_have_their_costs_and_the_errors_of_calibrations_beside_them(tmp_path: Path) -> None:
    assert model_sentence([REAL, {"harness_facts": None}]) == ""
    unknown = model_sentence([run(COSTS)])
    write(tmp_path / FOLDER / "one", FOUND)
    series, sweep = "stela/linear/20261124-3", "stela/linear/sweep-20261124-3/points/00001-3"
    assert model_sentence([run(COSTS)], tmp_path / series) == model_sentence([run(COSTS)], tmp_path / sweep)
    require_known("models", {
        "no calibration": unknown,
        "a calibration": model_sentence([run(COSTS)], tmp_path / series),
        "some of the runs, of several costs": model_sentence([REAL, simulated(hop_ms=1.0), simulated(hop_ms=2.0)]),
    })  # fmt: skip


def test_of_several_series_their_simulated_runs_count_and_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    one, two, absent = (tmp_path / "stela" / "star" / name for name in ("one", "two", "not_here"))
    for folder, runs in ((one, [simulated(hop_ms=1.0), REAL]), (two, [simulated(hop_ms=2.0)])):
        small_tables.write(SeriesPaths(folder), "runs", [{"run_id": f"r{n}", **row} for n, row in enumerate(runs)])
    assert model_sentence_of_series([absent]) == ""
    assert "hop_ms 1.0 or 2.0" in model_sentence_of_series([one, two, absent])
    first, costs = model_sentence_of_series([one]).split("\n")
    cut_short(two, "runs")
    text = model_sentence_of_series([one, two])
    assert text.startswith(f"{first} Nothing is said of a series: stela/star/two/tables/runs.parquet cannot be read: ")
    assert text.endswith(f"\n{costs}")


def test_a_page_folds_costs() -> None:
    shown, _, folded = str(page.folded(model_sentence([simulated(receive_ms=0.02)]))).partition("<details><summary>")
    assert "Simulated, not measured" in shown and "receive_ms" not in shown and "receive_ms 0.02" in folded
    assert page.folded("one line < two") == "one line &lt; two"
