"""Jars that PySpark does not ship, fetched by set-up or when they are first needed, each set into a new folder: with
Maven, a single one also without it."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies
from xml.etree import ElementTree as ET
from xml.sax.saxutils import quoteattr

from filelock import FileLock, Timeout

from analysis import java
from analysis.errors import StorageConfigurationError, StorageError

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0"
CENTRAL = {"central", "*", "external:*"}  # what a mirror of Maven Central is a mirror of
LIMIT_S = 1800  # seconds
# Spark's decoder of Avro: the newest version; it works with the pinned PySpark (tests analyse with it).
AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"
AVRO_NAME = "spark-avro_2.13-4.1.1"
AVRO_SHA_256 = "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d"
BUNDLED_AVRO = Path(__file__).parents[2] / f"{AVRO_NAME}.jar"  # beside the code of a bundle, where Maven is not needed


def mirrors() -> dict[str, str]:
    """Return the mirrors that Maven's settings name for this user or this box, `mirrorOf` by address, in Maven's order.
    An address with a password in it is left out: builds of others are told the rest."""
    files = [Path.home() / ".m2" / "settings.xml"]
    files += [Path(os.environ.get("MAVEN_HOME", "/usr/share/maven")) / "conf" / "settings.xml"]
    by_address: dict[str, str] = {}
    for file in files:
        with suppress(OSError, ET.ParseError):  # Maven itself says what is wrong with it
            for mirror in ET.parse(file).iterfind(".//{*}mirrors/{*}mirror"):
                address, of = (mirror.findtext(f"{{*}}{key}", "").strip() for key in ("url", "mirrorOf"))
                is_blocked = mirror.findtext("{*}blocked", "").strip() == "true"  # Maven's own refusal of plain HTTP
                if urlsplit(address).hostname and "@" not in address and not is_blocked:
                    by_address.setdefault(address, of)
    return by_address


def avro_jar(cache: Path, tell: Callable[[str], None]) -> Path:
    """Return the jar, in a folder of `cache`. Some seconds and 90 kB the first time. Without Maven, or without Java for
    it, Spark's own Java and Ivy fetch it."""
    folder = cache / AVRO_NAME
    jar = folder / f"{AVRO_NAME}.jar"
    if folder.is_dir():
        return jar
    tell("Avro for Spark: fetching its jar")

    def check(scratch: Path) -> None:
        digest = hashlib.sha256((scratch / jar.name).read_bytes()).hexdigest()
        if digest != AVRO_SHA_256:
            raise StorageError(
                f"{AVRO} came with the SHA-256 {digest}, but {AVRO_SHA_256} is wanted, and it is"
                " not used; if Maven fetched it, remove it from ~/.m2/repository/org/apache/spark, then try again"
            )

    home = os.environ.get("JAVA_HOME")
    has_java = shutil.which(str(Path(home, "bin", "java")) if home else "java") is not None
    if shutil.which("mvn") is not None and has_java:
        fetch(folder, [f"{PLUGIN}:copy", f"-Dartifact={AVRO}"], check)
    else:
        _fetch_once(folder, _with_ivy, check)
    return jar


def fetch(folder: Path, arguments: Sequence[str], check: Callable[[Path], None] = lambda _: None) -> None:
    """Fetch jars. `arguments` make Maven copy them with the registry's checksums; `check` raises for unusable ones. The
    folder appears whole or not at all; only one of several processes fetches it."""
    if shutil.which("mvn") is None:
        raise StorageConfigurationError(
            f"mvn is not installed; {folder.name} for Spark is fetched with it. Install it with: apt-get install maven"
        )
    _fetch_once(folder, partial(_with_maven, arguments), check)


def _with_maven(arguments: Sequence[str], out: Path) -> None:
    _run(["mvn", "-B", "-q", "--strict-checksums", *arguments, f"-DoutputDirectory={out}"], out)


def _run(argv: Sequence[str], out: Path) -> None:
    try:
        process = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise StorageError(f"{' '.join(argv)} did not end within {LIMIT_S} s; is Maven Central reachable?") from error
    last = " ".join((process.stdout + process.stderr).split())[-600:]
    if process.returncode != 0:
        raise StorageError(f"{' '.join(argv)} ended with {process.returncode}: {last}")
    if not any(out.glob("*.jar")):
        raise StorageError(f"{' '.join(argv)} has fetched nothing: {last}")


def _with_ivy(out: Path) -> None:
    """Let the Ivy that is among PySpark's jars copy the jar, from its own default repository or a mirror of that."""
    import pyspark

    root = next((f" root={quoteattr(at)}" for at, of in mirrors().items() if set(of.split(",")) & CENTRAL), "")
    settings, place = out.with_name("ivysettings.xml"), f'<ibiblio name="jars" m2compatible="true"{root}/>'
    settings.write_text(f'<ivysettings><settings defaultResolver="jars"/><resolvers>{place}</resolvers></ivysettings>')
    proxy = urlsplit(getproxies().get("https", ""))
    through = [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 80}"] if proxy.hostname else []
    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    _run([
        java.program(), *through, "-jar", str(ivy), "-settings", str(settings), "-cache", str(out.with_name("ivy")),
        "-notransitive", "-types", "jar", "-dependency", *AVRO.split(":"),
        "-retrieve", f"{out}/[artifact]-[revision].[ext]",
    ], out)  # fmt: skip


def _fetch_once(folder: Path, get: Callable[[Path], None], check: Callable[[Path], None]) -> None:
    lock = FileLock(folder.parent / ".jars.lock")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=LIMIT_S)
    except Timeout as error:
        raise StorageError(f"another process has been fetching jars into {folder.parent} for {LIMIT_S} s") from error
    except OSError as error:
        raise StorageConfigurationError(
            f"{folder.parent} cannot be written ({error.strerror}); {folder.name} for Spark is kept there. Set"
            " BAROGRAPH_CACHE to a folder of yours, or run make setup as root"
        ) from error
    try:
        if folder.is_dir():
            return
        for leftover in folder.parent.glob(".jars-*"):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=".jars-", dir=folder.parent) as scratch:
            target = Path(scratch) / "jars"
            get(target)
            check(target)
            target.rename(folder)
    finally:
        lock.release()
