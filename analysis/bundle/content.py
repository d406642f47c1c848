"""Select the files of a series for its bundle, say why others are left out, search for secrets, and write the archive.

Keys, tokens and webhook addresses must not be published. Files are searched in pieces, for shapes of secrets
and for the values of this process's environment.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import quote, quote_plus

from analysis.record.files import COUNTERFACTUALS, SeriesPaths
from barograph.errors import ConfigurationError

PIECE_BYTES = 1 << 20
OVERLAP_BYTES = 4096  # of two pieces: longer than any secret in the search
LEAST_SECRET_LENGTH = 12  # characters of a value of the environment in the search: shorter ones are words
LEAST_PASSWORD_LENGTH = 6  # of a password in an address
ADDRESS_PASSWORD = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSPHRASE|WEBHOOK|ACCESS_KEY|API_?KEY", re.IGNORECASE)


@dataclass(frozen=True)
class SecretShape:
    """A pattern. `hints`: lower-case words, one of which every match contains; most measured data has none of them,
    and a search for words is a hundred times faster than one for patterns."""

    what: str
    hints: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


SECRET_SHAPES = (
    SecretShape("a private key", (b"private key",), re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
    SecretShape("an AWS access key", (b"akia", b"asia"), re.compile(rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    SecretShape("a bearer token", (b"bearer",), re.compile(rb"\bBearer\s+[A-Za-z0-9._~+/=-]{16,}")),
    SecretShape(
        "a webhook", (b"://hooks.", b"/webhook"),
        re.compile(rb"https?://hooks\.[^\s\"'<>]{8,}|https?://[^\s\"'<>]*/webhooks?/[^\s\"'<>]{8,}"),
    ),
    SecretShape("a password in an address", (b"://",), re.compile(rb"://[^\s\"'/@:]+:[^\s\"'/@]+@")),
    SecretShape(
        "a password of Ansible", (b"ansible_",),
        re.compile(rb"\bansible_(?:\w+_)?pass(?:word|phrase)?[\"']?\s*[:=]\s*[\"']?(?!\{\{|!vault)[^\s\"'#]"),
    ),
    # A long word with a digit, after a name that says that it is secret.
    SecretShape(
        "a token", (b"secret", b"token", b"passw", b"api_key", b"api-key", b"apikey", b"access_key"),
        re.compile(
            rb"(?:secret|token|passw(?:or)?d|api[_-]?key|access_key)[\"']?\s*[:=]\s*[\"']?"
            rb"(?=[a-z+/_-]*\d)[a-z0-9+/_-]{20,}",
            re.IGNORECASE,
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Secret:
    """A finding; `what` is shown, the secret itself never."""

    line: int
    what: str


@dataclass(frozen=True)
class SecretSearch:
    shapes: Sequence[SecretShape]

    def first_in(self, text: bytes) -> Secret | None:
        """Return the first secret in a text."""
        match = self._earliest(text)
        return Secret(1 + text.count(b"\n", 0, match[0]), match[1]) if match else None

    def first(self, path: Path) -> Secret | None:
        """Return the first secret in a file."""
        line, before = 1, b""
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                text = before + piece
                if match := self._earliest(text):
                    return Secret(line + text.count(b"\n", 0, match[0]), match[1])
                line += text.count(b"\n", 0, max(0, len(text) - OVERLAP_BYTES))
                before = text[-OVERLAP_BYTES:]
        return None

    def _earliest(self, text: bytes) -> tuple[int, str] | None:
        lower_case = text.lower()
        shapes = (shape for shape in self.shapes if any(hint in lower_case for hint in shape.hints))
        matches = ((shape.pattern.search(text), shape.what) for shape in shapes)
        return min(((match.start(), label) for match, label in matches if match), default=None)


def secret_search(environment: Mapping[str, str]) -> SecretSearch:
    """Return shapes of secrets, and the secrets in this process's environment, by the name of the variable."""
    # The variable's name describes a value better, even if a shape matches too.
    return SecretSearch((*environment_search(environment).shapes, *SECRET_SHAPES))


def environment_search(environment: Mapping[str, str]) -> SecretSearch:
    """Return the values of variables with secret-sounding names, and passwords in addresses."""
    shapes = []
    for name, value in sorted(environment.items()):
        if SECRET_NAMES.search(name) and len(value) >= LEAST_SECRET_LENGTH:
            shapes.append(_value_shape(f"the value of ${name}", value))
        elif (address := ADDRESS_PASSWORD.search(value)) and len(address[1]) >= LEAST_PASSWORD_LENGTH:
            shapes.append(_value_shape(f"the password in ${name}", address[1]))
    return SecretSearch(shapes)


def _value_shape(what: str, value: str) -> SecretShape:
    forms = sorted(written_forms(value.encode()), key=len, reverse=True)
    return SecretShape(what, tuple(form.lower() for form in forms), re.compile(b"|".join(map(re.escape, forms))))


def written_forms(value: bytes) -> set[bytes]:
    """Return the value as it is, as part of an address, and in base64 at each of the three offsets."""
    forms = {value, quote(value, safe="").encode(), quote_plus(value).encode()}
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value)
        # The first characters mix with the bytes before it, the last ones with those after it.
        inner = encoded[-(-before * 8 // 6) : len(encoded) - (4 if (before + len(value)) % 3 else 0)]
        if len(inner) >= LEAST_SECRET_LENGTH:
            forms |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    return forms


@dataclass(frozen=True)
class ArchiveEntry:
    """A file of the archive."""

    name: str
    source: Path | bytes
    executable: bool = False


SERIES = "series"  # folder of the series in its bundle
HARNESS_FILES = {
    "machines.json": "addresses and ssh keys' places of machines that are gone",
    "stop": "a sign between processes", "hold.json": "a sign between processes",
}  # fmt: skip
EMPTY_RUN_FILE = ".nothing-was-recorded"
RAW_FOLDERS = ("workers", "machines", "readings", "logs")  # of a run: left out by --without raw
# No number is computed from these, so a file with a secret can be left out.
LOG_FILES = re.compile(r"runs/[^/]+/logs/|harness\.log|progress\.jsonl|changes-[^/]*\.patch")
HOME_FOLDERS = re.compile(rb"/(?:home|Users)/[\w.-]+/|/root/")


@dataclass
class Selection:
    """The files of a bundle. `left_out`: name -> reason; `homes`: files that name home folders."""

    entries: list[ArchiveEntry] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    homes: list[str] = field(default_factory=list)


def select_files(root: Path, *, without_raw: bool, environment: Mapping[str, str]) -> Selection:
    """Select files of the series in `root`. Raises ConfigurationError for a secret in a file that numbers need."""
    selection, secrets = Selection(), secret_search(environment)
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        reason = _reason_to_omit(PurePosixPath(name), without_raw)
        if reason:
            selection.left_out[_file_group(name)] = reason
            continue
        if hit := secrets.first(path):
            if not LOG_FILES.match(name):
                raise ConfigurationError(
                    f"{path}, line {hit.line}, holds {hit.what}; numbers are computed of this file, so it cannot be"
                    " left out: take it out there, then analyse the series again"
                )
            selection.left_out[name] = f"holds {hit.what} in line {hit.line}"
            continue
        if LOG_FILES.match(name):
            with path.open("rb") as file:
                selection.homes += [name] if any(HOME_FOLDERS.search(line) for line in file) else []
        selection.entries.append(ArchiveEntry(f"{SERIES}/{name}", path))
    # An archive has files only.
    runs = {entry.name.split("/")[2] for entry in selection.entries if entry.name.startswith(f"{SERIES}/runs/")}
    selection.entries += [ArchiveEntry(f"{SERIES}/runs/{run.run_id}/{EMPTY_RUN_FILE}", b"")
                          for run in SeriesPaths(root).all_runs() if run.run_id not in runs]  # fmt: skip
    return selection


def _files(root: Path) -> Iterator[Path]:
    """Yield the files; in a series of one run the records are links."""
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from (Path(folder) / name for name in sorted(files)
                    if not name.startswith((".", "_")) and not name.endswith(".crc"))  # fmt: skip


def _reason_to_omit(name: PurePosixPath, without_raw: bool) -> str | None:
    if name.name in HARNESS_FILES:
        return HARNESS_FILES[name.name]
    if name.parts[0] == "attempts" and name.name != "run.json":
        return "of an attempt that was repeated its run.json is all that is analysed"
    if name.parts[0] == COUNTERFACTUALS:
        return "simulated, and no part of what was measured; `barograph replay RUN --simulate` makes it again"
    if without_raw and name.parts[0] == "runs" and len(name.parts) > 3 and name.parts[2] in RAW_FOLDERS:
        return "asked for: --without raw"
    return None


def _file_group(name: str) -> str:
    """Return one name for all files of a kind: `runs/*/workers`, not each worker's."""
    parts = name.split("/")
    if parts[0] == "runs" and len(parts) > 3:
        return f"runs/*/{parts[2]}"
    return f"{parts[0]}/*" if parts[0] in ("attempts", COUNTERFACTUALS) else parts[-1]


SUMS = "SHA256SUMS"
TIME_S = 315_532_800  # 1980: the earliest time that every format can store
LEVEL = 6


def write_archive(target: Path, top: str, entries: Iterable[ArchiveEntry]) -> None:
    """Write every entry below the folder `top`, then their SHA-256 sums, as a `.tar.gz` whose bytes depend on names and
    contents only: sorted, without times, owners or host name. `target` appears whole or not at all, and an existing
    file is never overwritten."""
    sums = []
    with (
        _new_file(target) as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry in sorted(entries, key=lambda entry: entry.name):
            sums.append(f"{_add(tar, top, entry)}  {entry.name}\n")
        _add(tar, top, ArchiveEntry(SUMS, "".join(sums).encode()))


@contextmanager
def _new_file(target: Path) -> Iterator[IO[bytes]]:
    scratch = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with scratch.open("wb") as file:
            yield file
        os.link(scratch, target)  # fails if there is one, even one created meanwhile
    except FileExistsError as error:
        raise ConfigurationError(
            f"{target} exists; nothing is overwritten: give --to another name, or remove it"
        ) from error
    finally:
        scratch.unlink(missing_ok=True)


def _add(tar: tarfile.TarFile, top: str, entry: ArchiveEntry) -> str:
    """Add the entry and return its digest."""
    info = tarfile.TarInfo(f"{top}/{entry.name}")
    info.mode, info.mtime = 0o755 if entry.executable else 0o644, TIME_S
    with io.BytesIO(entry.source) if isinstance(entry.source, bytes) else entry.source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        info.size = file.seek(0, io.SEEK_END)
        file.seek(0)
        tar.addfile(info, file)
    return digest
