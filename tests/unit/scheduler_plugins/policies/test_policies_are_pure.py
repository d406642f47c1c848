"""A policy is a function of what it is given: no clock, no files, no network, no randomness but a seeded one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import scheduler_plugins

PACKAGE = Path(scheduler_plugins.__file__).parent
PROCESS = "metis_process.py"  # begins one, whose answer depends on what it is given; METIS may end where it computes
FILES = sorted([*(path for path in (PACKAGE / "policies").glob("*.py") if path.name != PROCESS), PACKAGE / "model.py"])
# What the master has besides the standard library's pure parts: numpy, pymetis.
PURE = {"__future__", "abc", "array", "bisect", "collections", "collections.abc", "copy", "dataclasses", "enum",
        "fractions", "functools", "heapq", "itertools", "json", "math", "numbers", "operator", "re", "statistics",
        "string", "types", "typing", "numpy", "numpy.typing", "pymetis", "scheduler_plugins.model",
        "scheduler_plugins.service_level"}  # fmt: skip
SEEDED = {"random": {"Random"}, "numpy.random": {"Generator", "default_rng"}}
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"}


def impurities(source: str) -> list[str]:
    return [problem for node in ast.walk(ast.parse(source)) for problem in _problems(node)]


def _problems(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"import {each.name}" for each in node.names if each.name not in PURE)
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        ours = module == "scheduler_plugins.policies" or module.startswith("scheduler_plugins.policies.")
        allowed = SEEDED.get(module, set())
        if module not in PURE and not ours and not node.level:
            yield from (f"from {module} import {each.name}" for each in node.names if each.name not in allowed)
        elif module == "numpy":
            yield from ("from numpy import random" for each in node.names if each.name == "random")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
        yield f"{node.func.id}()"
    elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random"):
        if node.attr not in SEEDED["numpy.random"]:
            yield ast.unparse(node)
    elif isinstance(node, ast.Call) and not node.args and ast.unparse(node.func).endswith(("Random", "default_rng")):
        yield f"{ast.unparse(node)} without a seed"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_policy_reads_no_clock_and_touches_nothing(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "from datetime import datetime",
        "import random",
        "from random import choice",
        "import os.path",
        "from socket import create_connection",
        "import logging",
        "from scheduler_plugins.service import state",
        "from scheduler_plugins.service.samples import Samples",
        "rng = Random()",
        "x = np.random.normal()",
        "from numpy import random",
        "open('x')",
    ],
)
def test_what_is_not_pure_is_noticed(line: str) -> None:
    assert len(impurities(line)) == 1


@pytest.mark.parametrize(
    "line",
    ["from random import Random", "rng = Random(7)", "np.random.default_rng(seed)", "from math import fsum",
     "from scheduler_plugins.policies import scaling", "import numpy as np"],
)  # fmt: skip
def test_what_is_pure_passes(line: str) -> None:
    assert impurities(line) == []
