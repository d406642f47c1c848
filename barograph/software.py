"""The software that machines need, built before an experiment: jars and the Storm home, each cached by a hash of its
sources."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from barograph.child_processes import ChildProcess
from barograph.errors import BarographError, Say
from barograph.settings import ROOT, barograph_home
from inventory.files import QUICK_S, hold_lock

BRIDGE = ROOT / "scheduler_plugins" / "nimbus_bridge"
TOPOLOGIES = ROOT / "topologies"
HOMES = "homes"
BUILD_LIMIT_S = 900
LOCK = ".build.lock"


class SoftwareBuildFailed(BarographError):
    """One of our own parts does not build."""


class SoftwareBuildHung(SoftwareBuildFailed):
    """What takes Maven so long is what it downloads."""

    blame = "infrastructure"


class ToolMissing(BarographError):
    blame = "configuration"


def storm_home(say: Say) -> Path:
    """The home that machines run, with our bridge and the class data archives in it.

    Every call looks at the sources again: a bridge that was changed meanwhile is in another home.
    """
    from inventory.local.rootfs import build, cache_dir
    from playbooks.errors import TrainingFailed
    from playbooks.storm_home import assemble, class_data

    kept = cache_dir()
    home = assemble.assemble_home(kept, say)
    bridge = build_jar(BRIDGE, say)
    try:
        trained = class_data.train_archives(home, build(kept, say), kept, say)
    except TrainingFailed as error:
        say(f"note: {error}; workers start without class data archives, only slower")
        trained = None
    return assemble.complete_home(home, trained, [bridge], kept / HOMES)


def build_for_machines(say: Say) -> None:
    """All that is delivered to machines which mount nothing."""
    build_jar(TOPOLOGIES, say)
    storm_home(say)


def mounts(say: Say) -> dict[Path, str]:
    """Folders of this box that every emulated machine sees, and where.

    All homes, so that machines that are up can change to one that is made later; deploy says which.
    """
    from playbooks.storm_home import commands

    return {storm_home(say).parent: commands.HOMES}


def build_jar(folder: Path, say: Say) -> Path:
    """The one jar of a Maven module, built unless it is the very one that was built of this pom and these sources.

    One process at a time: two Mavens in one `target/` leave a jar of neither. `make clean` leaves the lock alone.
    """
    with hold_lock(folder / LOCK, f"building {folder.name}", BUILD_LIMIT_S + QUICK_S, say):
        return _build_jar(folder, say)


def _build_jar(folder: Path, say: Say) -> Path:
    from playbooks.storm_home.assemble import fingerprint

    files = [folder / "pom.xml", *sorted(path for path in (folder / "src" / "main").rglob("*") if path.is_file())]
    mark = barograph_home() / "built" / f"{folder.name}-{fingerprint(files)}"
    jar = _jar(folder)
    # Sources that were built, changed and changed back have a mark too, but the jar is of those in between.
    if jar.is_file() and mark.exists() and mark.read_text() == fingerprint([jar]):
        return jar
    _maven(folder, say)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint([jar]))
    return jar


def _jar(folder: Path) -> Path:
    return folder / "target" / f"barograph-{folder.name.replace('_', '-')}.jar"


def _maven(folder: Path, say: Say) -> None:
    if shutil.which("mvn") is None:
        raise ToolMissing("mvn is not installed; it builds the Java parts. Install it with: apt-get install maven")
    say(f"{folder.name}: building with Maven")
    argv = ["mvn", "-B", "-q", "-f", str(folder / "pom.xml"), "-DskipTests", "package"]
    with tempfile.TemporaryFile() as output:
        # It ends with this process, however that ends: the next one builds in the same folder.
        with ChildProcess(argv, folder=folder, output=output) as maven:
            code = maven.wait(BUILD_LIMIT_S)
        output.seek(0)
        last = " ".join(output.read().decode(errors="replace").split())[-600:]
    if code is None:
        raise SoftwareBuildHung(
            f"mvn -f {folder / 'pom.xml'} package did not end within {BUILD_LIMIT_S} s; is Maven Central reachable?"
        )
    if code != 0 or not _jar(folder).is_file():
        raise SoftwareBuildFailed(f"mvn -f {folder / 'pom.xml'} package ended with {code}: {last}")
