"""What policies on a master use beside the standard library and numpy: pymetis, as wheels of the versions that
requirements.txt pins, in one folder for every Python that a master may have.

Set-up fetches them into the cache with the uv that made this environment, deploy delivers the folder, and the policy
service has it on its path. Compiled parts have the Python's version in their names, so that they do not meet. Machines
need no package index for it. Where they cannot be fetched set-up goes on with a note: the policy `metis` refuses then.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from barograph.child_processes import ChildProcess
from barograph.errors import Say
from barograph.settings import ROOT
from inventory.local.rootfs import cache_dir
from playbooks.storm_home.assemble import atomic_folder

PACKAGES = ("pymetis", "typing-extensions")  # numpy is on every master
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
UV = ROOT / ".barograph" / "uv" / "bin" / "uv"
REQUIREMENTS = ROOT / "requirements.txt"
LIMIT_S = 120  # of one Python: some 500 kB


class FetchFailed(Exception):
    """uv did not bring a wheel."""


def libraries_folder() -> Path | None:
    """None where set-up has not fetched it."""
    folder = _folder()
    return folder if folder.is_dir() else None


def fetch_libraries(say: Say) -> Path | None:
    """The folder, fetched if it is not there; None, and a note, where it cannot be."""
    folder = _folder()
    if folder.is_dir():
        return folder
    try:
        with atomic_folder(folder) as unfinished:
            for python in PYTHONS:
                _fetch(python, unfinished)
    except FetchFailed as error:
        say(f"note: {error}; the policy metis will refuse on machines until set-up has fetched pymetis")
        return None
    return folder


def _folder() -> Path:
    """By what is pinned, for this kind of processor."""
    versions = "-".join(
        line.partition(" ")[0].replace("==", "-")
        for line in pinned(PACKAGES, REQUIREMENTS).splitlines()
        if "==" in line
    )
    return cache_dir() / f"libraries-{versions}-{os.uname().machine}"


def pinned(packages: tuple[str, ...], requirements: Path) -> str:
    """The lines of these packages in a file of pinned requirements, with their hashes."""
    lines: list[str] = []
    is_wanted = False
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if not line.startswith((" ", "#")):
            is_wanted = line.partition("==")[0] in packages
        if is_wanted and not line.lstrip().startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def _fetch(python: str, into: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="barograph-libraries-") as scratch:
        requirements, target = Path(scratch, "requirements.txt"), Path(scratch, "target")
        requirements.write_text(pinned(PACKAGES, REQUIREMENTS), encoding="utf-8")
        argv = [
            str(UV), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:",
            "--python-version", python, "--python-platform", f"{os.uname().machine}-manylinux_2_28",
            "--target", str(target), "--requirements", str(requirements),
        ]  # fmt: skip
        _run(argv, python)
        shutil.copytree(target, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".lock", "bin"))


def _run(argv: list[str], python: str) -> None:
    what = f"pymetis for Python {python} could not be fetched"
    with tempfile.TemporaryFile() as output:
        try:
            with ChildProcess(argv, folder=ROOT, output=output) as uv:
                code = uv.wait(LIMIT_S)
        except OSError as error:
            raise FetchFailed(f"{what}: {UV} is not there (make setup)") from error
        output.seek(0)
        said = " ".join(output.read().decode(errors="replace").split())[-300:]
    if code is None:
        raise FetchFailed(f"{what}: uv did not end within {LIMIT_S} s")
    if code != 0:
        raise FetchFailed(f"{what}: {said or f'uv ended with {code}'}")
