"""Comparison of two codes: is B better than A? Paired statistics over the blocks of one series, a sentence, and a page.

question    the question: comparison.json, which the harness writes
blocks      small tables -> both sides' values block by block, and the runs that do not count
verdict     blocks -> rows (estimate, test, A/A floor) -> verdicts
evaluation  all of it for one series, with A/A comparisons on record
sentence    the result in words
page        comparison.html, with `drawings`
`python -m bench.statistics.comparisons` says how often all of it would be wrong, by simulation, and
`bench.statistics.drawn_comparisons` how often it is, from real runs of one series.
"""

from pathlib import Path


def write(series_dir: Path | str) -> Path:
    """Write comparison_result.json and comparison.html of an analysed series; returns the page's path."""
    from analysis.compare import page

    return page.write(series_dir)


def is_written(series_dir: Path | str) -> bool:
    from analysis.compare.result import PAGE

    return (Path(series_dir) / PAGE).is_file()
