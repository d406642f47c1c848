"""In a bucket: another machine knows what was asked and that it is enough, reports come with the digest."""

from analysis.storage.layout import bucket_key, spool_paths

ASKED = ["series.json", "comparison.json", "sufficient.json"]
INDEXED = ["comparison_result.json", "report.json"]  # what the index of all results is made of
TOLD = ["comparison.html", "comparison_time.json", "checks.jsonl", "report.html"]


def test_what_was_asked_and_what_is_listed_is_always_brought_and_what_was_told_with_the_digest() -> None:
    keys = [*ASKED, *INDEXED, *TOLD, "harness.log"]
    assert sorted(spool_paths(keys, None, digest=False)) == sorted([*ASKED, *INDEXED])
    assert sorted(spool_paths(keys, None, digest=True)) == sorted([*ASKED, *INDEXED, *TOLD])


def test_what_its_runs_follow_is_always_sent_and_brought() -> None:
    assert spool_paths(["traces/a1.csv"], None, digest=False) == {"traces/a1.csv": "traces/a1.csv"}
    assert bucket_key("traces/a1.csv", {}) == "traces/a1.csv"


def test_a_runs_page_comes_with_the_digest_and_its_logs_never() -> None:
    run = ["runs/a-r1/run.json", "runs/a-r1/report.html", "runs/a-r1/logs/m1/worker.log"]
    assert sorted(spool_paths(run, None, digest=False)) == ["runs/a-r1/run.json"]
    assert sorted(spool_paths(run, None, digest=True)) == ["runs/a-r1/report.html", "runs/a-r1/run.json"]


def test_all_of_it_is_sent_but_what_can_be_made_again() -> None:
    assert [bucket_key(name, {}) for name in [*ASKED, *INDEXED, *TOLD]] == [*ASKED, *INDEXED, *TOLD]
    assert bucket_key(".so_far/tables/measurements.parquet/part-0.parquet", {}) is None


def test_counterfactuals_are_sent_and_their_pages_always_come() -> None:
    page = ["counterfactuals/20261127-133000-a-r1/report.html", "counterfactuals/20261127-133000-a-r1/figures/o.csv"]
    assert [bucket_key(name, {}) for name in page] == page
    assert spool_paths(page, None, digest=True) == dict(zip(page, page, strict=True))
    assert spool_paths(page, None, digest=False) == {page[0]: page[0]}, "what the index lists"
