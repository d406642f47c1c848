"""docs/extending.md is true of a kind of event: its file, its line and its example are all that a new kind needs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("barograph", "dags", "analysis", "inventory", "playbooks", "scheduler_plugins", "topologies")
RUN = Path("tests/unit/barograph/run")
TESTS = (
    "pyproject.toml",
    *(f"{folder}/__init__.py" for folder in (RUN, *RUN.parents[:-1])),
    "tests/unit/barograph/conftest.py",
    f"{RUN}/conftest.py",
    f"{RUN}/test_every_event_kind.py",
)


def blocks() -> tuple[str, str, str]:
    """The file, line and example of the page's kind."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    part = page.partition("## A kind of event\n")[2].partition("\n## ")[0]
    file, line, example = re.findall(r"```(?:python|yaml)\n(.*?)```", part, re.DOTALL)
    return file, line, example


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The product and the tests of every kind."""
    for folder in PRODUCT:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("target", "__pycache__"))
    for name in TESTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("docs", "tests/support"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def add_line(path: Path, line: str, before: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, f"{line}{before}", 1), encoding="utf-8")


def add_kind(tree: Path) -> None:
    file, line, _ = blocks()
    events = tree / "barograph" / "plan" / "events"
    (events / "burst.py").write_text(file, encoding="utf-8")
    kinds = events / "__init__.py"
    add_line(kinds, "from barograph.plan.events.burst import Burst\n", "from barograph.plan.events.kind")
    add_line(kinds, line, '    "crash": faults.Crash,\n')


def run_tests(tree: Path) -> subprocess.CompletedProcess[str]:
    tests = str(RUN / "test_every_event_kind.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-k", "burst", tests]
    environment = {"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)


def test_one_file_one_line_one_example(tree: Path) -> None:
    add_kind(tree)
    page = tree / "docs" / "experiments.md"
    add_line(page, "| `burst` | `factor`, `duration_s` | the rate is raised for a while | the call |\n", "| `crash` |")
    add_line(page, blocks()[2], "  - {kind: crash")
    done = run_tests(tree)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "2 passed" in done.stdout


def test_a_kind_without_an_example_is_named(tree: Path) -> None:
    add_kind(tree)
    assert "burst of KINDS has no example in" in run_tests(tree).stdout
