"""The golden series as a bundle: moved elsewhere, made again from its raw lines by another process, and equal."""

import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis import provenance
from analysis.record.files import SeriesPaths
from analysis.report import series_page
from barograph import cli
from tests.golden.series import GoldenSeries
from tests.support import bundled_series as packed

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
SERIES = "20261121-000000-abcdef01"


@pytest.fixture(scope="module")
def results(golden_series: GoldenSeries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    folder = root / "stela" / "star" / SERIES
    shutil.copytree(golden_series.root, folder)
    runs = sorted(run.name for run in (folder / "runs").iterdir())
    document = {"v": 1, "series_id": SERIES, "experiment": "stela/star", "spec": {"title": "Golden"}, "runs": runs}
    (folder / "series.json").write_text(json.dumps(document))
    series_page.build_report(folder)  # it tells the title
    provenance.write_provenance(SeriesPaths(folder), golden_series.spark, provenance.code_digests())
    return root


def bundled(results: Path, target: Path, of: str) -> Path:
    """Unpacked in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_RESULTS", str(results))
        assert cli.main(["bundle", of, "--to", str(target / "a.tar.gz")]) == 0
    return packed.unpacked(target / "a.tar.gz", target / "moved")


@pytest.fixture
def in_a_warm_jvm(spark_variables: dict[str, str], tmp_path: Path) -> str:
    """A Python with the packages, whose Spark need not be started: a bundle's script hands on no variables of ours."""
    named = " ".join(f"{name}={value}" for name, value in spark_variables.items())
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec env {named} {sys.executable} "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_of_a_series_made_again_only_the_value_differs_that_its_raw_lines_do_not_say(
    results: Path, tmp_path: Path
) -> None:
    """The bundle is whole, and claims in one column what was not measured; everything else is equal."""
    folder = bundled(results, tmp_path, SERIES)
    rows = claim_a_second_more(folder, "downtime", "downtime_s")
    done = packed.remake(folder, tmp_path, "--python", sys.executable, "--to", str(tmp_path / "again"))
    assert done.returncode == 1, done.stdout + done.stderr
    (difference,) = [line for line in done.stdout.splitlines() if line.startswith("differs: ")]
    assert difference.startswith(f"differs: table downtime: {rows} of {rows} values of downtime_s differ")
    assert "no raw lines" not in done.stdout
    remade = tmp_path / "again" / SERIES / "tables" / "measurements.parquet"
    assert pq.read_table(remade).num_rows > 100, "it was computed, not copied"


# Shorter: the test above, and tests/unit/analysis/bundle/test_bundle.py::test_a_run_is_its_series_reduced_to_it.
@pytest.mark.long
def test_one_run_is_made_again_and_equal(results: Path, tmp_path: Path, in_a_warm_jvm: str) -> None:
    folder = bundled(results, tmp_path, f"{SERIES}/stela-r1")
    assert [run.name for run in (folder / "series" / "runs").iterdir()] == ["stela-r1"]
    done = packed.remake(folder, tmp_path, "--python", in_a_warm_jvm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nequal: " in done.stdout


def claim_a_second_more(folder: Path, name: str, column: str) -> int:
    """Rows of the table."""
    (part,) = (folder / "series" / "tables" / f"{name}.parquet").glob("*.parquet")
    table = pq.read_table(part)
    place = table.schema.get_field_index(column)
    told = [value + 1.0 for value in table[column].to_pylist()]
    pq.write_table(table.set_column(place, table.schema.field(place), [told]), part)
    packed.sign_again(folder, part.relative_to(folder).as_posix())
    return int(table.num_rows)
