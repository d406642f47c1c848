"""From what runs left on disk to tables, metrics, statistics, figures and a report.

Light to import: `record`, `steady`, `convergence` and `statistics` need numpy at most; Spark is started by `analyse`.
"""

from pathlib import Path


def analyse(series_dir: Path | str, master: str = "local[*]") -> Path:
    """Analyse one series from raw lines to its report; one Spark session, stopped at the end. Returns the report."""
    from analysis import metrics, report, session, tables
    from analysis.record import SeriesPaths

    spark = session.spark(master, raw_bytes=SeriesPaths(Path(series_dir)).raw_bytes())
    try:
        tables.build(spark, series_dir)
        metrics.build(spark, series_dir)
        return report.build(spark, series_dir)
    finally:
        spark.stop()
