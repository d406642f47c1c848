"""From what runs left on disk to tables, metrics, statistics, figures and a report.

Light to import: `record`, `steady`, `convergence` and `statistics` need numpy at most; Spark is started by `analyse`.
"""

from collections.abc import Sequence
from pathlib import Path


def analyse(series_dir: Path | str, master: str = "local[*]") -> Path:
    """Analyse one series from raw lines to its report; one Spark session, stopped at the end. Returns the report."""
    from analysis import metrics, report, session, tables
    from analysis.record import SeriesPaths

    spark = session.spark(master, raw_bytes=SeriesPaths(Path(series_dir)).raw_bytes())
    try:
        tables.build(spark, series_dir)
        metrics.build(spark, series_dir)
        return report.build(series_dir)
    finally:
        spark.stop()


def family_report(series_dirs: Sequence[Path], target: Path) -> Path:
    """One page over analysed series: the papers' figures side by side and the whole ledger. Returns `target`.

    Of several series of one experiment the newest counts. Raises SeriesError for none, or one not analysed yet.
    """
    from analysis import claims, family

    return family.write(series_dirs, target, claims.evaluate)
