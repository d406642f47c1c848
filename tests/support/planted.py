"""Secrets with known values, and the search for them: by value, in every form in which they could have been written."""

import base64
import gzip
import hashlib
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus


def _made_up(name: str) -> str:
    """Always the same, valid nowhere, and in no file of the code: a bundle has that too, and is searched."""
    return base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()  # has + / =


VALUES = {
    "AWS_ACCESS_KEY_ID": f"AKIA{hashlib.sha256(b'planted').hexdigest()[:16].upper()}",
    **{name: _made_up(name) for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "BAROGRAPH_EMULAB_TOKEN")},
    "LAB_DATABASE_URL": _made_up("LAB_DATABASE_URL").replace("/", "_"),
}
# As a user has them in the environment.
ENVIRONMENT = {**VALUES, "LAB_DATABASE_URL": f"postgresql://ann:{VALUES['LAB_DATABASE_URL']}@db.example.org/lab"}


def forms(value: str) -> set[bytes]:
    """As it is, as a part of an address, in hexadecimal, and in base64 whatever stands before and behind it."""
    raw = value.encode()
    written = {raw, quote(value, safe="").encode(), quote_plus(value).encode(), raw.hex().encode()}
    for before in range(3):
        text = base64.b64encode(b"x" * before + raw + b"x" * (-(before + len(raw)) % 3))
        inner = text[4:-4]  # at either end bits of others may be mixed in
        written |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    return written


def leaks(values: Mapping[str, str], *folders: Path) -> list[str]:
    """`<file> holds <name>` for every file below these folders, also inside archives."""
    wanted = {name: forms(value) for name, value in values.items()}
    return sorted(
        f"{where} holds {name}"
        for folder in folders
        for path in ([folder] if folder.is_file() else sorted(folder.rglob("*")))
        if path.is_file() and not path.is_symlink()
        for where, content in contents(path)
        for name, written in wanted.items()
        if any(form in content for form in written)
    )


def contents(path: Path) -> Iterator[tuple[str, bytes]]:
    raw = path.read_bytes()
    yield str(path), raw
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as packed:
            for member in packed:
                if (file := packed.extractfile(member)) is not None:
                    yield f"{path}:{member.name}", file.read()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as opened:
            yield from ((f"{path}:{name}", opened.read(name)) for name in opened.namelist())
    elif raw[:2] == b"\x1f\x8b":
        yield f"{path}:", gzip.decompress(raw)


def private_key_lines(key: Path) -> dict[str, str]:
    """The lines of a private key between its marks: any of them somewhere else gives a part of it away."""
    lines = key.read_text().splitlines()[1:-1]
    return {f"line {number} of {key.name}": line for number, line in enumerate(lines, 1) if len(line) > 40}
