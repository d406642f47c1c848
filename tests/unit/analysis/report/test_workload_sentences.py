"""Load of a series' runs in its report, by the topology files that they were submitted with."""

from pathlib import Path

from analysis.record.files import SeriesPaths
from analysis.report.series_tables import Measured
from analysis.report.words import workload_sentences
from tests.support.sentences import require_known
from topologies import catalogue, work
from topologies.catalogue import Scalar


def said_of(tmp_path: Path, topology: str, **parameters: Scalar) -> str:
    paths = SeriesPaths(tmp_path / topology)
    folder = paths.run("even-r1").root
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "topology.yaml").write_text(catalogue.render(topology, parameters))
    measurements = {("even-r1", "e1"): {"due_before": Measured(900.0)}}
    return " ".join(workload_sentences(paths, [{"run_id": "even-r1"}], measurements, []))


def test_sentences_of_workloads(tmp_path: Path) -> None:
    """The last ones: queues without a limit, also where another variant's have one."""
    paths = SeriesPaths(tmp_path / "buffers")
    for run, config in (("a-r1", {}), ("b-r1", {work.BUFFER: work.UNBOUNDED})):
        folder = paths.run(run).root
        folder.mkdir(parents=True)
        (folder / "topology.yaml").write_text(catalogue.render("star", overrides={"config": config}))
    both, one = (
        " ".join(workload_sentences(paths, [{"run_id": run} for run in runs], {}, []))
        for runs in (("a-r1", "b-r1"), ("b-r1",))
    )
    require_known("workloads", {
        **{name: said_of(tmp_path, name) for name in ("star", "parallel", "payload", "opengov", "reference")},
        "opengov, not throttled": said_of(tmp_path, "opengov", unthrottled=True, rate_per_s=1500.0),
        "star, with a limit and without": both, "star, without a limit": one,
    })  # fmt: skip


def test_congestion_is_said_of_topologies_with_costly_components_only(tmp_path: Path) -> None:
    for name, costly in {"star": True, "parallel": False, "payload": False, "opengov": False}.items():
        assert ("chosen above" in said_of(tmp_path, name)) is costly
