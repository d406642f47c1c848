"""A test that is skipped unless somebody asks for it is told of, with what covers its parts."""

from pathlib import Path

LONG = "pytest.mark." + "long"


def test_every_long_test_is_in_the_documents(repository: Path) -> None:
    told = (repository / "docs" / "architecture.md").read_text()
    marked = {path for path in (repository / "tests").rglob("*.py") if LONG in path.read_text()}
    assert marked, "the mark is in use"
    assert sorted(str(path.relative_to(repository)) for path in marked) == sorted(
        line.split("`")[1] for line in told.splitlines() if line.startswith("| `tests/")
    )
