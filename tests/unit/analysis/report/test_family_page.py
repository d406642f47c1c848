import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.calibration.validation import FOLDER, write
from analysis.claims import publications
from analysis.claims.publications import PublishedFigure, PublishedPanel
from analysis.claims.rows import NO_VERDICT, LedgerRow
from analysis.claims.statements import load_claims
from analysis.record.files import SeriesPaths
from analysis.report import family_page
from analysis.report.family_page import DRAWS
from analysis.report.figures import published_figures, series_data
from analysis.report.figures.series_data import RateLine, SeriesData
from barograph.errors import ConfigurationError
from tests.support.series_by_hand import drop_column, write_series
from tests.unit.analysis.calibration.test_validation import COSTS, FOUND
from topologies import catalogue

ONE_PANEL = "figures: [{source: a, title: b, caption: c, panels: [{experiment: e, title: t, draw: %s}]}]"


def nothing_measured(folders: Sequence[Path], *, simulated: bool = False) -> list[LedgerRow]:
    claim = load_claims()[0]
    return [LedgerRow(claim, None, None, None, 0, "not run", f"{len(list(folders))} series looked at", ())]


def page(tmp_path: Path, *experiments: str) -> str:
    folders = [write_series(tmp_path / name / "20260101-000000-aa", name, {"even_rebalance": 90.0, "stela": 150.0})
               for name in experiments]  # fmt: skip
    return family_page.write(folders, tmp_path / "family.html", nothing_measured).read_text()


def test_what_was_run_is_drawn_and_the_rest_is_shown_as_not_run(tmp_path: Path) -> None:
    run = {"stela/star", "stela/linear_strategies"}
    text = page(tmp_path, *sorted(run))
    plots = [
        {panel.experiment for panel in figure.panels}
        for figure in publications.load_figures(DRAWS, families=["stela"])
        if not figure.is_graphs
    ]
    assert text.count('<div class="absent">not run</div>') == sum(run.isdisjoint(mine) for mine in plots) > 2
    assert "Not run: stela/linear, stela/diamond." in text
    counts = "0 are reproduced, 0 differ, 0 are undecided, 0 cannot be tested here, 1 were not run"
    assert counts in " ".join(text.split())
    assert "<code>barograph claims</code> judges each claim by the blocks of all series" in text
    for words in ("(a) star", "own gain", "2 series looked at", "parse_lines", "scale out, +1 machine",
                  "Bars are medians and dots are runs."):  # fmt: skip
        assert words in text, words
    assert not re.findall(r'src="[^"]*"|@import|url\((?!#)|href="https?:', text), "it is self-contained"
    identifiers = re.findall(r'\bid="([^"]+)"', text)
    assert len(identifiers) == len(set(identifiers)) > 20


def test_the_legend_is_of_the_figures_of_the_family(tmp_path: Path) -> None:
    """In METIS' figures a bar is an interval or two quartiles, which their captions say."""
    of_metis = page(tmp_path, "metis/acking")
    assert "Bars are medians" not in of_metis and "Yellow components" in of_metis
    for figure in publications.load_figures(DRAWS, families=["metis"]):
        if not figure.is_graphs and not figure.is_simulated and not figure.caption.startswith("As above"):
            assert "ots are " in figure.caption or "A dot " in figure.caption, figure.title


def test_the_newest_series_of_an_experiment_counts(tmp_path: Path) -> None:
    old = write_series(tmp_path / "20250101-000000-aa", "stela/star", {"stela": 1.0})
    new = write_series(tmp_path / "20260101-000000-aa", "stela/star", {"stela": 2.0})
    found, older = family_page.newest_series([new, old])
    assert {name: paths.root for name, paths in found.items()} == {"stela/star": new}
    assert older == ["stela/star 20250101-000000-aa"]


def simulated(folder: Path) -> Path:
    (folder / "series.json").write_text(json.dumps({"v": 1, "spec": {"testbed": {"name": "simulated"}}}))
    return folder


def test_simulated_series_are_on_a_page_of_their_own(tmp_path: Path) -> None:
    """With the errors of their costs. A graph needs no run, and what was not simulated may have been run."""
    write(tmp_path / FOLDER / "one", FOUND)
    costs = {"harness_facts": json.dumps({"simulated": {"costs": COSTS}})}
    home, levels = tmp_path / "stela" / "star", {"even_rebalance": 90.0, "stela": 150.0}
    measured = write_series(home / "20260101-000000-aa", "stela/star", levels)
    newer = simulated(write_series(home / "20260102-000000-bb", "stela/star", levels, **costs))
    other = simulated(write_series(home / "20260103-000000-cc", "stela/linear_strategies", levels))
    everything, asked = [measured, newer, other], []
    claim = next(claim for claim in load_claims() if claim.name == "S03")

    def evaluate(folders: Sequence[Path], *, simulated: bool) -> list[LedgerRow]:
        asked.append((simulated, list(folders)))
        given = LedgerRow(claim, 50.0, 49.0, 51.0, 6, NO_VERDICT, "", ())
        return [given] if simulated else nothing_measured(folders)

    text = family_page.write(everything, tmp_path / "report.html", evaluate, left_out=1).read_text()
    assert "This page is about series on machines: 3 simulated series are left out." in text
    assert measured.name in text and newer.name not in text and other.name not in text
    text = family_page.write(everything, tmp_path / "s.html", evaluate, simulated_only=True).read_text()
    assert newer.name in text and measured.name not in text and "left out" not in text
    assert asked == [(False, [measured]), (True, [newer, other])]
    words = " ".join(text.replace("\u00a0", " ").split())
    for part in ("<h1>stela: all experiments, simulated</h1>", "+49 to +51", "throughput after 4.0 % (9.0; −1.0)",
                 "Of 1 statements of the papers the model gives a number of 1."):  # fmt: skip
        assert part in words, part
    ledger = words[words.index("<h2>Ledger") :].split("<h2>")[1]
    assert [each for each in ("reproduced", "differs", "95 %", "Holm") if each in ledger] == []
    assert (tmp_path / "figures").is_dir() and (tmp_path / "figures_simulated").is_dir()
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, flags=re.DOTALL)
    assert "Layout of the topologies" in captions[0] and "ot simulated" not in captions[0]
    assert "Not simulated: stela/linear, stela/diamond." in captions[1]
    assert '<div class="absent">not simulated</div>' in text and "ot run" not in "".join(captions)
    with pytest.raises(ConfigurationError, match="one series or more on machines; the 2 that are given are simulated"):
        family_page.write([newer, other], tmp_path / "x.html", evaluate)


def test_a_panel_beside_simulated_ones_was_not_simulated() -> None:
    panels = (PublishedPanel("stela/star", "a", "throughput"), PublishedPanel("stela/linear", "b", "throughput"))
    line = RateLine("stela-r1", "stela", (0.0,), (1.0,))
    data = SeriesData(("stela",), (line,), (), (), (), (), of_model=True)
    figure = PublishedFigure("SP", "t", "", panels)
    assert "not simulated" in published_figures.chart(figure, {"stela/star": data}).panels[1].message
    measured = published_figures.chart(figure, {"stela/star": replace(data, of_model=False)})
    assert "not run" in measured.panels[1].message


def test_series_that_are_not_there_or_not_analysed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="one series or more"):
        family_page.write([], tmp_path / "x.html", nothing_measured)
    with pytest.raises(ConfigurationError, match="not analysed"):
        family_page.write([tmp_path], tmp_path / "x.html", nothing_measured)


def test_a_series_that_cannot_be_read_is_named_and_the_page_is_of_the_others(tmp_path: Path) -> None:
    levels = {"even_rebalance": 90.0, "stela": 150.0}
    linear, old, new = [
        write_series(tmp_path / name / f"2026010{day}-000000-aa", name, levels)
        for day, name in ((1, "stela/linear"), (2, "stela/star"), (3, "stela/star"))
    ]
    drop_column(new, "runs", "status")
    text = family_page.write([linear, old, new], tmp_path / "family.html", nothing_measured).read_text()
    file = f"stela/star/{new.name}/tables/runs.parquet"
    assert f"1 series could not be read and is not on this page: {file} has no column status; " in text
    assert "2 series looked at" in text and old.name in text, "an older one takes its place"
    with pytest.raises(ConfigurationError, match=f"can be read: stela/star/{new.name}"):
        family_page.write([new], tmp_path / "family.html", nothing_measured)


def test_shipped_figures_are_of_shipped_panels_and_topologies() -> None:
    figures = publications.load_figures(DRAWS)
    panels = [panel for figure in figures for panel in figure.panels]
    assert {panel.topology for panel in panels if panel.draw == "graph"} <= set(catalogue.names())
    assert {panel.draw for panel in panels} == DRAWS | {"graph"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "one key `figures`"),
        ("figures: [{source: a, title: b, caption: c}]", "panels is missing"),
        ("figures: [{source: a, title: b, caption: c, panels: []}]", "panels is []; allowed: "),
        (ONE_PANEL % "pie", "'pie'; allowed"),
        (ONE_PANEL % "graph", "`topology`"),
        ("figures: [{source: a, title: b, caption: c, panels: [{experiment: e, title: t, draw: graph, topology: x}, "
         "{experiment: e, title: t, draw: ranking}]}]", "make two figures"),
        ("figures: [{source: a, title: b, caption: c, panels: [{experiment: e, title: t, draw: ranking}, "
         "{experiment: e, title: t, draw: sweep_emitted, simulated: true}]}]", "panels of sweeps and others"),
        ("figures: [{source: a, title: b, caption: c, colour: red, panels: [{}]}]", "colour"),
    ],
)  # fmt: skip
def test_a_figures_file_that_is_wrong_says_where_and_what_is_allowed(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "figures.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        publications.load_figures(DRAWS, path)
    assert words in str(raised.value) and str(path) in str(raised.value)


def test_a_level_is_the_median_over_runs_and_a_window_that_was_not_measured_has_no_rate(tmp_path: Path) -> None:
    data = series_data.collect(SeriesPaths(write_series(tmp_path / "s", "stela/star", {"stela": 150.0})))
    assert data.level_after("stela") == 152.0 and data.level_after("even") is None
    assert data.totals[0].rates[4] is None
