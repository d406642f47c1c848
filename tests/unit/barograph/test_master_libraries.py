"""Python packages for masters: what is pinned, fetched once, merged for every Python, and a note where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph import software

REQUIREMENTS = """# a comment
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:00
    # via barograph
pymetis==2025.2.2 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via barograph (pyproject.toml)
typing-extensions==4.16.0 \\
    --hash=sha256:cc
    # via
    #   pymetis
zipp==1.0 \\
    --hash=sha256:dd
"""
UV = """#!/bin/sh
# Puts a module for the Python that is asked for into the target; says that it was called.
while [ $# -gt 0 ]; do
    case "$1" in
        --python-version) python=$2 ;;
        --target) target=$2 ;;
        --requirements) requirements=$2 ;;
    esac
    shift
done
grep -q 'sha256:bb' "$requirements" || exit 3
echo "$python" >> "$CALLS"
[ "$python" != "$FAILS" ] || { echo "no wheel for $python"; exit 1; }
mkdir -p "$target/pymetis/__pycache__"
touch "$target/pymetis/__init__.py" "$target/pymetis/_internal.cpython-$python.so" "$target/pymetis/__pycache__/x.pyc"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stand-in for uv was asked for, a line a Python."""
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setattr(software, "REQUIREMENTS", tmp_path / "requirements.txt")
    monkeypatch.setattr(software, "UV", tmp_path / "uv")
    monkeypatch.setenv("BAROGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("FAILS", "")
    return tmp_path / "calls"


def test_the_lines_of_a_package_are_those_with_its_hashes() -> None:
    path = Path(software.__file__).parents[1] / "requirements.txt"
    lines = software.pinned_lines(software.LIBRARIES, path).splitlines()
    assert [line.partition("==")[0] for line in lines if "==" in line] == ["pymetis", "typing-extensions"]
    assert sum("--hash=sha256:" in line for line in lines) > 8 and not [line for line in lines if "#" in line]


def test_compiled_parts_of_all_pythons_come_into_one_folder_once(calls: Path) -> None:
    assert software.libraries_folder() is None
    folder = software.fetch_libraries(print)
    assert folder is not None and "pymetis-2025.2.2-typing-extensions-4.16.0" in folder.name
    assert {path.name for path in (folder / "pymetis").iterdir()} == {
        "__init__.py", *(f"_internal.cpython-{python}.so" for python in software.PYTHONS),
    }  # fmt: skip
    assert software.fetch_libraries(print) == folder == software.libraries_folder()
    assert calls.read_text().split() == list(software.PYTHONS)


def test_what_cannot_be_fetched_is_a_note_and_leaves_nothing(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", "3.13")
    said: list[str] = []
    assert software.fetch_libraries(said.append) is None
    assert said == [
        "note: pymetis for Python 3.13 could not be fetched: no wheel for 3.13; the policy metis will refuse on"
        " machines until set-up has fetched pymetis"
    ]
    assert list((calls.parent / "cache").iterdir()) == []
    monkeypatch.setattr(software, "UV", calls.parent / "none")
    software.fetch_libraries(said.append)
    assert "none is not there (make setup)" in said[1]
