"""Files that pages offer: what they hold, and which of them are in the page itself."""

import base64
import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from analysis.report import downloads
from analysis.report.downloads import Download

ROWS = [
    {"run_id": "stela-r1", "seconds": 0.0, "censored": False, "of": ["a", "b"], "why": None},
    {"run_id": 'a "b", c', "seconds": None, "censored": True, "of": [], "why": None},
]


def test_a_missing_value_is_empty_and_never_0() -> None:
    file = downloads.row_downloads("x", ROWS)[0]
    read = list(csv.DictReader(io.StringIO(file.content.decode())))
    assert file.name == "x.csv"
    assert [row["seconds"] for row in read] == ["0.0", ""]
    assert [row["censored"] for row in read] == ["false", "true"]
    assert [row["of"] for row in read] == ["a b", ""]
    assert read[1]["run_id"] == 'a "b", c'


def test_parquet_has_types_also_where_nothing_was_measured() -> None:
    file = downloads.row_downloads("x", ROWS, {"seconds": "number"})[1]
    table = pq.read_table(io.BytesIO(file.content))
    assert table.to_pylist() == ROWS
    assert table.schema.field("why").type == pa.string()
    empty = downloads.row_downloads("x", [{"seconds": None}], {"seconds": "number"})[1]
    assert pq.read_table(io.BytesIO(empty.content)).schema.field("seconds").type == pa.float64()


def test_a_table_without_rows_offers_nothing() -> None:
    assert downloads.row_downloads("x", []) == ()


def test_columns_are_those_of_all_rows() -> None:
    file = downloads.row_downloads("x", [{"a": 1}, {"b": 2}])[0]
    assert file.content.decode() == "a,b\n1,\n,2\n"


def test_a_link_holds_its_file_or_leads_to_it(tmp_path: Path) -> None:
    files = {"x": (Download("x.csv", b"a\n1\n"), Download("x.pdf", b"%PDF" * 100))}
    inside, beside = downloads.download_links(files, "figures", budget=100)["x"]
    assert base64.b64decode(inside.href.partition("base64,")[2]) == b"a\n1\n" and not inside.beside
    assert inside.href.startswith("data:text/csv;")
    assert (beside.href, beside.beside) == ("figures/x.pdf", True)
    downloads.write_downloads(tmp_path / "figures", files["x"])
    assert (tmp_path / beside.href).read_bytes() == b"%PDF" * 100


@given(
    st.lists(st.tuples(st.sampled_from(downloads.EMBEDDING_ORDER), st.integers(0, 3000)), max_size=12),
    st.integers(0, 10_000),
)
def test_what_is_in_the_page_keeps_to_the_budget(sizes: list[tuple[str, int]], budget: int) -> None:
    files = [Download(f"{i}.{kind}", bytes(size)) for i, (kind, size) in enumerate(sizes)]
    kinds = downloads.embedded_kinds(files, budget)
    assert sum(file.embedded_bytes for file in files if file.kind in kinds) <= budget
    everything = sum(file.embedded_bytes for file in files)
    if everything <= budget:
        assert {file.kind for file in files} <= kinds
    for file in files:
        assert file.embedded_bytes == len(file.data_uri().partition("base64,")[2])
