"""The Storm home: what its commands say, how homes are put together, how its two scripts call Java."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from barograph.errors import ConfigurationError, InfrastructureError
from playbooks.storm_home import assemble, commands
from playbooks.storm_home.class_data import class_path, java_build

ECHO = '#!/bin/sh\nfor a do printf "%s\\n" "$a"; done\n'
HEAP = "-Xmx{}m"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with empty jars, whose names are not in the order in which the folder lists them."""
    home = tmp_path / "storm-home-abc"
    for name in ("lib/b.jar", "lib/a.jar", "lib/C.jar", "lib-worker/w.jar", "lib-worker/V.jar", "lib-flux/f.jar"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    for folder in ("extlib-daemon", "cds"):
        (home / folder).mkdir()
    for name, place in assemble.FILE_PLACES.items():
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_bytes((assemble.FILES / name).read_bytes())
        (home / place).chmod(0o755)
    (home / "VERSION").write_text("{}")
    return home


@pytest.fixture
def java(tmp_path: Path) -> Callable[[list[str]], list[str]]:
    """Runs a command whose Java only says what it was given."""
    (tmp_path / "java").write_text(ECHO)
    (tmp_path / "java").chmod(0o755)

    def run(command: list[str]) -> list[str]:
        environment = {**os.environ, "BAROGRAPH_JAVA": str(tmp_path / "java"), "LANG": "C.UTF-8"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return run


def at(home: Path, *names: str) -> str:
    return ":".join(f"{home}/{name}" for name in names)


def test_libraries_are_spelled_out_in_byte_order(home: Path, java: Callable[[list[str]], list[str]]) -> None:
    said = java([f"{home}/bin/run", "zookeeper", "/conf", "-Xmx32m", "Main"])
    assert said == ["-cp", at(home, "lib/C.jar", "lib/a.jar", "lib/b.jar") + ":/conf", "-Xmx32m", "Main"]


def test_archives_are_trained_on_the_class_path_that_is_run(home: Path, java: Callable[[list[str]], list[str]]) -> None:
    for archive in ("zookeeper", "nimbus", "supervisor", "flux"):
        said = java([f"{home}/bin/run", archive, "/conf", "Main"])
        assert said[1].removesuffix(":/conf").replace(str(home), commands.HOME) == class_path(home, archive)


def test_nimbus_has_the_schedulers_jars_after_the_libraries(home: Path, java: Callable[[list[str]], list[str]]) -> None:
    (home / "extlib-daemon/bridge.jar").touch()
    said = java([f"{home}/bin/run", "nimbus", "/conf", "Main"])
    assert said[1].endswith(at(home, "lib/b.jar", "extlib-daemon/bridge.jar") + ":/conf")
    assert "bridge.jar" not in java([f"{home}/bin/run", "supervisor", "/conf", "Main"])[1]


def test_an_archive_is_used_where_there_is_one(home: Path, java: Callable[[list[str]], list[str]]) -> None:
    (home / "cds/nimbus.jsa").touch()
    said = java([f"{home}/bin/run", "nimbus", "/conf", "Main"])
    assert said[2:] == ["-Xshare:auto", f"-XX:SharedArchiveFile={home}/cds/nimbus.jsa", "Main"]


def worker_command(home: Path, artifacts: Path) -> list[str]:
    """As Storm 2.8.3's BasicContainer makes it."""
    java = f"{home}/supervisor-java/bin/java"
    path = ["-cp", f"{home}/lib-worker/*:{home}/extlib/*:/conf:/state/stormjar.jar"]
    common = [f"-Dworkers.artifacts={artifacts}", "-Dstorm.id=star-1-1", "-Dworker.port=6700", "-Dspace=a b"]
    writer = [java, *path, "-Xmx64m", *common, "-Dlog4j.configurationFile=w.xml", "org.apache.storm.LogWriter"]
    worker = [java, "-server", *common, "-Xmx32m", *path, "org.apache.storm.daemon.worker.Worker", "star-1-1", "id"]
    return [*writer, *worker]


def test_a_worker_is_started_without_its_log_writer(home: Path, java: Callable[[list[str]], list[str]]) -> None:
    folder = home / "artifacts/star-1-1/6700"
    folder.mkdir(parents=True)
    assert java(worker_command(home, home / "artifacts")) == []
    said = (folder / "worker.out").read_text().splitlines()
    assert said[0] == "-server"
    assert "-Dspace=a b" in said
    assert "-Xmx64m" not in said
    libraries = at(home, "lib-worker/V.jar", "lib-worker/w.jar")
    assert said[said.index("-cp") + 1] == f"{libraries}:{home}/extlib/*:/conf:/state/stormjar.jar"
    assert said[-3:] == ["org.apache.storm.daemon.worker.Worker", "star-1-1", "id"]
    assert libraries.replace(str(home), commands.HOME) == class_path(home, "worker")


def test_the_output_of_the_worker_before_is_kept(home: Path, java: Callable[[list[str]], list[str]]) -> None:
    folder = home / "artifacts/star-1-1/6700"
    folder.mkdir(parents=True)
    (folder / "worker.out").write_text("crashed")
    java(worker_command(home, home / "artifacts"))
    assert (folder / "worker.out.1").read_text() == "crashed"


def test_any_other_java_is_left_alone(home: Path, java: Callable[[list[str]], list[str]]) -> None:
    assert java([f"{home}/supervisor-java/bin/java", "-cp", "x", "Main"]) == ["-cp", "x", "Main"]


@pytest.mark.parametrize(("memory_mb", "expected"), [(256, 96), (1024, 128), (65536, 1024)])
def test_heaps_grow_with_the_machine(memory_mb: int, expected: int) -> None:
    assert commands.jvm_flags("nimbus", memory_mb)[0] == HEAP.format(expected)


def test_workers_share_a_quarter_of_the_machine() -> None:
    assert commands.worker_childopts(1024, 4).split()[0] == HEAP.format(64)
    assert commands.worker_childopts(512, 4).split()[0] == HEAP.format(32)
    assert "TieredStopAtLevel" not in commands.worker_childopts(16384, 4)


def test_commands_name_the_home_the_archive_and_the_main_class() -> None:
    command = commands.daemon_command("zookeeper", 512)
    assert command[:3] == ["/opt/barograph/storm/bin/run", "zookeeper", "/etc/barograph/storm"]
    assert command[-2:] == [commands.MAIN_CLASS["zookeeper"], "/etc/barograph/storm/zoo.cfg"]
    assert commands.environment("supervisor")["JAVA_HOME"] == "/opt/barograph/storm/supervisor-java"
    assert "JAVA_HOME" not in commands.environment("nimbus")


def test_a_whole_home_is_made_once_and_links_what_it_can(home: Path, tmp_path: Path) -> None:
    archives, jar = tmp_path / "cds-1", tmp_path / "bridge.jar"
    archives.mkdir()
    (archives / "nimbus.jsa").write_text("classes")
    jar.write_text("bridge")
    whole = assemble.complete_home(home, archives, [jar], tmp_path / "cache")
    assert (whole / "cds/nimbus.jsa").samefile(archives / "nimbus.jsa")
    assert (whole / "lib/a.jar").samefile(home / "lib/a.jar")
    assert (whole / "extlib-daemon/bridge.jar").read_text() == "bridge"
    assert (home / "VERSION").read_text() == "{}"
    assert assemble.complete_home(home, archives, [jar], tmp_path / "cache") == whole
    assert list((tmp_path / "cache").iterdir()) == [whole]


def test_a_home_that_was_written_into_is_put_right(home: Path, tmp_path: Path) -> None:
    jar = tmp_path / "bridge.jar"
    jar.write_text("bridge")
    whole = assemble.complete_home(home, None, [jar], tmp_path / "homes")
    (whole / "extlib-daemon/bridge.jar").write_text("damaged")
    assert assemble.complete_home(home, None, [jar], tmp_path / "homes") == whole
    assert (whole / "extlib-daemon/bridge.jar").read_text() == "bridge"


def test_a_jar_that_is_not_built_is_named(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"bridge\.jar is not there"):
        assemble.complete_home(home, None, [tmp_path / "bridge.jar"], tmp_path)


def fake_maven(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "mvn").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_failed_download_leaves_nothing_and_says_what_maven_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_maven(tmp_path / "bin", 'echo "[ERROR] Could not transfer artifact"; exit 1', monkeypatch)
    with pytest.raises(InfrastructureError, match="Could not transfer artifact") as failed:
        assemble.assemble_home(tmp_path / "cache", print)
    assert failed.value.blame == "infrastructure"
    assert not list((tmp_path / "cache").iterdir())


def test_a_home_appears_whole_and_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_maven(tmp_path / "bin", f"echo called >> {tmp_path}/calls", monkeypatch)
    told: list[str] = []
    home = assemble.assemble_home(tmp_path / "cache", told.append)
    assert os.access(home / "bin/run", os.X_OK)
    assert (home.stat().st_mode & 0o777) == 0o755
    calls = (tmp_path / "calls").read_text()
    assert assemble.assemble_home(tmp_path / "cache", told.append) == home
    assert (tmp_path / "calls").read_text() == calls
    assert len(told) == 2


def test_without_maven_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="apt-get install maven"):
        assemble.assemble_home(tmp_path / "cache", print)


def test_a_root_filesystem_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no Java"):
        java_build(tmp_path)


def test_another_java_is_another_archive(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib/jvm/java-17/lib/server/libjvm.so"
    library.parent.mkdir(parents=True)
    library.write_text("17.0.15")
    (tmp_path / "usr/lib/jvm/java-17/lib/modules").touch()
    before = java_build(tmp_path)
    library.write_text("17.0.16")
    assert java_build(tmp_path) != before


@pytest.fixture
def base(home: Path, tmp_path: Path) -> Path:
    """A home with a bridge, as `complete` makes it."""
    bridge = tmp_path / "bridge.jar"
    bridge.write_text("ours")
    return assemble.complete_home(home, None, [bridge], tmp_path / "homes")


def test_a_home_with_the_same_bridge_is_the_same(base: Path, tmp_path: Path) -> None:
    bridge = tmp_path / "elsewhere" / "bridge.jar"
    bridge.parent.mkdir()
    bridge.write_text("ours")
    assert assemble.derive_home(base, bridge=bridge) == assemble.derive_home(base) == base


def test_another_bridge_is_another_home_of_the_same_libraries(base: Path, tmp_path: Path) -> None:
    bridge = tmp_path / "other.jar"
    bridge.write_text("theirs")
    other = assemble.derive_home(base, bridge=bridge)
    assert other == assemble.derive_home(base, bridge=bridge) != base and other.parent == base.parent
    assert [path.name for path in (other / "extlib-daemon").iterdir()] == ["other.jar"]
    assert (base / "extlib-daemon" / "bridge.jar").read_text() == "ours", "the base is untouched"
    assert (other / "lib" / "a.jar").stat().st_ino == (base / "lib" / "a.jar").stat().st_ino
    assert (other / "VERSION").read_text() != (base / "VERSION").read_text()


def test_a_scheduler_of_others_is_apart_from_the_bridge(
    base: Path, tmp_path: Path, java: Callable[[list[str]], list[str]]
) -> None:
    theirs = tmp_path / "theirs.jar"
    theirs.write_text("1")
    hosting = assemble.derive_home(base, foreign=theirs)
    assert [path.name for path in (hosting / "extlib-daemon").iterdir()] == ["bridge.jar"]
    assert [path.name for path in (hosting / "foreign").glob("*.jar")] == ["theirs.jar"]
    assert "theirs.jar" not in " ".join(java([f"{hosting}/bin/run", "nimbus", "/conf", "Main"]))
    theirs.write_text("2")
    assert assemble.derive_home(base, foreign=theirs) != hosting
    placement = tmp_path / "placement.csv"
    placement.write_text("task,machine")
    placement.chmod(0o600)
    beside = assemble.derive_home(base, foreign=theirs, files=[placement])
    copy = beside / "foreign" / "files" / "placement.csv"
    assert copy.read_text() == "task,machine" and copy.stat().st_mode & 0o444 == 0o444, "Nimbus is not root"
    placement.write_text("task,rack")
    assert assemble.derive_home(base, foreign=theirs, files=[placement]) != beside
