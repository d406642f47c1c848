"""Published figures and tables as data."""

from pathlib import Path

import pytest

from analysis.claims.publications import families_of, load_figures, load_tables
from analysis.claims.statements import load_claims
from analysis.report.family_page import DRAWS
from barograph.errors import ConfigurationError
from barograph.plan import experiment, sweep


def test_whose_page_an_experiment_is_on() -> None:
    assert families_of(["metis/payload"]) == ("metis",) == families_of(["metis/payload_size"])
    assert families_of(["stela/star", "cost_models/page_load_busy"]) == ("stela",)
    assert families_of(["metis/payload", "stela/star"]) == ("stela", "metis")
    assert families_of(["henge/diurnal"]) == ("henge",) == families_of(["henge/linear_levels"])
    assert families_of(["dodo/extreme"]) == ("dodo",)
    assert families_of(["small/star"]) == ("stela", "metis", "henge", "dodo"), "nobody's: all"


def test_what_is_drawn_of_sweeps_is_a_sweep_that_ships_and_what_is_not_an_experiment() -> None:
    shipped, swept = set(experiment.names()), set(sweep.names())
    for figure in load_figures(DRAWS, families=["metis"]):
        for panel in figure.panels:
            assert panel.experiment in (swept if panel.simulated else shipped), panel
            assert panel.simulated == panel.draw.startswith("sweep_")
    for claim in load_claims("metis"):
        known = swept if claim.simulated else shipped | {"exact"}
        assert claim.experiment in known, claim.name


def test_table_1_has_every_number_of_the_paper_once() -> None:
    real, simulated = load_tables(["metis"])
    cells = [cell for _, row in simulated.rows for cell in row]
    assert len(cells) == len(set(cells)) == 36 and simulated.simulated and not real.simulated
    of_table = {claim.name for claim in load_claims("metis") if claim.source == "MP table I"}
    at_10 = {cell for _, row in real.rows for cell in row}
    assert of_table == {*cells, *(cell for cell in at_10 if cell.startswith("M06/"))} and len(at_10) == 12


@pytest.mark.parametrize(
    ("rows", "words"),
    [("{A: [S03]}", "row A has 1 cells"), ("{A: [S03, Z99]}", "row A names Z99, which is no claim")],
)
def test_a_table_of_something_else_says_what_is_wrong(tmp_path: Path, rows: str, words: str) -> None:
    path = tmp_path / "figures.yaml"
    path.write_text(f"figures: []\ntables: [{{source: a, title: b, caption: c, columns: [x, y], rows: {rows}}}]")
    with pytest.raises(ConfigurationError, match=words):
        load_tables(["stela"], path)
