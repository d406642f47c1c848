"""docs/testbeds.md is true: its file, its line and its site are all that a new testbed needs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("inventory", "tests/contract", "tests/support")
FILES = ("pyproject.toml", "tests/__init__.py")
HERE = Path("tests/contract")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product's inventory and the contract tests, with the page's file and line."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    (tree / HERE / Path(__file__).name).unlink()
    file, line, _ = blocks()
    (tree / "inventory" / "mine.py").write_text(file)
    registry = tree / "inventory" / "__init__.py"
    text = registry.read_text()
    text = text.replace("from inventory.local", "from inventory.mine import MineTestbed\nfrom inventory.local", 1)
    text = text.replace('    "simulated": SimulatedTestbed,\n', f'    "simulated": SimulatedTestbed,\n{line}', 1)
    assert "mine import" in text and '"mine":' in text
    registry.write_text(text)
    return tree


RUN = """
from barograph.machines.provision import provision, release
from barograph.testbeds.checks import check
from barograph.plan.experiment import load, with_changes
from barograph.series.run_record import read_run
from barograph.series.series import open_series
from barograph.campaign.steps import deploy, do_run

experiment = with_changes(load("stela/star"), {"testbed": "mine", "demo": True, "variants": ["even_rebalance"]})
check(experiment)
folder = open_series(experiment, new=True).folder
provision(folder)
deploy(folder)
run = do_run(folder)
release(folder)
print(read_run(folder / "runs" / run)["status"])
"""


def blocks() -> tuple[str, str, str]:
    """The page's file, line and site."""
    page = (ROOT / "docs" / "testbeds.md").read_text(encoding="utf-8")
    file, line, site = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return file, line, site


def contract(tree: Path) -> str:
    """What pytest says of the contract tests of the new testbed."""
    tests = [str(HERE / f"test_testbed_{name}.py") for name in ("contract", "abilities")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "mine", *tests]
    paths = {"PYTHONPATH": f"{tree}:{ROOT}"}  # the rest of the product is this tree's
    done = subprocess.run(command, cwd=tree, env={**os.environ, **paths}, capture_output=True, text=True)
    return done.stdout


def test_a_testbed_without_a_site_is_named(tree: Path) -> None:
    said = contract(tree)
    assert "testbed mine of TESTBEDS has no site: add one to SITES in tests/contract/sites.py" in said
    assert "KeyError" not in said and " passed" not in said


def test_one_file_one_line_one_site(tree: Path) -> None:
    _, _, site = blocks()
    sites = tree / HERE / "sites.py"
    text = sites.read_text()
    text = text.replace("from inventory.machines", "from inventory.mine import MineTestbed\nfrom inventory.machines", 1)
    sites.write_text(text.replace("WITHOUT_SITE =", f"{site}\nWITHOUT_SITE =", 1))
    said = contract(tree)
    assert re.search(r"\b(\d\d) passed", said) and "failed" not in said, said[-4000:]


def test_the_harness_runs_experiments_on_it(tree: Path, tmp_path: Path) -> None:
    folders = {f"BAROGRAPH_{name}": str(tmp_path / name.lower()) for name in ("STATE", "RESULTS", "HOME")}
    environment = {**os.environ, **folders, "PYTHONPATH": f"{tree}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["complete"], done.stderr[-3000:]
