"""docs/extending.md is true of a policy: its file, its line and its test are all that a new policy needs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
OVER_ALL = ("test_every_policy.py", "test_initial_placement.py", "test_documented.py", "test_policies_are_pure.py")
POLICIES, CONTRACT = Path("tests/unit/scheduler_plugins/policies"), Path("tests/contract")
SUPPORT = Path("tests/support")
FOLDERS = (Path("scheduler_plugins"), Path("topologies"), Path("docs"), CONTRACT / "schedule_cases")
FILES = (
    *(folder / "__init__.py" for folder in (Path("tests"), SUPPORT, *POLICIES.parents[:2], POLICIES, CONTRACT)),
    *(POLICIES / name for name in OVER_ALL),
    SUPPORT / "topologies_by_hand.py",
    CONTRACT / "test_schedule_cases.py",
)
# As tests/conftest.py, which is not copied, has it: a busy box makes any example slow.
NO_DEADLINE = """
from hypothesis import settings
settings.register_profile("barograph", deadline=None)
settings.load_profile("barograph")


def examples(at_night):
    return settings(max_examples=at_night // 4)
"""


def blocks() -> tuple[str, str, str]:
    """The file, line and test of the page's policy."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    part = page.partition("## A policy\n")[2].partition("\n## ")[0]
    file, line, test = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    return file, line, test


def test_one_file_one_line_one_test(tmp_path: Path) -> None:
    file, line, test = blocks()
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("target", "__pycache__"))
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    (tmp_path / "scheduler_plugins" / "policies" / "busiest.py").write_text(file)
    (tmp_path / POLICIES / "test_busiest.py").write_text(test)
    (tmp_path / "tests" / "conftest.py").write_text(NO_DEADLINE)
    registry = tmp_path / "scheduler_plugins" / "policies" / "__init__.py"
    text = registry.read_text()
    text = text.replace("policies import (", "policies import (\n    busiest,", 1)
    text = text.replace('    "even": PolicyEntry(', f'{line}    "even": PolicyEntry(', 1)
    assert "busiest.decide" in text and "    busiest,\n" in text
    registry.write_text(text)
    tests = [str(POLICIES), str(CONTRACT), "-k", "busiest"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--hypothesis-seed=0",
        *tests,
    ]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) > 10, done.stdout
