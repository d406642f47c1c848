"""A Storm home as archives for machines that do not mount it, packed once and named by their content.

A home is links into other folders of the cache; an archive of it is self-contained. It is in parts, because they change
at different times: the libraries with Storm's version, the class data with Java, the rest (our bridge) with our
sources. A jar that is in two folders is packed once: the second is a link with its own time of change, which
`unpack.py` copies, because class data fits only jars of exactly the size and time that it was made with.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from boltons.fileutils import atomic_save

FOLDERS = {"libraries": ("lib", "lib-worker", "lib-flux", "lib-redis"), "classes": ("cds",)}
REST_PART = "rest"
# Jars are compressed already: more effort gains nothing, and costs minutes beside a measurement.
COMPRESSION = {"libraries": 1, "classes": 6, REST_PART: 6}
HEADER_BYTES = 8192  # class data begins with the name of the Java that made it
KEEP_PARCELS = 12  # archives of other homes, for users who change between them
ABANDONED_S = 3600.0  # an archive is packed in seconds: this one was abandoned


@dataclass(frozen=True)
class Parcel:
    """One archive. `java` is the only Java that can use it, as printed by `java -Xinternalversion`; empty: any."""

    name: str
    path: str
    sha256: str
    size: int
    java: str


def make_parcels(home: Path, store: Path) -> tuple[Parcel, ...]:
    """Return the home's archives in `store`, packed if they are missing."""
    store.mkdir(parents=True, exist_ok=True)
    parcels = tuple(_parcel(home, part, files, store) for part, files in files_by_part(home).items() if files)
    _prune(store, parcels)
    return parcels


def files_by_part(home: Path) -> dict[str, list[Path]]:
    """Return the home's files by part; folders, some of which are empty, belong to the rest."""
    owner = {folder: part for part, folders in FOLDERS.items() for folder in folders}
    paths: dict[str, list[Path]] = {part: [] for part in (*FOLDERS, REST_PART)}
    for path in sorted(home.rglob("*")):
        top = path.relative_to(home).parts[0]
        paths[REST_PART if path.is_dir() else owner.get(top, REST_PART)].append(path)
    return paths


def java_of_class_data(home: Path) -> str:
    """Return the Java that the home's class data was made with; empty where there is none."""
    for archive in sorted((home / "cds").glob("*.jsa")):
        with archive.open("rb") as file:
            match = re.search(rb"[ -~]+ VM \([ -~]+", file.read(HEADER_BYTES))
        return match.group().decode() if match else ""
    return ""


def _parcel(home: Path, part: str, files: list[Path], store: Path) -> Parcel:
    name = f"{part}-{_fingerprint(home, files)}.tar.gz"
    archive, facts = store / name, store / f"{name}.json"
    java = java_of_class_data(home) if part == "classes" else ""
    with suppress(OSError, ValueError, KeyError, TypeError):  # they are missing, or damaged
        if archive.is_file():
            document = json.loads(facts.read_text())
            return Parcel(name, str(archive), str(document["sha256"]), int(document["size"]), java)
    _pack(home, files, archive, COMPRESSION[part])
    parcel = Parcel(name, str(archive), _digest(archive), archive.stat().st_size, java)
    with atomic_save(facts, part_file=f".{facts.name}.partial", overwrite_part=True) as file:
        file.write(json.dumps({"sha256": parcel.sha256, "size": parcel.size}).encode())
    return parcel


def _fingerprint(home: Path, files: list[Path]) -> str:
    stamps = [(str(f.relative_to(home)), *_stamp(f)) for f in files if f.is_file()]
    return hashlib.sha256(json.dumps(stamps).encode()).hexdigest()[:12]


def _stamp(file: Path) -> tuple[int, int]:
    now = file.stat()
    return now.st_size, int(now.st_mtime)


def _pack(home: Path, files: list[Path], archive: Path, effort: int) -> None:
    with tempfile.NamedTemporaryFile(dir=archive.parent, prefix=f".{archive.name}-", delete=False) as draft:
        partial = Path(draft.name)
    first: dict[str, str] = {}
    try:
        with tarfile.open(partial, "w:gz", compresslevel=effort) as tar:
            for file in files:
                member = tarfile.TarInfo(str(file.relative_to(home)))
                size, member.mtime = _stamp(file)
                member.mode = 0o755 if file.is_dir() or file.stat().st_mode & 0o100 else 0o644
                if file.is_dir():
                    member.type = tarfile.DIRTYPE
                    tar.addfile(member)
                elif (twin := first.setdefault(_digest(file), member.name)) != member.name:
                    member.type, member.linkname = tarfile.LNKTYPE, twin
                    tar.addfile(member)
                else:
                    member.size = size
                    with file.open("rb") as content:
                        tar.addfile(member, content)
        partial.chmod(0o644)
        partial.rename(archive)
    finally:
        partial.unlink(missing_ok=True)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _prune(store: Path, used: tuple[Parcel, ...]) -> None:
    others = [path for path in store.glob("*.tar.gz") if path.name not in {parcel.name for parcel in used}]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[KEEP_PARCELS:]:
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.json").unlink(missing_ok=True)
    for path in store.glob(".*.tar.gz-*"):  # of a play that was killed
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > ABANDONED_S:
                path.unlink()


if __name__ == "__main__":
    print(json.dumps([asdict(parcel) for parcel in make_parcels(Path(sys.argv[1]), Path(sys.argv[2]))]))
