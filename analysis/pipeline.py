"""Analysis of a series from raw lines to its report, also between two of its blocks.

Light to import: Spark is started by `analyse` and `analyse_new_runs`. Between two blocks only new runs are parsed:
`.so_far/` of the series looks like a series, with the few tables that a comparison needs and links to the
documents. A row depends on its run alone, so older rows stay. A full analysis does not use that folder.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.errors import RecordError
from analysis.record import small_tables
from analysis.record.files import RAW_SUFFIXES, SeriesPaths, is_complete, read_json, write_json_atomic
from analysis.record.simulated import date_s
from analysis.record.small_tables import Row
from barograph.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.storage.spark_s3 import SharedSeries


def analyse(
    series_dir: Path | str,
    master: str = "local[*]",
    *,
    shared: "SharedSeries | None" = None,
    jars: Sequence[Path] = (),
) -> Path:
    """Analyse one series from raw lines to its report, in the running Spark session or a new one. Return the
    report.

    A series that is a comparison also gets its page, beside the report.

    `jars`: further jars for Spark. `shared`: the series in a bucket, where Spark reads and writes; small tables and the
    report are also in `series_dir`. Its tables are published when all of them are complete.
    """
    from analysis import compare, provenance, session
    from analysis.compare import question
    from analysis.ingest import tables
    from analysis.metrics import build
    from analysis.record.files import SeriesPaths
    from analysis.report import series_page
    from analysis.storage import spark_s3

    paths, code = SeriesPaths(Path(series_dir), shared), provenance.code_digests()
    settings = spark_s3.s3a_settings(jars) if shared else session.jar_settings(jars)
    with session.shared_session(master, paths.raw_bytes(), settings) as spark:
        if not shared and not session.is_local(master):
            session.require_shared_folder(spark, paths.root)
        provenance.remove_provenance(paths)  # from here on tables are of two analyses, until the end
        with shared.publishing() if shared else nullcontext():
            tables.build_tables(spark, paths)
            build.build_metrics(spark, paths)
        provenance.write_provenance(paths, spark, code)
        report = series_page.build_report(paths.root)
    if question.is_comparison(paths.root):
        compare.write(paths.root)
    return report


def analyse_runs(folder: Path, master: str = "local[*]", *, jars: Sequence[Path] = ()) -> None:
    """Make tables and metrics of every run in `runs/` of the folder; runs may be links and of several experiments."""
    from analysis import session
    from analysis.ingest import tables
    from analysis.metrics import build

    paths = SeriesPaths(folder)
    with session.shared_session(master, paths.raw_bytes(), session.jar_settings(jars)) as spark:
        tables.build_tables(spark, paths)
        build.build_metrics(spark, paths)


def analyse_sweep(sweep_dir: Path, master: str = "local[*]", *, jars: Sequence[Path] = ()) -> Path:
    """Analyse every run that the sweep's folder links to, all at once, and draw the curves. Return the page."""
    from analysis.report import sweep_page

    analyse_runs(sweep_dir, master, jars=jars)
    return sweep_page.write(SeriesPaths(sweep_dir))


def communication_graph(
    series_dir: Path, run_id: str, target: Path, master: str = "local[*]", *, part: tuple[str, str] | None = None,
    topology: str | None = None, jars: Sequence[Path] = (),
) -> tuple[int, int]:  # fmt: skip
    """Write what the tasks of a run sent each other as a METIS graph file; return its numbers of tasks and edges.

    `part`: an event's id and one side of it, whose steady part is used; None: the whole run. `topology`: one of
    several. Raises ConfigurationError for an unknown run or topology, or one without traffic.
    """
    from analysis import session
    from analysis.ingest import tables
    from analysis.metis_files import write_graph
    from analysis.metrics import build
    from analysis.metrics import traffic as graph

    paths = SeriesPaths(series_dir)
    with session.shared_session(master, paths.raw_bytes(), session.jar_settings(jars)) as spark:
        access = build.TableAccess(spark, paths)
        unit = _unit(access.units.topologies, run_id, topology, series_dir)
        files = [file for file in sorted(paths.run(run_id).workers.glob("*")) if file.suffix in RAW_SUFFIXES]
        traffic = access.view(tables.worker_lines(spark, files), "traffic_samples")
        traffic = graph.of_unit(traffic, unit)
        if part is not None:
            traffic = graph.in_part(traffic, access.read("intervals"), access.read("scale_events"), part, unit)
        sent = graph.sent_tuples(traffic).persist()
        try:
            arrays = graph.arrays(sent, access.read("components"), unit)
        finally:
            sent.unpersist()
    write_graph(arrays, target, "/".join((series_dir.name, *unit)))
    return len(arrays.tasks), arrays.edge_count


def _unit(
    topologies: Mapping[str, Sequence[str]], run_id: str, topology: str | None, series_dir: Path
) -> tuple[str, str]:
    if run_id not in topologies:
        run_ids = ", ".join(sorted(topologies)) or "none: it has no tables yet"
        raise ConfigurationError(f"{series_dir} has no run {run_id!r}; there are {run_ids}")
    names = topologies[run_id]
    if topology is None and len(names) == 1:
        return run_id, names[0]
    if topology is None or topology not in names:
        raise ConfigurationError(f"{run_id}: topology is {topology!r}; allowed: {', '.join(names)}")
    return run_id, topology


INCREMENTAL_FOLDER = ".so_far"  # hidden: not stored elsewhere
PARSED_FILE = "parsed.json"
# What a comparison needs, beside the runs: latency is compared over windows that both sides have.
INCREMENTAL_TABLES = (
    "measurements", "scale_events", "event_throughput", "latency", "activity", "losses", "emissions", "topologies",
    "zeros", "service",
)  # fmt: skip
LINKS = ("series.json", "comparison.json", "runs", "attempts")


def analyse_new_runs(series_dir: Path, start: Callable[[int], "SparkSession"]) -> Path:
    """Return the folder with the rows of every complete run. `start` is called with the number of bytes to parse, but
    not if there are no new runs.
    """
    from analysis.ingest.run_tables import load_run, run_row

    series, target = SeriesPaths(series_dir), SeriesPaths(series_dir / INCREMENTAL_FOLDER)
    target.root.mkdir(exist_ok=True)
    for link in (target.root / name for name in LINKS):
        if not link.is_symlink():
            link.symlink_to(Path("..") / link.name)
    parsed = target.root / PARSED_FILE
    stamps: Mapping[str, Any] = {}
    if parsed.is_file():
        with suppress(RecordError):  # tables of another version: all runs are parsed anew
            small_tables.check(target, INCREMENTAL_TABLES)
            stamps = read_json(parsed)["runs"]
    documents = {run.run_id: read_json(run.run_json) for run in series.all_runs() if is_complete(run.root)}
    # A stamp differs between attempts under the same id.
    complete = {run_id: [document.get("attempt"), date_s(document)] for run_id, document in documents.items()}
    runs = [run for run, stamp in complete.items() if stamps.get(run) != stamp]
    rows_by_table = _rows_of_new_runs(series, target, runs, start) if runs else {}
    # If this process ends before the file is written again, the next analysis parses all runs again.
    parsed.unlink(missing_ok=True)
    # Rows also for runs that failed: the comparison depends on which runs there are.
    small_tables.write(target, "runs", [run_row(run.run_id, load_run(run)) for run in series.all_runs()])
    for name in INCREMENTAL_TABLES:
        of_parsed = small_tables.rows(target, name) if stamps else ()
        rows = [row for row in of_parsed if row["run_id"] in complete and row["run_id"] not in runs]
        small_tables.write(target, name, [*rows, *rows_by_table.get(name, ())])
    write_json_atomic(parsed, {"v": 1, "runs": complete})
    return target.root


def _rows_of_new_runs(
    series: SeriesPaths, target: SeriesPaths, runs: list[str], start: Callable[[int], "SparkSession"]
) -> dict[str, list[Row]]:
    """Return rows of these runs by table, from a temporary series."""
    from analysis.ingest import tables
    from analysis.metrics import build

    part = SeriesPaths(target.root / "new")
    shutil.rmtree(part.root, ignore_errors=True)
    part.runs.mkdir(parents=True)
    for run in runs:
        (part.runs / run).symlink_to(series.run(run).root.absolute(), target_is_directory=True)
    spark = start(part.raw_bytes())
    try:
        tables.build_tables(spark, part)
        build.build_metrics(spark, part)
        return {name: small_tables.rows(part, name) for name in INCREMENTAL_TABLES}
    finally:
        shutil.rmtree(part.root, ignore_errors=True)
