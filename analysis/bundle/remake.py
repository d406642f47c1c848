#!/usr/bin/env python3

"""Checks every file of this bundle, then makes its tables, figures and report again from the raw lines and compares.

Needs Python 3.11 or 3.12, and the network once, for the Python packages pinned in
requirements-analysis.txt; with --python an interpreter that has them is used, and no network. Standard library only.

Exit codes: 0 everything is there and equal, 1 what was made again differs, 2 it could not be made again,
3 a file of the bundle is damaged, missing, or was added.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUMS = "SHA256SUMS"
EQUAL, DIFFERS, CANNOT, DAMAGED = 0, 1, 2, 3
MEANING = {0: EQUAL, 10: DIFFERS}  # exit codes of `analysis.bundle.reproduction`
PYTHONS = ((3, 11), (3, 12))
ENVIRONMENT_NAMES = ("PATH", "JAVA_HOME", "HOME", "TMPDIR", "LD_LIBRARY_PATH")  # of the caller's environment
MARK = ".made-by-remake"  # in a folder that is not part of the bundle
CHUNK = 1 << 20
# Seconds.
PIP_LIMIT_S = 3600.0  # 500 MB of packages
ANALYSIS_LIMIT_S = 6 * 3600.0  # a long series on few cores


def main() -> int:
    options = arguments()
    target = (options.to or HERE / "remade").absolute()
    faults = list(verify())
    for fault in faults:
        print(fault)
    if faults:
        print(f"damaged: {len(faults)} files of this bundle are not as they were packed; nothing was made again")
        return DAMAGED
    print(f"checksums: all {len(sums())} files are as they were packed")
    if options.only_verify:
        return EQUAL
    try:
        python = interpreter(options.python, target)
        return remake(python, target)
    except (CannotRemake, OSError, subprocess.SubprocessError) as error:
        print(f"cannot be made again: {error}", file=sys.stderr)
        return CANNOT


class CannotRemake(Exception):
    """The reason why nothing was made again, and what to do."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\nExit")[0])
    parser.add_argument("--only-verify", action="store_true", help="look at the checksums, make nothing")
    parser.add_argument("--python", metavar="EXE", help="a Python that has the packages of requirements-analysis.txt")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="where to make it (default: remade/ in this bundle)")
    return parser.parse_args()


# --- checksums -------------------------------------------------------------------------------------------------------


def sums() -> dict[str, str]:
    """Return name -> SHA-256, as `sha256sum -c SHA256SUMS` reads them."""
    lines = (HERE / SUMS).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def verify() -> Iterator[str]:
    """Yield one line for each file that differs from the packed one; folders made here earlier are ignored."""
    if not (HERE / SUMS).is_file():
        yield f"missing: {SUMS}"
        return
    digests = sums()
    for name, digest in digests.items():
        path = HERE / name
        if not path.is_file():
            yield f"missing: {name}"
        elif sha256(path) != digest:
            yield f"changed: {name}"
    outputs = {mark.parent for mark in HERE.glob(f"*/{MARK}")}
    for path in sorted(HERE.rglob("*")):
        if not outputs & {path, *path.parents} and not path.is_dir():
            name = path.relative_to(HERE).as_posix()
            if name not in digests and name != SUMS:
                yield f"added: {name}"


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


# --- making it again -------------------------------------------------------------------------------------------------


def interpreter(path: str | None, target: Path) -> str:
    """Return a Python with the packages: the given one, or that of an environment made here."""
    if target.exists():
        raise CannotRemake(
            f"{target} is there already, and nothing is written over: remove it, or give --to another folder"
        )
    if path is not None:
        program = shutil.which(path)
        if program is None:
            raise CannotRemake(f"--python {path}: there is no such program")
        return program
    if sys.version_info[:2] not in PYTHONS:
        version = sys.version.split()[0]
        raise CannotRemake(
            f"this is Python {version}; the pinned packages are for 3.11 and 3.12: start it with one of them"
        )
    return make_environment(target.with_name(f"{target.name}-python"))


def make_environment(folder: Path) -> str:
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return str(python)
    print(f"environment: installing requirements-analysis.txt into {folder}")
    try:
        venv.create(folder, clear=True, with_pip=True)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)  # half an environment would look like files that somebody added
        if isinstance(error, subprocess.CalledProcessError):
            raise CannotRemake(
                f"{sys.executable} makes no environment with pip: apt-get install python3-venv, or give --python an"
                " interpreter that has the packages"
            ) from error
        raise
    (folder / MARK).touch()
    argv = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r",
            str(HERE / "requirements-analysis.txt")]  # fmt: skip
    if subprocess.run(argv, timeout=PIP_LIMIT_S).returncode != 0:
        raise CannotRemake("pip failed (above); give --python an interpreter that has these packages")
    (folder / "complete").touch()
    return str(python)


def remake(python: str, target: Path) -> int:
    target.mkdir(parents=True)
    (target / MARK).touch()
    print(f"making tables, figures and report again in {target}", flush=True)
    environment = {name: os.environ[name] for name in ENVIRONMENT_NAMES if name in os.environ}
    environment |= {
        # The code of the bundle has precedence over this Python's packages; nothing may be written beside it.
        "PYTHONPATH": str(HERE / "code"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8",
        "TZ": "UTC", "MPLCONFIGDIR": str(target / ".matplotlib"),
    }  # fmt: skip
    argv = [python, "-m", "analysis.bundle.reproduction", str(HERE), str(target)]
    process = subprocess.run(argv, env=environment, cwd=target, timeout=ANALYSIS_LIMIT_S)
    shutil.rmtree(target / ".matplotlib", ignore_errors=True)
    if process.returncode not in MEANING:
        hint = f"{python} may lack packages of requirements-analysis.txt"
        raise CannotRemake(f"the analysis ended with {process.returncode} (above); {hint}")
    return MEANING[process.returncode]


if __name__ == "__main__":
    sys.exit(main())
