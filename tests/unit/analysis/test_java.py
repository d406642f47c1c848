"""Which Java Spark would start, asked without starting it."""

from pathlib import Path

import pytest

from analysis import java
from analysis.errors import JavaMissing


def java_in(folder: Path) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    return program


def test_that_of_java_home_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_box, own = java_in(tmp_path / "box"), java_in(tmp_path / "own")
    monkeypatch.setenv("PATH", str(of_box.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java.program() == str(of_box)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    assert java.program() == str(own)


def test_a_box_without_one_and_a_java_home_without_one_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissing, match="there is none here: apt-get install"):
        java.require()
    monkeypatch.setenv("PATH", str(java_in(tmp_path / "box").parent))
    java.require()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=f"there is none in {tmp_path}, which JAVA_HOME names"):
        java.require()
