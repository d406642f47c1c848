"""Links the programs of the given Debian packages into a folder, so that it can be the PATH of tests.

Usage: programs.py FOLDER PACKAGE...

Linked are the programs of these packages, of the installed packages that they depend on, and of Essential ones: what a
new machine has after set-up, and nothing that only this machine has (/usr/local, another Python, other packages).
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 60.0  # of dpkg-query
FIELDS = ("Package", "db:Status-Status", "Essential", "Pre-Depends", "Depends", "Provides")
FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")  # the first that has a program wins, as on root's PATH


@dataclass(frozen=True)
class Package:
    name: str
    essential: bool
    depends: tuple[tuple[str, ...], ...]
    """Each entry has its alternatives in the order of preference."""
    provides: tuple[str, ...]


class NotInstalled(Exception):
    """A package that was asked for is not on this machine."""


def main(arguments: list[str]) -> int:
    folder, wanted = Path(arguments[0]), arguments[1:]
    try:
        names = closure(installed(), wanted)
    except NotInstalled as error:
        print(f"infrastructure: {error}", file=sys.stderr)
        return 4
    link(folder, programs(files(names)))
    return 0


def installed() -> dict[str, Package]:
    """Every installed package by its name."""
    form = "\\t".join(f"${{{field}}}" for field in FIELDS) + "\\n"
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True, timeout=LIMIT_S
    ).stdout
    rows = [line.split("\t") for line in listed.splitlines()]
    return {
        name: Package(name, essential == "yes", _depends(before) + _depends(depends), _names(provides))
        for name, status, essential, before, depends, provides in rows
        if status == "installed"
    }


def closure(packages: dict[str, Package], wanted: Iterable[str]) -> set[str]:
    """The names of `wanted`, of Essential packages, and of all that these depend on."""
    if missing := sorted(set(wanted) - set(packages)):
        raise NotInstalled(f"set-up declares packages that are not installed: {', '.join(missing)}; run .ci/bootstrap")
    found: set[str] = set()
    todo = [*wanted, *(name for name, package in packages.items() if package.essential)]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [_chosen(packages, alternatives, found) for alternatives in packages[name].depends]
    return found


def _chosen(packages: dict[str, Package], alternatives: tuple[str, ...], found: set[str]) -> str:
    """The package that satisfies a dependency: as apt does, the first alternative, itself or who provides it."""
    for alternative in alternatives:
        candidates = [name for name, one in packages.items() if alternative == name or alternative in one.provides]
        if candidates:
            return min(candidates, key=lambda name: (name != alternative, name not in found, name))
    raise NotInstalled(f"a dependency is not installed: {' | '.join(alternatives)}; run apt-get install --fix-broken")


def files(names: Iterable[str]) -> set[str]:
    """The files of these packages, by their real places: /bin may be a link to /usr/bin."""
    argv = ["dpkg-query", "-L", *sorted(names)]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout.splitlines()
    return {_placed(line) for line in listed if line.startswith("/")}


def programs(owned: set[str]) -> dict[str, str]:
    """Where each program is, by its name. A link that dpkg does not know (an alternative) counts by its target."""
    found: dict[str, str] = {}
    for path in _candidates():
        known = _placed(str(path)) in owned or os.path.realpath(path) in owned
        if known and os.access(path, os.X_OK) and path.is_file():
            found.setdefault(path.name, str(path))
    return found


def _candidates() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted(Path(folder).iterdir()) if Path(folder).is_dir() else ()


def link(folder: Path, wanted: dict[str, str]) -> None:
    """Make the folder's links those that are wanted; a process that uses the folder meanwhile misses none of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in wanted:
            old.unlink(missing_ok=True)
    for name, target in wanted.items():
        path = folder / name
        if not path.is_symlink() or str(path.readlink()) != target:
            new = folder / f".{name}.{os.getpid()}"
            new.symlink_to(target)
            new.replace(path)


def _placed(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{os.path.realpath(folder or '/')}/{name}" if name else path


def _depends(field: str) -> tuple[tuple[str, ...], ...]:
    """`a (>= 1), b:any | c` as (("a",), ("b", "c"))."""
    return tuple(
        tuple(re.split(r"[\s(:]", alternative.strip(), maxsplit=1)[0] for alternative in entry.split("|"))
        for entry in field.split(",")
        if entry.strip()
    )


def _names(field: str) -> tuple[str, ...]:
    return tuple(name for (name, *_) in _depends(field))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
