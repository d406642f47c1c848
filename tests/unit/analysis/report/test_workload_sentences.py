"""What a report says of the load of its runs, by the topology files that they were submitted with."""

from pathlib import Path

from analysis.record.files import SeriesPaths
from analysis.report.series_page import workload_sentences
from topologies import catalogue


def said_of(tmp_path: Path, topology: str, due_per_s: float = 900.0, **parameters: object) -> str:
    paths = SeriesPaths(tmp_path / topology)
    (paths.run("even-r1").root).mkdir(parents=True)
    text = catalogue.render(topology, parameters)  # type: ignore[arg-type]  # of whatever kind a parameter is
    (paths.run("even-r1").root / "topology.yaml").write_text(text)
    measurements = {("even-r1", "e1"): {"due_before": (due_per_s, False, None)}}
    return " ".join(workload_sentences(paths, [{"run_id": "even-r1"}], measurements, []))


def test_of_opengov_it_says_that_the_sink_is_capped(tmp_path: Path) -> None:
    assert "Throughput at the sink is capped: the join emits a company at most once" in said_of(tmp_path, "opengov")
    assert "capped" not in said_of(tmp_path, "star")
