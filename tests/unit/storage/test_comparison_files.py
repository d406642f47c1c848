"""In a bucket: another machine knows what was asked and that it is enough, reports come with the digest."""

from analysis.storage.layout import key_of, paths_of

ASKED = ["series.json", "comparison.json", "enough.json"]
TOLD = ["comparison.html", "comparison_result.json", "comparison_time.json", "checks.jsonl", "report.html"]


def test_what_was_asked_is_always_brought_and_what_was_told_with_the_digest() -> None:
    keys = [*ASKED, *TOLD, "harness.log"]
    assert sorted(paths_of(keys, None, digest=False)) == sorted(ASKED)
    assert sorted(paths_of(keys, None, digest=True)) == sorted([*ASKED, *TOLD])


def test_all_of_it_is_sent_but_what_can_be_made_again() -> None:
    assert [key_of(name, {}) for name in [*ASKED, *TOLD]] == [*ASKED, *TOLD]
    assert key_of(".so_far/tables/measurements.parquet/part-0.parquet", {}) is None
