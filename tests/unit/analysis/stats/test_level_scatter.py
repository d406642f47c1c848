"""Scatter of levels on record (`bench.statistics.level_scatter`)."""

import numpy as np
import pytest

from bench.statistics import level_scatter
from bench.statistics.level_scatter import RUNS, beside_variants, by_runs_alone, in_blocks, of_means, recorded_levels

TABLE = """\
block,date,experiment,variant,throughput_before,steady_before,throughput_after
1,2026-11-24,stela/star,even,100.0,yes,90.0
1,2026-11-24,stela/star,stela,104.0,no,200.5
2,2026-11-25,stela/star,even,110.0,yes,91.0
2,2026-11-25,stela/star,stela,111.0,yes,210.0
3,2026-11-25,settings/interruption,even,99.0,yes,90.0
3,2026-11-25,settings/interruption,stela_stock_jvm,50.0,no,90.0
3,2026-11-25,settings/interruption,stela,98.0,yes,205.0
""".splitlines()


def test_runs_of_the_same_setting_are_together_and_others_left_out() -> None:
    ((name, blocks),) = level_scatter.settings(recorded_levels(TABLE)).items()
    assert name == "stela/star"
    assert [[run.before for run in block] for block in blocks] == [[100.0, 104.0], [110.0, 111.0], [99.0, 98.0]]
    assert level_scatter.levels_after(blocks).tolist() == [[90.0, 91.0, 90.0], [200.5, 210.0, 205.0]]


def test_the_record_is_read_whole() -> None:
    runs = recorded_levels(RUNS.read_text(encoding="utf-8").splitlines())
    assert len(runs) >= 31 and len(level_scatter.settings(runs)["stela/star"]) >= 4
    assert all(run.before > 0 < run.after for run in runs)


@pytest.mark.parametrize(("of_block", "runs"), [(0.0, 2), (0.0, 4), (0.05, 3)])
def test_scatter_is_what_was_put_in(of_block: float, runs: int) -> None:
    """And a variant's and a block's own level is no part of a run's."""
    rng = np.random.default_rng(1)
    blocks = 100 * np.exp(of_block * rng.normal(size=(400, 1)) + 0.02 * rng.normal(size=(400, runs)))
    found, means = in_blocks(blocks.tolist()), of_means(blocks.tolist())
    assert found is not None and means is not None
    assert (found.freedom, means.freedom) == (400 * (runs - 1), 399)
    assert found.percent == pytest.approx(2.0, rel=0.1)
    assert means.percent == pytest.approx(100 * np.sqrt(of_block**2 + 0.02**2 / runs), rel=0.1)
    assert by_runs_alone(blocks.tolist()) == pytest.approx(2.0 / np.sqrt(runs), rel=0.1)
    beside = beside_variants(blocks.T * np.linspace(1.0, 3.0, runs)[:, None])
    assert beside is not None and beside.freedom == 399 * (runs - 1)
    assert beside.percent == pytest.approx(2.0, rel=0.1)


@pytest.mark.long
def test_the_interval_of_a_scatter_covers_what_was_put_in() -> None:
    rng = np.random.default_rng(2)
    found = [in_blocks(np.exp(0.03 * rng.normal(size=(2, 3))).tolist()) for _ in range(600)]
    covered = [each.interval()[0] <= 3.0 <= each.interval()[1] for each in found if each is not None]
    assert len(covered) == 600 and np.mean(covered) == pytest.approx(0.95, abs=0.03)


def test_one_run_of_a_block_or_one_block_say_nothing() -> None:
    assert in_blocks([[100.0], [110.0]]) is None is by_runs_alone([[100.0], [110.0]])
    assert of_means([[100.0, 110.0]]) is None
    assert beside_variants(np.array([[100.0], [110.0]])) is None
