"""Blocks of pages and their tables, each once, and the files that pages offer."""

from __future__ import annotations

import base64
import csv
import io
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from analysis.report import page
from analysis.report.page import Definitions, Downloads, Figure, Folded, Items, PageContent, Section, Sentence, Warnings
from analysis.report.table import (
    Across,
    Download,
    Heading,
    ResultTable,
    badge,
    bold,
    joined,
    link,
    row_downloads,
    small,
)

ROWS = [
    {"run": "stela-r1", "rate": 1234.56, "runs": 3, "steady": True, "why": ""},
    {"run": "<b>", "rate": None, "runs": 0, "steady": False, "why": "it <died>"},
]
TABLE = ResultTable(
    (
        Heading("run", "run", css="k"),
        Heading("rate", "rate", unit="tuples/s", digits=1, css="n"),
        None,
        Heading("runs", lambda row: bold(str(row["runs"])), css="n k"),
        Heading("steady", "steady", css="v"),
        Heading("why", "why", blank="", css="wide"),
    ),
    ROWS,
    row_css=lambda row: "" if row["steady"] else "out",
)


def shown(*blocks: page.Block, **more: str) -> str:
    content = PageContent("t <x>", "h <y>", "m <z>", blocks, **more)
    return page.html(content, {})


def test_a_table_is_html_with_everything_escaped_but_markup() -> None:
    text = TABLE.html()
    assert '<th class="n">rate (tuples/s)</th>' in text and "<th>run</th>" in text and '<th class="v">steady' in text
    assert (
        '<tr><td class="k">stela-r1</td><td class="n">1\u2009234.6</td><td class="n k"><b>3</b></td>'
        '<td class="v">yes</td><td class="wide"></td></tr>'
    ) in text
    assert '<tr class="out"><td class="k">&lt;b&gt;</td><td class="n">–</td>' in text
    assert '<td class="v">no</td><td class="wide">it &lt;died&gt;</td>' in text


def test_a_table_is_text_with_numbers_at_the_right() -> None:
    assert TABLE.lines() == [
        "run       rate (tuples/s)  runs  steady  why",
        "stela-r1          1\u2009234.6     3  yes",
        "<b>                     –     0  no      it <died>",
    ]


def test_rows_stand_in_groups_and_some_go_over_all_columns() -> None:
    rows = [Across("since <1>", "group", begins=True), ROWS[0], Across(begins=True), ROWS[1]]
    text = ResultTable(TABLE.headings, rows).html()
    assert text.count("<tbody>") == 2
    assert '<tr class="group"><td colspan="5">since &lt;1&gt;</td></tr>' in text
    assert ResultTable(TABLE.headings, rows).cells() == TABLE.cells()


def test_on_a_narrow_screen_rows_are_blocks_whose_numbers_have_their_headings() -> None:
    text = ResultTable(TABLE.headings, ROWS, css="blocks").html()
    assert '<table class="blocks">' in text
    assert '<td class="n" data-label="rate (tuples/s)">1' in text
    assert '<td class="n without" data-label="rate (tuples/s)">–' in text
    assert '<td class="k">stela-r1</td>' in text


def test_every_block_is_shown_and_escaped() -> None:
    text = shown(
        Sentence("a < b", "answer"),
        Warnings(["one < two", page.folded("first\nsecond < third"), "a line\nand a traceback"]),
        Warnings([]),
        Items(["i < j"], "told"),
        Definitions([("key <", "value <")]),
        Section("S <", [Sentence("deeper"), Section("T", [TABLE])], "place", "aside <"),
        Folded("F <", [Sentence("behind")], long=True),
        Markup("<hr>"),
        css="wide",
    )
    for part in ("<title>Barograph: t &lt;x&gt;</title>", "<h1>h &lt;y&gt;</h1>", '<p class="answer">a &lt; b</p>',
                 '<p class="meta">m &lt;z&gt; · Barograph</p>', "<li>one &lt; two</li>", '<body class="wide">',
                 "<li>first<details><summary>What Storm is taken to cost, and settings</summary>second &lt; third",
                 "<li>a line\nand a traceback</li>",
                 '<ul class="told">', "<dt>key &lt;</dt><dd>value &lt;</dd>", "<hr>", "<h3>T</h3>",
                 '<h2 id="place">S &lt; <span class="small">aside &lt;</span></h2>',
                 '<details class="long"><summary>F &lt;</summary>'):  # fmt: skip
        assert part in text, part
    assert text.count('<ul class="warnings">') == 1
    assert "<script" not in text, "a page without figures has no script"


def test_parts_of_cells_are_escaped_once() -> None:
    assert link("a&b", "x?y=1&z") == '<a href="x?y=1&amp;z">a&amp;b</a>' and link("<", None) == "&lt;"
    assert joined([badge("<", "good"), "&", small("x")], ", ") == (
        '<span class="badge good">&lt;</span>, &amp;, <span class="small">x</span>'
    )


@pytest.mark.parametrize("only_large", [False, True])
def test_what_figures_and_tables_offer_is_in_the_page_and_beside_it(tmp_path: Path, only_large: bool) -> None:
    files = (Download("curve.svg", b"<svg/>"), Download("curve.pdf", b"%" * page.EMBEDDED_BYTES))
    figure = Figure("curve", "A <curve>", "What it shows.", "<svg></svg>", '{"traces":[]}', files)
    blocks: list[page.Block] = [
        Section("S", [figure]),
        Folded("F", [Downloads("data", [{"a": 1}])]),
        Downloads("none", []),
    ]
    target = page.save(tmp_path / "report.html", PageContent("t", "h", "m", blocks), only_large=only_large)
    text = target.read_text()
    assert '<figure id="figure-curve">' in text and "<b>A &lt;curve&gt;.</b> What it shows." in text
    assert '<script type="application/json" class="points">{"traces":[]}</script>' in text
    assert re.findall(r'href="(figures/[^"]+)" download="curve.pdf"', text) == ["figures/curve.pdf"]
    assert 'download="data.csv"' in text and 'download="data.parquet"' in text and "none.csv" not in text
    written = {file.name for file in (tmp_path / "figures").iterdir()}
    everything = {"curve.svg", "curve.pdf", "data.csv", "data.parquet"}
    assert written == ({"curve.pdf"} if only_large else everything)
    assert text.count("document.querySelectorAll") > 0


CELLS = [
    {"run_id": "stela-r1", "seconds": 0.0, "censored": False, "of": ["a", "b"], "why": None},
    {"run_id": 'a "b", c', "seconds": None, "censored": True, "of": [], "why": None},
]


def test_files_of_rows_have_types_and_a_missing_value_is_never_0() -> None:
    csv_file, parquet_file = row_downloads("x", CELLS, {"seconds": "number"})
    read = list(csv.DictReader(io.StringIO(csv_file.content.decode())))
    assert (csv_file.name, parquet_file.name) == ("x.csv", "x.parquet")
    assert [[row[name] for row in read] for name in ("seconds", "censored", "of")] == [
        ["0.0", ""], ["false", "true"], ["a b", ""],
    ]  # fmt: skip
    assert read[1]["run_id"] == 'a "b", c'
    table = pq.read_table(io.BytesIO(parquet_file.content))
    assert table.to_pylist() == CELLS and table.schema.field("why").type == pa.string()
    _, empty = row_downloads("x", [{"seconds": None}], {"seconds": "number"})
    assert pq.read_table(io.BytesIO(empty.content)).schema.field("seconds").type == pa.float64()
    assert row_downloads("x", [{"a": 1}, {"b": 2}])[0].content.decode() == "a,b\n1,\n,2\n"
    assert row_downloads("x", []) == ()


def test_a_link_holds_its_file_or_leads_to_it(tmp_path: Path) -> None:
    files = {"x": (Download("x.csv", b"a\n1\n"), Download("x.pdf", b"%PDF" * 100))}
    inside, beside = page.download_links(files, "figures", budget=100)["x"]
    assert base64.b64decode(inside["href"].partition("base64,")[2]) == b"a\n1\n" and not inside["beside"]
    assert inside["href"].startswith("data:text/csv;")
    assert (beside["href"], beside["beside"]) == ("figures/x.pdf", True)


@given(
    st.lists(st.tuples(st.sampled_from(page.EMBEDDING_ORDER), st.integers(0, 3000)), max_size=12),
    st.integers(0, 10_000),
)
def test_what_is_in_the_page_keeps_to_the_budget(sizes: list[tuple[str, int]], budget: int) -> None:
    files = [Download(f"{i}.{kind}", bytes(size)) for i, (kind, size) in enumerate(sizes)]
    kinds = page.embedded_kinds(files, budget)
    assert sum(file.embedded_bytes for file in files if file.kind in kinds) <= budget
    everything = sum(file.embedded_bytes for file in files)
    if everything <= budget:
        assert {file.kind for file in files} <= kinds
    for file in files:
        assert file.embedded_bytes == len(file.data_uri().partition("base64,")[2])
