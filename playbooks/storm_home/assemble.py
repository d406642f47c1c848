"""Assemble the Storm home from Maven Central into a content-addressed folder.

bin/run          starts a daemon or a tool on the libraries, with its class data archive
lib/             daemons and commands
lib-worker/      workers
lib-flux/        Flux, for submission only
lib-redis/       state in Redis, for the workers of topologies that name it as their class path
extlib/  extlib-daemon/  cds/   empty here; `complete_home` fills the last two
foreign/         a scheduler that is not ours, in homes that `derive_home` makes
log4j2/          cluster.xml, worker.xml
supervisor-java/bin/java   JAVA_HOME of the supervisor
VERSION          what the home is made of
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from xml.etree import ElementTree as ET

from barograph.errors import ConfigurationError, InfrastructureError

Log = Callable[[str], None]

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
FILES = HERE / "files"
LAYOUT = 3  # raise it when this module arranges the same inputs differently
MAVEN_TIMEOUT_S = 900
REMOVAL_LIMIT_S = 600
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin"
# The last plugin that can fetch a jar whose parent POM is missing; 3.x refuses.
OLD_DEPENDENCY_PLUGIN = f"{DEPENDENCY_PLUGIN}:2.8"
FILE_PLACES = {
    "run": "bin/run",
    "java": "supervisor-java/bin/java",
    "log4j2/cluster.xml": "log4j2/cluster.xml",
    "log4j2/worker.xml": "log4j2/worker.xml",
}


def assemble_home(cache: Path, log: Log) -> Path:
    """Return the home without archives and without our jars: `<cache>/storm-home-<hash of its inputs>`.

    Downloads once (about 90 MB); a second call only checks. Raises ConfigurationError or InfrastructureError.
    """
    home = cache / f"storm-home-{fingerprint(_inputs(), str(LAYOUT))}"
    if home.is_dir():
        return home
    if shutil.which("mvn") is None:
        raise ConfigurationError("mvn is not installed; it fetches Storm. Install it with: apt-get install maven")
    log(f"Storm home: fetching Storm {storm_version()} from Maven Central")
    with atomic_folder(home) as draft:
        for folder in ("bin", "extlib", "extlib-daemon", "cds", "log4j2", "lib-flux", "supervisor-java/bin"):
            (draft / folder).mkdir(parents=True)
        for profile in ("lib", "lib-worker", "lib-redis"):
            goal = f"{DEPENDENCY_PLUGIN}:3.8.1:copy-dependencies"
            _maven(goal, "-P", profile, "-DincludeScope=runtime", f"-DoutputDirectory={draft / profile}")
        flux = f"org.apache.storm:flux-core:{storm_version()}"
        jar = draft / "lib-flux" / f"flux-core-{storm_version()}.jar"
        _maven(f"{OLD_DEPENDENCY_PLUGIN}:get", f"-Dartifact={flux}", "-Dtransitive=false", f"-Ddest={jar}")
        for name, place in FILE_PLACES.items():
            shutil.copy2(FILES / name, draft / place)
        _write_version(draft, fingerprint(_inputs(), str(LAYOUT)))
    log(f"Storm home: {home}")
    return home


def complete_home(home: Path, archives: Path | None, jars: Sequence[Path], cache: Path) -> Path:
    """Return a home with class data archives in `cds/` and `jars` in `extlib-daemon/`, for machines to mount or unpack.

    Files of `home` are linked, not copied. `archives` None: daemons start without, only slower.
    """
    for jar in jars:
        if not jar.is_file():
            raise ConfigurationError(f"{jar} is not there; build it first (mvn package in its folder)")
    name = fingerprint(jars, home.name, archives.name if archives else "no archives")
    target = cache / f"storm-{name}"
    if target.is_dir():
        if fingerprint(_daemon_jars(target)) != fingerprint(sorted(jars)):  # somebody changed it
            _place_jars(jars, target / "extlib-daemon")
        return target
    with atomic_folder(target) as draft:
        _link_tree(home, draft)
        for archive in sorted(archives.glob("*.jsa")) if archives else []:
            link(archive, draft / "cds" / archive.name)
        _place_jars(jars, draft / "extlib-daemon")
        _write_version(draft, name)
    return target


def derive_home(
    base: Path, *, bridge: Path | None = None, foreign: Path | None = None, files: Sequence[Path] = ()
) -> Path:
    """Return `base` with another bridge in `extlib-daemon/`, or a foreign scheduler in `foreign/` and its `files` in
    `foreign/files/`; beside it.

    `base` itself where nothing would differ. The libraries are the same files.
    """
    jars = _daemon_jars(base)
    daemon = [bridge] if bridge else jars
    if foreign is None and fingerprint(daemon) == fingerprint(jars):
        return base
    target = base.with_name(
        f"storm-{(name := fingerprint([*daemon, *([foreign, *files] if foreign else [])], base.name))}"
    )
    if target.is_dir():
        return target
    with atomic_folder(target) as draft:
        _link_tree(base, draft)
        _place_jars(daemon, draft / "extlib-daemon")
        _place_jars([foreign] if foreign else [], draft / "foreign")
        _place_jars(files, draft / "foreign" / "files")
        _write_version(draft, name)
    return target


def storm_version() -> str:
    """Return the version in pom.xml."""
    version = ET.parse(POM).findtext(".//{*}properties/{*}storm.version")
    assert version, f"{POM} names no storm.version"
    return version


def storm_settings(cache: Path) -> frozenset[str]:
    """Return the keys of Storm's configuration, the constants of its class Config; empty before the home is there."""
    jar = next(cache.glob(f"storm-home-*/lib/storm-client-{storm_version()}.jar"), None)
    if jar is None:
        return frozenset()
    with zipfile.ZipFile(jar) as archive:
        content = archive.read("org/apache/storm/Config.class")
    # A text is a 1, its length in two bytes, and itself.
    texts = re.finditer(rb"\x01(?=(..)((?:[a-z0-9_-]+\.)+[a-z0-9_-]+))", content, re.DOTALL)
    return frozenset(text[2].decode() for text in texts if len(text[2]) == int.from_bytes(text[1]))


def fingerprint(files: Sequence[Path], *words: str) -> str:
    """Return twelve hexadecimal digits that change with the files' names and contents and with the words."""
    digest = hashlib.sha256(json.dumps(words).encode())
    for file in files:
        digest.update(json.dumps([file.name, hashlib.sha256(file.read_bytes()).hexdigest()]).encode())
    return digest.hexdigest()[:12]


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` at once when the block succeeds, and is removed when it fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield draft
        draft.chmod(0o755)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was quicker, with the same contents
                raise
    finally:
        remove_tree(draft)


def remove_tree(folder: Path) -> None:
    """Remove a tree as far as possible, however deep it is: Python's own way ends after 1,000 folders."""
    with suppress(subprocess.TimeoutExpired):
        argv = ["rm", "-rf", "--one-file-system", "--", str(folder)]
        subprocess.run(argv, capture_output=True, timeout=REMOVAL_LIMIT_S, check=False)


def link(source: Path, target: Path) -> None:
    """Make a hard link, so that size and modification time (which archives check) stay; a copy across file systems."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _daemon_jars(home: Path) -> list[Path]:
    return sorted((home / "extlib-daemon").glob("*.jar"))


def _place_jars(jars: Sequence[Path], folder: Path) -> None:
    """Copy exactly these files; existing ones are links to another home's, which must not be written to."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for jar in jars:
        shutil.copy2(jar, folder / jar.name)
        (folder / jar.name).chmod(0o644)  # a user of the machines reads them


def _inputs() -> list[Path]:
    return [POM, *(FILES / name for name in FILE_PLACES)]


def _write_version(home: Path, contents: str) -> None:
    """Write VERSION, which differs where the home differs: machines that do not mount it compare it with theirs."""
    files = sorted(str(f.relative_to(home)) for pattern in ("*lib*/*.jar", "cds/*") for f in home.glob(pattern))
    facts = {"storm": storm_version(), "contents": contents, "files": files}
    (home / "VERSION").unlink(missing_ok=True)  # it may be a link to another home's
    (home / "VERSION").write_text(json.dumps(facts, indent=1) + "\n")


def _link_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=lambda a, b: link(Path(a), Path(b)), dirs_exist_ok=True)


def _maven(*arguments: str) -> None:
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(POM), *arguments]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as expired:
        raise InfrastructureError(
            f"{arguments[0]} took more than {MAVEN_TIMEOUT_S} s; is Maven Central reachable?"
        ) from expired
    if process.returncode != 0:
        lines = [line for line in process.stdout.splitlines() if "[ERROR]" in line] or ["no message"]
        raise InfrastructureError(f"{arguments[0]} failed: {lines[0]}; is Maven Central reachable?")
