"""Jars of ours: what is used is always what the sources say, and Maven runs only where it must."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barograph import software
from barograph.errors import InfrastructureError
from barograph.settings import ROOT
from inventory.leases.holder import process_start
from playbooks.storm_home import assemble

MAVEN = """#!/bin/sh
# The jar says what it was built of.
folder=$(dirname "$4")
mkdir -p "$folder/target"
cat "$folder/src/main/Bridge.java" > "$folder/target/barograph-nimbus-bridge.jar"
echo built >> "$BAROGRAPH_HOME/calls"
"""


BUILD = "import pathlib, sys; from barograph.software import build_jar; build_jar(pathlib.Path(sys.argv[1]), print)"


def test_a_maven_that_hangs_is_infrastructure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mvn").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "mvn").chmod(0o755)
    (tmp_path / "pom.xml").touch()
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(software, "BUILD_LIMIT_S", 0.2)
    with pytest.raises(InfrastructureError, match=r"package did not end within 0\.2 s; is Maven Central"):
        software.build_jar(tmp_path, print)


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Give the module a source; returns what the jar that is used was built of."""
    module = tmp_path / "nimbus_bridge"
    (module / "src" / "main").mkdir(parents=True)
    (module / "pom.xml").touch()
    (tmp_path / "mvn").write_text(MAVEN)
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path))

    def build(source: str) -> str:
        (module / "src" / "main" / "Bridge.java").write_text(source)
        return software.build_jar(module, print).read_text()

    return build


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def test_maven_runs_once_for_the_same_sources(build: Callable[[str], str], tmp_path: Path) -> None:
    assert [build("one"), build("one")] == ["one", "one"]
    assert calls(tmp_path) == 1


def test_sources_that_change_back_are_what_is_used(build: Callable[[str], str], tmp_path: Path) -> None:
    assert [build(source) for source in ("one", "two", "one", "two")] == ["one", "two", "one", "two"]


def test_a_jar_that_somebody_else_put_there_is_not_used(build: Callable[[str], str], tmp_path: Path) -> None:
    build("one")
    (tmp_path / "nimbus_bridge" / "target" / "barograph-nimbus-bridge.jar").write_text("other")
    assert build("one") == "one"


def test_two_builds_at_once_are_one_after_the_other(build: Callable[[str], str], tmp_path: Path) -> None:
    """Two Mavens in one target/ would leave a jar of neither: the second finds what the first has built."""
    build("one")
    alone = '[ -e "$folder/busy" ] && exit 3; touch "$folder/busy"; sleep 0.5; mkdir'
    (tmp_path / "mvn").write_text(MAVEN.replace("mkdir", alone) + 'rm "$folder/busy"\n')
    (tmp_path / "nimbus_bridge" / "src" / "main" / "Bridge.java").write_text("two")
    argv = [sys.executable, "-c", BUILD, str(tmp_path / "nimbus_bridge")]
    builders = [subprocess.Popen(argv, cwd=ROOT) for _ in range(3)]
    assert [builder.wait() for builder in builders] == [0, 0, 0]
    assert build("two") == "two" and calls(tmp_path) == 2


def test_maven_ends_with_a_builder_that_is_killed(build: Callable[[str], str], tmp_path: Path) -> None:
    """Else it would build on beside the next one, in the same target/."""
    build("one")
    note = f"echo $$ > {tmp_path}/pid.part; mv {tmp_path}/pid.part {tmp_path}/pid"
    (tmp_path / "mvn").write_text(f"#!/bin/sh\n{note}\nexec sleep 60\n")
    (tmp_path / "nimbus_bridge" / "src" / "main" / "Bridge.java").write_text("two")
    with subprocess.Popen([sys.executable, "-c", BUILD, str(tmp_path / "nimbus_bridge")], cwd=ROOT) as builder:
        while not (tmp_path / "pid").exists():
            time.sleep(0.02)  # pytest's timeout ends a wait in vain
        builder.kill()
    while process_start(int((tmp_path / "pid").read_text())):
        time.sleep(0.02)


def test_the_lock_of_a_build_is_not_in_what_is_cleaned(build: Callable[[str], str], tmp_path: Path) -> None:
    """Who removes target/ during a build would let a second one in."""
    build("one")
    shutil.rmtree(tmp_path / "nimbus_bridge" / "target")
    makefile = (ROOT / "Makefile").read_text()
    cleaned = next(line for line in makefile.splitlines() if line.startswith("BUILT :=")).split()
    for module in (software.BRIDGE, software.TOPOLOGIES):
        lock = str((module / software.LOCK).relative_to(ROOT))
        assert not any(lock.startswith(f"{folder}/") for folder in cleaned)
        assert lock in makefile, "sudo's are given back"
    assert (tmp_path / "nimbus_bridge" / software.LOCK).exists()


def test_a_changed_jar_is_another_home_beside_the_first(tmp_path: Path) -> None:
    home, jar, homes = tmp_path / "storm-home-1", tmp_path / "bridge.jar", tmp_path / "homes"
    for folder in ("lib", "extlib-daemon", "cds"):
        (home / folder).mkdir(parents=True)
    versions = []
    for source in ("one", "two"):
        jar.write_text(source)
        made = assemble.complete_home(home, None, [jar], homes)
        versions.append(json.loads((made / "VERSION").read_text())["contents"])
    assert len(set(versions)) == 2
    assert sorted(path.name for path in homes.iterdir()) == sorted(f"storm-{name}" for name in versions)
