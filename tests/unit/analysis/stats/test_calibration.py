"""The promises of decision 0010, on few enough simulated comparisons to run with every test."""

from pathlib import Path

import numpy as np
import pytest

from analysis.stats import inference
from tests.calibration import comparisons
from tests.support.compared_series import SideOf, write

NUMBER = 1500
SLACK = 0.017  # three standard errors of a share of 5 % in NUMBER comparisons


@pytest.mark.parametrize("noise", ["normal", "heavy-tailed", "drifting"])
@pytest.mark.parametrize("blocks", [3, 5, 10, 20])
def test_whole_sentences_of_a_code_against_itself_call_a_difference_in_one_of_twenty(noise: str, blocks: int) -> None:
    sides = comparisons.simulate(np.random.default_rng(blocks), NUMBER, 4, blocks, comparisons.NOISES[noise], 0.02)
    assert comparisons.judge_sides(sides).called.any(axis=1).mean() <= comparisons.LEVEL + SLACK


def test_differences_of_ten_percent_are_found() -> None:
    sides = comparisons.simulate(np.random.default_rng(1), NUMBER, 4, 6, comparisons.normal, 0.02, float(np.log(1.1)))
    assert comparisons.judge_sides(sides).called[:, 0].mean() > 0.97


@pytest.mark.parametrize("spread", [0.011, 0.04])
def test_stopping_by_width_keeps_the_level(spread: float) -> None:
    sides = comparisons.simulate(np.random.default_rng(2), NUMBER, 4, 20, comparisons.normal, spread)
    called, blocks = comparisons.until_certain(sides, float(np.log1p(0.05)))
    assert called.mean() <= comparisons.LEVEL + SLACK and 3 <= blocks.min() <= blocks.max() <= 20


def test_stopping_at_the_first_call_would_not_keep_it() -> None:
    """The reason for stopping by width: the simulation does see a rule that is wrong."""
    sides = comparisons.simulate(np.random.default_rng(3), NUMBER, 4, 20, comparisons.normal, 0.04)
    ever = np.zeros(NUMBER, dtype=bool)
    for blocks in range(3, 21):
        ever |= comparisons.judge_sides(comparisons.Sides(sides.a[..., :blocks], sides.b[..., :blocks])).called.any(
            axis=1
        )
    assert ever.mean() > 2 * comparisons.LEVEL


def test_holm_for_many_is_holm_for_one() -> None:
    p = np.random.default_rng(4).random((50, 7)) ** 3
    assert inference.holm(p).tolist() == [inference.holm(row).tolist() for row in p]


def test_the_noise_can_be_that_of_series_on_record(tmp_path: Path) -> None:
    values = (100.0, 104.0, 98.0, 101.0)
    root = write(tmp_path / "s", {"stela": (SideOf({"throughput_after": values}),
                                           SideOf({"throughput_after": values[:2]}))})  # fmt: skip
    found = comparisons.residuals([root])
    assert len(found) == 4  # two runs say nothing about their scatter
    assert np.sqrt(np.square(found).mean()) == pytest.approx(np.log(values).std(ddof=1))
    sides = comparisons.simulate(np.random.default_rng(5), 10, 2, 5, comparisons.noise_from(found), 0.0)
    assert set(np.unique(sides.a)) <= set(found)
