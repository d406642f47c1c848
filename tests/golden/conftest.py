"""Series that several files of tests look at, each from its raw lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from tests.golden import beside_another, one_pass, placed_anew, scale_in, several, simulated_star
from tests.golden.series import GoldenSeries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def in_one_pass(
    golden_series: GoldenSeries, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Mapping[str, GoldenSeries]:
    """Small series by name, analysed together: nobody changes them."""
    folder = tmp_path_factory.mktemp("one_pass")
    written = ("scale_in", "placed_anew", "placed_anew_uncounted", "beside_another", "several")
    roots = {name: folder / name for name in written}
    scale_in.write_series(roots["scale_in"])
    placed_anew.write_series(roots["placed_anew"])
    placed_anew.write_series(roots["placed_anew_uncounted"], ackers_counted=False, with_traffic=False)
    beside_another.write_series(roots["beside_another"], golden_series.root)
    several.write_series_with_others(roots["several"])
    roots["star"] = simulated_star.simulate(folder / "second")
    roots["star_in_long_lines"] = simulated_star.simulate(folder / "long", sample_s=10)
    one_pass.analyse(spark, folder / "together", roots)
    return {name: GoldenSeries(root, spark, {}) for name, root in roots.items()}
