"""What must not be given away: keys, tokens, addresses of webhooks. Files are looked through in pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PIECE = 1 << 20
OVERLAP = 4096  # of two pieces: longer than any secret that is looked for
LEAST = 12  # characters of a value of the environment that is looked for: shorter ones are words
NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSPHRASE|WEBHOOK|ACCESS_KEY|API_?KEY", re.IGNORECASE)
SHAPES = {
    "a private key": rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "an AWS access key": rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a bearer token": rb"\bBearer\s+[A-Za-z0-9._~+/=-]{16,}",
    "a webhook": rb"https?://hooks\.[^\s\"'<>]{8,}|https?://[^\s\"'<>]*/webhooks?/[^\s\"'<>]{8,}",
    "a password in an address": rb"\b[a-z][a-z0-9+.-]*://[^\s\"'/@:]+:[^\s\"'/@]+@",
    # A long word with a digit, after a name that says what it is.
    "a token": rb"(?i)\b[\w.-]*(?:secret|token|passw(?:or)?d|api[_-]?key)[\"']?\s*[:=]\s*[\"']?"
    rb"(?=[A-Za-z+/_-]*\d)[A-Za-z0-9+/_-]{20,}",
}


@dataclass(frozen=True)
class Found:
    """`what` is said, the secret itself never."""

    line: int
    what: str


@dataclass(frozen=True)
class Search:
    """Shapes of secrets, and those that this process has in its environment, by the name of the variable."""

    pattern: re.Pattern[bytes]
    kinds: Mapping[str, str]

    def first(self, path: Path) -> Found | None:
        """The first secret in a file."""
        line, before = 1, b""
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                text = before + piece
                if match := self.pattern.search(text):
                    return Found(line + text.count(b"\n", 0, match.start()), self.kinds[str(match.lastgroup)])
                line += text.count(b"\n", 0, max(0, len(text) - OVERLAP))
                before = text[-OVERLAP:]
        return None


def search(environment: Mapping[str, str]) -> Search:
    known = {f"the value of ${name}": re.escape(value.encode()) for name, value in sorted(environment.items())
             if NAMES.search(name) and len(value) >= LEAST}  # fmt: skip
    kinds = {f"k{number}": what for number, what in enumerate([*SHAPES, *known])}
    groups = (
        b"(?P<%s>%s)" % (name.encode(), _local(shape))
        for name, shape in zip(kinds, [*SHAPES.values(), *known.values()], strict=True)
    )
    return Search(re.compile(b"|".join(groups)), kinds)


def _local(shape: bytes) -> bytes:
    """A flag at the beginning holds for its own shape only."""
    return b"(?i:%s)" % shape.removeprefix(b"(?i)") if shape.startswith(b"(?i)") else shape
