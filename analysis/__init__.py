"""From what runs left on disk to tables, metrics, statistics, figures and a report.

Light to import: `record`, `steady`, `convergence` and `statistics` need numpy at most; Spark is started by `analyse`.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.storage.shared import SharedSeries


def analyse(
    series_dir: Path | str,
    master: str = "local[*]",
    *,
    shared: "SharedSeries | None" = None,
    jars: Sequence[Path] = (),
) -> Path:
    """Analyse one series from raw lines to its report; one Spark session, stopped at the end. Returns the report.

    A series that is a comparison also gets its page, beside the report.

    `shared`: the series in a bucket, where Spark reads and writes, with `jars`; small tables and the report are in
    `series_dir` all the same. Its tables are published when all of them are whole.
    """
    from analysis import analysed, cluster, comparison, metrics, report, s3a, session, tables
    from analysis.record import SeriesPaths

    paths, code = SeriesPaths(Path(series_dir), shared), analysed.digest()
    spark = session.spark(master, paths.raw_bytes(), s3a.settings(jars) if shared else None)
    try:
        if not shared and not cluster.is_local(master):
            cluster.require_shared(spark, paths.root)
        with shared.publishing() if shared else nullcontext():
            tables.build(spark, paths)
            metrics.build(spark, paths)
        analysed.keep(paths, spark, code)
        made = report.build(paths.root)
    finally:
        spark.stop()
    if comparison.is_comparison(paths.root):
        comparison.write(paths.root)
    return made


def family_report(series_dirs: Sequence[Path], target: Path) -> Path:
    """One page over analysed series: the papers' figures side by side and the whole ledger. Returns `target`.

    Of several series of one experiment the newest counts. Raises SeriesError for none, or one not analysed yet.
    """
    from analysis import claims, family

    return family.write(series_dirs, target, claims.evaluate)
