"""Is B better than A? Paired statistics over the blocks of one series, its one sentence, and its page.

asked         what is asked: comparison.json
blocks        small tables -> both sides' values block by block, and the runs that say nothing
intervals, floor, needed   the statistics, pure
rows, verdict, sentence    blocks -> rows -> verdicts -> words
on_record     A/A comparisons of earlier series
page, drawings             comparison.html
calibrate     how often all of it would be wrong, by simulation
"""

from pathlib import Path

from analysis.comparison.answer import PAGE, Comparison, Row, Verdict
from analysis.comparison.asked import is_comparison
from analysis.comparison.compare import compare

__all__ = ["Comparison", "Row", "Verdict", "compare", "is_comparison", "is_written", "write"]


def write(series_dir: Path | str) -> Path:
    """Write comparison_result.json and comparison.html of an analysed series; returns the page's path."""
    from analysis.comparison import page

    return page.write(series_dir)


def is_written(series_dir: Path | str) -> bool:
    return (Path(series_dir) / PAGE).is_file()
