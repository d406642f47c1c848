"""Tests find the programs of the packages that set-up declares, and no others."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from inventory.local import preflight
from tests.support import programs


@pytest.fixture(scope="module")
def linking() -> ModuleType:
    """The program of set-up that makes the tests' PATH."""
    file = programs.STATE.parent / ".ci" / "programs.py"
    spec = importlib.util.spec_from_file_location("linking", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["linking"] = module
    spec.loader.exec_module(module)
    return module


def test_tests_find_declared_programs_and_no_others() -> None:
    beside, links = os.environ["PATH"].split(os.pathsep)
    assert Path(beside) == Path(sys.executable).parent and Path(links) == programs.LINKS
    found = {name: shutil.which(name) for name in (*programs.CALLED, *preflight.PROGRAMS)}
    assert all(found.values()), found
    others = {path.name for folder in ("/usr/bin", "/usr/sbin", "/usr/local/bin") for path in Path(folder).iterdir()}
    others -= {path.name for path in (*Path(beside).iterdir(), *Path(links).iterdir())}
    assert {shutil.which(name) for name in others} <= {None}
    assert "apt-get" in others, "apt is not Essential: set-up calls it, tests do not"
    with pytest.raises(FileNotFoundError):
        subprocess.run(["apt-get", "--version"])


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(pytest.UsageError, match=r"tests call nowhere, which no declared package has: .*\.ci/bootstrap"):
        programs.path(called=("sh", "nowhere"))
    with pytest.raises(pytest.UsageError, match=r"is missing: run \.ci/bootstrap"):
        programs.path(tmp_path / "path")


def test_a_declared_package_that_is_missing_is_named(
    linking: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert linking.main([str(tmp_path / "path"), "bash", "no-such-package"]) == 4
    assert "not installed: no-such-package; run .ci/bootstrap" in capsys.readouterr().err
    assert not (tmp_path / "path").exists()


def test_links_are_those_of_the_closure_and_of_essential_packages(linking: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "stale").symlink_to("/usr/bin/true")
    assert linking.main([str(folder), "openssh-client"]) == 0
    assert (folder / "ssh").exists() and (folder / "sh").exists()
    assert not (folder / "podman").exists() and not (folder / "stale").is_symlink()
    before = sorted(folder.iterdir())
    assert linking.main([str(folder), "openssh-client"]) == 0 and sorted(folder.iterdir()) == before


def test_an_alternative_is_chosen_as_apt_does(linking: ModuleType) -> None:
    def package(name: str, depends: str = "", provides: str = "", essential: bool = False) -> object:
        return linking.Package(name, essential, linking._depends(depends), linking._names(provides))

    everything = [
        package("maven", "java (>= 8) | java-runtime, libx:any"),
        package("jre", provides="java-runtime"),
        package("libx", "second | first"),
        package("first"),
        package("second"),
        package("sh", essential=True),
        package("beside"),
    ]
    packages = {one.name: one for one in everything}  # type: ignore[attr-defined]  # a module that was loaded by its path
    assert linking.closure(packages, ["maven"]) == {"maven", "jre", "libx", "second", "sh"}
    del packages["jre"]
    with pytest.raises(linking.NotInstalled, match=r"java \| java-runtime"):
        linking.closure(packages, ["maven"])
