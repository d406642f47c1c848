"""Software for machines, built or fetched before an experiment and cached: jars and the Storm home by a hash of their
sources, Python packages for masters by their versions.

Policies on a master use pymetis beside the standard library and numpy: wheels of the versions that requirements.txt
pins, in one folder for every Python that a master may have. Set-up fetches them with the uv that made this environment,
deploy delivers the folder, and the policy service has it on its path. Compiled parts have the Python's version in their
names, so that they do not conflict. Machines need no package index for it. If fetching fails, set-up goes on with a
note: the policy `metis` refuses then.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from barograph.child_processes import ChildProcess
from barograph.errors import BarographError, ConfigurationError, InfrastructureError, Say
from barograph.settings import ROOT, barograph_home
from inventory.files import QUICK_S, hold_lock

BRIDGE = ROOT / "scheduler_plugins" / "nimbus_bridge"
TOPOLOGIES = ROOT / "topologies"
HOMES = "homes"
BUILD_LIMIT_S = 900
LOCK = ".build.lock"
LIBRARIES = ("pymetis", "typing-extensions")  # numpy is on every master
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
UV = ROOT / ".barograph" / "uv" / "bin" / "uv"
REQUIREMENTS = ROOT / "requirements.txt"
FETCH_LIMIT_S = 120  # for one Python: some 500 kB


def storm_home(say: Say) -> Path:
    """Return the home that machines run, with our bridge and the class data archives in it. Every call checks the
    sources again: a changed bridge is in another home."""
    from inventory.local.rootfs import build, cache_dir
    from playbooks.storm_home import assemble, class_data
    from playbooks.storm_home.class_data import TrainingFailed

    cache = cache_dir()
    home = assemble.assemble_home(cache, say)
    bridge = build_jar(BRIDGE, say)
    try:
        archives = class_data.train_archives(home, build(cache, say), cache, say)
    except TrainingFailed as error:
        say(f"note: {error}; workers start without class data archives, only slower")
        archives = None
    return assemble.complete_home(home, archives, [bridge], cache / HOMES)


def build_for_machines(say: Say) -> None:
    """Build everything that is delivered to machines which mount nothing."""
    build_jar(TOPOLOGIES, say)
    storm_home(say)


def mounts(say: Say) -> dict[Path, str]:
    """Return folders of this box that every emulated machine mounts, and where. All homes, so that running machines can
    change to one that is built later; deploy says which."""
    from playbooks.storm_home import commands

    return {storm_home(say).parent: commands.HOMES}


def build_jar(folder: Path, say: Say) -> Path:
    """Return the one jar of a Maven module, built unless it was built of exactly this pom and these sources. One
    process at a time: two Mavens in one `target/` leave a broken jar. `make clean` leaves the lock alone."""
    with hold_lock(folder / LOCK, f"building {folder.name}", BUILD_LIMIT_S + QUICK_S, say):
        from playbooks.storm_home.assemble import fingerprint

        mark = barograph_home() / "built" / f"{folder.name}-{fingerprint(module_files(folder))}"
        jar = _jar(folder)
        # Sources that were built, changed and changed back have a mark too, but the jar is of the version between.
        if jar.is_file() and mark.exists() and mark.read_text() == fingerprint([jar]):
            return jar
        require_maven()
        say(f"{folder.name}: building with Maven")
        argv = ["mvn", "-B", "-q", "-f", str(folder / "pom.xml"), "-DskipTests", "package"]
        code, output = _run(argv, folder, BUILD_LIMIT_S)
        if code is None:
            raise InfrastructureError(
                f"mvn -f {folder / 'pom.xml'} package did not end within {BUILD_LIMIT_S} s; is Maven Central reachable?"
            )
        if code != 0 or not _jar(folder).is_file():
            raise BarographError(f"mvn -f {folder / 'pom.xml'} package ended with {code}: {output[-600:]}")
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(fingerprint([jar]))
        return jar


def module_files(folder: Path) -> list[Path]:
    """Return the files that the jar of a Maven module is built from."""
    return [folder / "pom.xml", *sorted(path for path in (folder / "src" / "main").rglob("*") if path.is_file())]


def require_maven() -> None:
    if shutil.which("mvn") is None:
        raise ConfigurationError(
            "mvn is not installed; it builds the Java parts. Install it with: apt-get install maven"
        )


def _jar(folder: Path) -> Path:
    return folder / "target" / f"barograph-{folder.name.replace('_', '-')}.jar"


def _run(argv: list[str], folder: Path, limit_s: float) -> tuple[int | None, str]:
    """Run a program; return its exit code, None where it took longer, and its output in one line."""
    with tempfile.TemporaryFile() as output:
        # It ends with this process, however that ends: the next one builds in the same folder.
        with ChildProcess(argv, folder=folder, output=output) as process:
            code = process.wait(limit_s)
        output.seek(0)
        return code, " ".join(output.read().decode(errors="replace").split())


def libraries_folder() -> Path | None:
    """Return the folder of Python packages for masters; None where set-up has not fetched them."""
    folder = _libraries_path()
    return folder if folder.is_dir() else None


def fetch_libraries(say: Say) -> Path | None:
    """Return the folder, fetched if it is missing; None, and a note, where that fails."""
    from playbooks.storm_home.assemble import atomic_folder

    folder = _libraries_path()
    if folder.is_dir():
        return folder
    try:
        with atomic_folder(folder) as draft:
            for python in PYTHONS:
                what = f"pymetis for Python {python} could not be fetched"
                if shutil.which(UV) is None:
                    raise InfrastructureError(f"{what}: {UV} is not there (make setup)")
                with tempfile.TemporaryDirectory(prefix="barograph-libraries-") as scratch:
                    requirements, target = Path(scratch, "requirements.txt"), Path(scratch, "target")
                    requirements.write_text(pinned_lines(LIBRARIES, REQUIREMENTS), encoding="utf-8")
                    argv = [
                        str(UV), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:",
                        "--python-version", python, "--python-platform", f"{os.uname().machine}-manylinux_2_28",
                        "--target", str(target), "--requirements", str(requirements),
                        "--cache-dir", str(Path(scratch, "cache")),
                    ]  # fmt: skip
                    code, output = _run(argv, ROOT, FETCH_LIMIT_S)
                    if code is None:
                        raise InfrastructureError(f"{what}: uv did not end within {FETCH_LIMIT_S} s")
                    if code != 0:
                        raise InfrastructureError(f"{what}: {output[-300:] or f'uv ended with {code}'}")
                    shutil.copytree(
                        target, draft, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".lock", "bin")
                    )
    except (InfrastructureError, OSError) as error:  # OSError: a disk that is full
        say(f"note: {error}; the policy metis will refuse on machines until set-up has fetched pymetis")
        return None
    return folder


def _libraries_path() -> Path:
    from inventory.local.rootfs import cache_dir

    versions = "-".join(
        line.partition(" ")[0].replace("==", "-")
        for line in pinned_lines(LIBRARIES, REQUIREMENTS).splitlines()
        if "==" in line
    )
    return cache_dir() / f"libraries-{versions}-{os.uname().machine}"


def pinned_lines(packages: tuple[str, ...], requirements: Path) -> str:
    """Return the lines of these packages in a file of pinned requirements, with their hashes."""
    lines: list[str] = []
    is_wanted = False
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if not line.startswith((" ", "#")):
            is_wanted = line.partition("==")[0] in packages
        if is_wanted and not line.lstrip().startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"
