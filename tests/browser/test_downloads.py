"""What a page offers is what it shows, and it still has it when it was moved alone."""

from __future__ import annotations

import base64
import csv
import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq

from tests.browser.looks import Open

if TYPE_CHECKING:
    from playwright.sync_api import Page


def offered(page: Page) -> Mapping[str, bytes]:
    """Every file in the page, by name."""
    found: list[list[str]] = page.evaluate(
        '() => [...document.querySelectorAll("a[download]")].map(a => [a.download, a.getAttribute("href")])'
    )
    assert all(href.startswith("data:") for _, href in found), "small pages have all their files in themselves"
    return {name: base64.b64decode(href.partition("base64,")[2]) for name, href in found}


def test_files_in_the_page_are_those_beside_it_and_open_in_what_they_are_for(open_page: Open, report: Path) -> None:
    files = offered(open_page(report))
    assert files == {path.name: path.read_bytes() for path in (report.parent / "figures").iterdir()}
    kinds = ("csv", "parquet", "svg", "pdf")
    assert {name for name in files if name.startswith("throughput.")} == {f"throughput.{kind}" for kind in kinds}
    assert {"claims.csv", "runs.parquet", "steady.csv", "losses.csv", "topology.pdf"} <= files.keys()
    for name, content in files.items():
        if name.endswith(".csv"):
            rows = list(csv.DictReader(io.StringIO(content.decode())))
            table = pq.read_table(io.BytesIO(files[name.replace(".csv", ".parquet")]))
            assert rows and (len(rows), list(rows[0])) == (table.num_rows, table.column_names), name
        elif name.endswith(".svg"):
            assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg", name
        elif name.endswith(".pdf"):
            assert content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF"), name
            assert b"/Type3" not in content and b"/FontFile2" in content, name


def test_the_data_is_what_is_drawn(open_page: Open, report: Path) -> None:
    page = open_page(report)
    rows = list(csv.DictReader(io.StringIO(offered(page)["throughput.csv"].decode())))
    drawn: int = page.evaluate(
        """() => JSON.parse(document.querySelector("#figure-throughput script.points").textContent)
        .traces.reduce((sum, trace) => sum + trace.x.length, 0)"""
    )
    assert len(rows) == drawn > 100
    after = [float(row["tuples_per_s"]) for row in rows if row["mark"] == "median" and row["variant"] == "Stela"
             and float(row["time_s"]) > 100]  # fmt: skip
    assert after and all(157 <= rate <= 163 for rate in after)


def test_a_click_saves_the_file_and_a_page_that_was_moved_alone_has_all(
    open_page: Open, report: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "sent by mail.html"
    shutil.copy(report, alone)
    page = open_page(alone, accept_downloads=True)
    with page.expect_download() as waiting:
        page.locator('a[download="convergence.csv"]').click()
    assert waiting.value.suggested_filename == "convergence.csv"
    assert waiting.value.path().read_bytes() == (report.parent / "figures" / "convergence.csv").read_bytes()
    assert len(offered(page)) > 30
    assert page.locator("figure svg").count() == 4
