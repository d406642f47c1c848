"""Put a Storm home on this machine from its parcels; runs on the machine, standard library only.

Standard input: one JSON object.
    homes, home   the folder of homes, and the name of this one in it
    link          what becomes a link to it
    version       SHA-256 of its file VERSION
    kept          a folder where the parcels may be already
    url           where they are fetched from otherwise
    parcels       [{"name", "sha256", "size"}], archives that together are the home
The home appears as a whole. Of the others that were delivered before the newest few are kept: what still runs from the
last one ends later, and runs of several codes change between them.
"""

import hashlib
import json
import os
import shutil
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TRIES = 3
SILENCE_S = 60
OTHERS = 4
Plan = Mapping[str, Any]


class Refused(Exception):
    """A parcel arrived damaged, or not at all."""


def digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def fetch(url: str, file: Path) -> None:
    """Fetch a file over the machines' own network, without a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for tries in reversed(range(TRIES)):
        try:
            with opener.open(url, timeout=SILENCE_S) as answer, file.open("wb") as new:
                shutil.copyfileobj(answer, new, 1 << 18)
            return
        except (OSError, urllib.error.URLError) as error:
            if not tries:
                place = url.rpartition("/")[2]
                raise Refused(f"{place} cannot be fetched from the master: {error}; do the machines reach its inside "
                              "address on every port?") from error  # fmt: skip
            time.sleep(1)


def parcel(plan: Plan, wanted: Plan, scratch: Path) -> Path:
    """Return the archive with the planned digest."""
    local = Path(plan["kept"], wanted["name"])
    if local.is_file() and digest(local) == wanted["sha256"]:
        return local
    target = Path(scratch, wanted["name"])
    fetch(f"{plan['url']}/{wanted['name']}", target)
    if digest(target) != wanted["sha256"]:
        raise Refused(f"{wanted['name']} arrived with another digest than it was sent with; deploy again")
    return target


def unpack(archive: Path, to: Path) -> None:
    """Unpack files with their times; a link becomes a copy of its target, with its own time."""
    with tarfile.open(archive) as tar:
        for member in tar:
            target = to / member.name
            if to not in (*target.resolve().parents, target.resolve()):
                raise Refused(f"{archive.name} has {member.name}, which is outside")
            target.parent.mkdir(parents=True, exist_ok=True)
            if member.isdir():
                target.mkdir(exist_ok=True)
                target.chmod(0o755)
            elif member.islnk():
                shutil.copyfile(to / member.linkname, target)
                finish(target, member)
            elif content := tar.extractfile(member):
                with target.open("wb") as new:
                    shutil.copyfileobj(content, new)
                finish(target, member)


def finish(target: Path, member: tarfile.TarInfo) -> None:
    target.chmod(member.mode)
    os.utime(target, (member.mtime, member.mtime))


def point(link: Path, home: Path) -> None:
    """Point the link to the home, in one step."""
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    new = link.with_name(f".{link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(home)
    new.replace(link)


def deliver(plan: Plan) -> None:
    homes, link = Path(plan["homes"]), Path(plan["link"])
    home, partial = homes / plan["home"], homes / f".{plan['home']}.partial"
    homes.mkdir(parents=True, exist_ok=True)
    homes.chmod(0o755)
    shutil.rmtree(partial, ignore_errors=True)
    scratch = homes / ".fetched"
    scratch.mkdir(exist_ok=True)
    try:
        partial.mkdir(mode=0o755)
        for entry in plan["parcels"]:
            unpack(parcel(plan, entry, scratch), partial.resolve())
        if digest(partial / "VERSION") != plan["version"]:
            raise Refused(f"the parcels are not of {plan['home']}; deploy again")
        if link.is_symlink() and link.resolve().is_dir():
            os.utime(link.resolve())  # whatever its age, it is the newest
        shutil.rmtree(home, ignore_errors=True)
        partial.rename(home)
        point(link, home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
    others = sorted((path for path in homes.iterdir() if path != home), key=lambda path: path.stat().st_mtime)
    for other in others[:-OTHERS]:
        shutil.rmtree(other, ignore_errors=True)


if __name__ == "__main__":
    try:
        deliver(json.load(sys.stdin))
    except (Refused, OSError, tarfile.TarError) as error:
        sys.exit(str(error))
