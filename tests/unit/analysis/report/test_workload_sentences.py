"""What a report says of the load of its runs, by the topology files that they were submitted with."""

from pathlib import Path

from analysis.record.files import SeriesPaths
from analysis.report.series_page import workload_sentences
from analysis.report.series_tables import Measured
from topologies import catalogue, work
from topologies.catalogue import Scalar


def said_of(tmp_path: Path, topology: str, **parameters: Scalar) -> str:
    paths = SeriesPaths(tmp_path / topology)
    folder = paths.run("even-r1").root
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "topology.yaml").write_text(catalogue.render(topology, parameters))
    measurements = {("even-r1", "e1"): {"due_before": Measured(900.0)}}
    return " ".join(workload_sentences(paths, [{"run_id": "even-r1"}], measurements, []))


def test_of_opengov_it_says_that_the_sink_is_capped(tmp_path: Path) -> None:
    assert "Throughput at the sink is capped: the join emits a company at most once" in said_of(tmp_path, "opengov")
    assert "capped" not in said_of(tmp_path, "star")


def test_congestion_and_long_queues_are_said_of_topologies_with_costly_components_only(tmp_path: Path) -> None:
    star = said_of(tmp_path, "star")
    assert "360.0 tuples/s of each spout component. It is chosen above what the costliest component can do" in star
    assert (
        "Receive buffer: 65\u2009536 tuples an executor, large enough that a queue grows during the whole run" in star
    )
    for name in ("parallel", "payload", "opengov", "reference"):
        said = said_of(tmp_path, name)
        assert "tuples/s of each spout component. " in said and "Receive buffer: " in said
        assert "chosen above" not in said and "large enough" not in said


def test_of_spouts_that_are_not_throttled_no_rate_is_said(tmp_path: Path) -> None:
    said = said_of(tmp_path, "opengov", unthrottled=True, rate_per_s=1500.0)
    assert said.startswith("Offered load: spouts were not throttled. All together they emitted 900 tuples/s before")
    assert "1500" not in said and "chosen above" not in said


def test_of_queues_without_a_limit_it_says_so(tmp_path: Path) -> None:
    """Also where another variant's have one."""
    paths = SeriesPaths(tmp_path / "star")
    for run, config in (("a-r1", {}), ("b-r1", {work.BUFFER: work.UNBOUNDED})):
        folder = paths.run(run).root
        folder.mkdir(parents=True)
        (folder / "topology.yaml").write_text(catalogue.render("star", overrides={"config": config}))
    said = " ".join(workload_sentences(paths, [{"run_id": "a-r1"}, {"run_id": "b-r1"}], {}, []))
    assert "Receive buffer: 65\u2009536 tuples an executor or unbounded, large enough" in said
    assert "Receive buffer: unbounded, large enough" in " ".join(
        workload_sentences(paths, [{"run_id": "b-r1"}], {}, [])
    )
