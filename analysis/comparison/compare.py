"""A series that compares two codes -> its answer. Pure but for reading small tables."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from analysis.comparison import asked as asking
from analysis.comparison import ranks, sentence, verdict, words
from analysis.comparison import rows as making
from analysis.comparison.answer import FAILED, Comparison, Kind, Row
from analysis.comparison.asked import Asked
from analysis.comparison.blocks import Measured, PairRuns, measured, runs_of
from analysis.comparison.on_record import differences
from analysis.comparison.rows import OnRecord
from analysis.event_ids import event_of
from analysis.metric_directions import PRIMARY
from analysis.record import SeriesPaths
from analysis.small_tables import rows as read


def compare(series_dir: Path | str, on_record: OnRecord | None = None) -> Comparison:
    """The answer of what is analysed so far, after any number of blocks.

    `on_record`: block differences of A/A comparisons on such machines; None: those beside this series are looked for.
    """
    root = Path(series_dir)
    question, paths = asking.read(root), SeriesPaths(root)
    runs = [runs_of(pair, read(paths, "runs")) for pair in question.pairs]
    kinds = {event_of(row): row["kind"] for row in read(paths, "scale_events") if row["kind"] != "none"}
    found = measured(runs, read(paths, "measurements"))
    known = differences(root) if on_record is None else on_record
    return answered(question, runs, found, dict(sorted(kinds.items())), known)


def answered(
    question: Asked, runs: list[PairRuns], found: Iterable[Measured], kinds: dict[str, str], on_record: OnRecord
) -> Comparison:
    rows = ordered([
        *(row for pair in runs if (row := ranks.failures(pair))),
        *(making.of_metric(each, question.level, question.goal_percent, on_record) for each in found),
    ])  # fmt: skip
    judged = [_noted(row, question) for row in verdict.judged(rows, runs, question.level)]
    certain, waiting, reason = verdict.certainty(question, judged, runs)
    return Comparison(
        question, tuple(judged), tuple(runs), sentence.sentence(question, judged, runs, kinds), certain,
        sentence.why(question, certain, waiting, reason, kinds), sentence.notes(question, runs), kinds,
    )  # fmt: skip


def _noted(row: Row, question: Asked) -> Row:
    if row.kind is not Kind.RANK:
        return row
    return replace(row, note=words.reached(row, question.a.label, question.b.label))


def ordered(rows: list[Row]) -> list[Row]:
    """Primary ones first, pair by pair, in the order of PRIMARY; the others by event and name."""
    pairs = list(dict.fromkeys(row.pair for row in rows))
    names = [FAILED, *PRIMARY]

    def place(row: Row) -> tuple[bool, int, str, int, str]:
        rank = names.index(row.metric) if row.metric in names else len(names)
        return (not row.primary, pairs.index(row.pair), row.event, rank, row.metric)

    return sorted(rows, key=place)
