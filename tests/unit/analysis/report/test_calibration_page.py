"""The page of a calibration."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path

import pytest

from analysis.calibration.judgement import MachineCell, ModelError, SeriesErrors, SideNumber, rankings, summaries
from analysis.calibration.linear import CostEstimate
from analysis.calibration.validation import SeriesName, Validation
from analysis.report import calibration_page
from analysis.report.page import FOLDER
from scheduler_plugins.simulator.work import Costs

ESTIMATES = (
    CostEstimate("receive_ms", 0.03, 0.02, 0.02, 0.04, 3),
    CostEstimate("hop_ms", None, 1.0, None, None, 0, "nothing was free of queues"),
)


def cell(metric: str, real: SideNumber, simulated: SideNumber, variant: str = "stela") -> ModelError:
    return ModelError("stela/star", "star", variant, f"{variant}-r1", "e1", metric, real, simulated)


CELLS = (
    cell("throughput_after", SideNumber(200.0, 1), SideNumber(230.0, 5, False, 225.0, 231.5)),
    cell("throughput_after", SideNumber(180.0, 1), SideNumber(240.0, 1), "even"),
    cell("convergence_sp_s", SideNumber(170.0, 1, censored=True), SideNumber(50.0, 1)),
    cell("downtime_s", SideNumber(None, 0), SideNumber(7.0, 1)),
    cell("latency_mean_ms_after", SideNumber(90.0, 1, unsteady=1), SideNumber(45.0, 1)),
)


FAILED = "2 of 5 seeds could not be simulated; the last failed by its policy"


def written(folder: Path) -> str:
    machines = (MachineCell("stela/star", "stela-r1", "e1", "after", "m5", 12.5, None),)
    left_out = {"code-r1": "it has code"}, {"stela-r1": FAILED}
    judgement = SeriesErrors("stela/star", "20261124-1", CELLS, machines, rankings(CELLS), 2, *left_out)
    names = (SeriesName("stela/linear", "20261124-0", 3),)
    costs = asdict(replace(Costs(), receive_ms=0.03))
    found = Validation(
        "2026-11-24", costs, names, (SeriesName("stela/star", "20261124-1", 2),), tuple(summaries([judgement])),
        (), estimates=tuple(asdict(each) for each in ESTIMATES),
    )  # fmt: skip
    return calibration_page.write(folder / calibration_page.PAGE, found, [judgement]).read_text()


def rows(page: str) -> list[list[str]]:
    """The cells of every row, as a reader sees them."""
    cells = (re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page))
    return [[unescape(re.sub(r"<[^>]+>", "", cell)).replace("\u00a0", " ") for cell in row] for row in cells]


def test_simulated_stands_beside_real_and_what_is_missing_or_a_bound_is_shown_so(tmp_path: Path) -> None:
    page = written(tmp_path)
    found = rows(page)
    for cells in (["stela-r1", "e1", "throughput after (tuples/s)", "200", "230", "5", "225 to 232 *", "+15.0 %"],
                  ["stela-r1", "e1", "downtime (s)", "–", "7", "1", "", "–"],
                  ["stela-r1", "e1", "convergence time (SP) (s)", "> 170", "50", "1", "", "–"],
                  ["stela-r1", "e1", "mean latency after (ms)", "90 †", "45", "1", "", "−50.0 %"],
                  ["stela-r1", "e1", "m5 after (%)", "12.5", "–", "–"]):  # fmt: skip
        assert cells in found, cells
    assert ["mean latency after", "1", "1", "50.0 %"] in [cells[:4] for cells in found]
    for text in ("Kendall&#39;s tau −1.00; of 1 pair that differs by more than 5 % in reality, 0 in the same order",
                 "code-r1 was not simulated: it has code", f"<li>stela-r1: {FAILED}</li>",
                 "default: nothing was free of queues", "0.0200 to 0.0400", "data:text/csv;base64,"):  # fmt: skip
        assert text in page, text
    assert 'src="http' not in page
    lines = (tmp_path / FOLDER / "calibration_cells.csv").read_text().splitlines()
    assert len(lines) == 1 + len(CELLS) and float(lines[1].rpartition(",")[2]) == pytest.approx(15.0)
