"""One place reads the environment."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = sorted(path for folder in ("barograph", "dags") for path in (ROOT / folder).rglob("*.py"))


def reads(source: str) -> Iterator[int]:
    """Lines that name `os.environ` or `os.getenv`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (node.lineno for name in node.names if name.name in ("environ", "getenv"))


@pytest.mark.parametrize(
    "source", ["import os\nos.environ['X']", "from os import environ", "import os\nos.getenv('X')"]
)
def test_a_read_is_seen(source: str) -> None:
    assert list(reads(source))


def test_only_the_settings_read_the_environment() -> None:
    readers = {str(path.relative_to(ROOT)) for path in FILES if list(reads(path.read_text(encoding="utf-8")))}
    assert readers == {"barograph/settings.py"}
