"""What must not be given away: keys, tokens, addresses of webhooks. Files are looked through in pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PIECE = 1 << 20
OVERLAP = 4096  # of two pieces: longer than any secret that is looked for
LEAST = 12  # characters of a value of the environment that is looked for: shorter ones are words
NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSPHRASE|WEBHOOK|ACCESS_KEY|API_?KEY", re.IGNORECASE)


@dataclass(frozen=True)
class Shape:
    """`hints`: words in small letters without one of which there is none; most of what is measured has none of them,
    and looking for words is a hundred times faster than looking for shapes."""

    what: str
    hints: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


SHAPES = (
    Shape("a private key", (b"private key",), re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
    Shape("an AWS access key", (b"akia", b"asia"), re.compile(rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    Shape("a bearer token", (b"bearer",), re.compile(rb"\bBearer\s+[A-Za-z0-9._~+/=-]{16,}")),
    Shape(
        "a webhook", (b"://hooks.", b"/webhook"),
        re.compile(rb"https?://hooks\.[^\s\"'<>]{8,}|https?://[^\s\"'<>]*/webhooks?/[^\s\"'<>]{8,}"),
    ),
    Shape("a password in an address", (b"://",), re.compile(rb"://[^\s\"'/@:]+:[^\s\"'/@]+@")),
    # A long word with a digit, after a name that says what it is.
    Shape(
        "a token", (b"secret", b"token", b"passw", b"api_key", b"api-key", b"apikey", b"access_key"),
        re.compile(
            rb"(?:secret|token|passw(?:or)?d|api[_-]?key|access_key)[\"']?\s*[:=]\s*[\"']?"
            rb"(?=[a-z+/_-]*\d)[a-z0-9+/_-]{20,}",
            re.IGNORECASE,
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """`what` is said, the secret itself never."""

    line: int
    what: str


@dataclass(frozen=True)
class Search:
    shapes: Sequence[Shape]

    def first(self, path: Path) -> Found | None:
        """The first secret in a file."""
        line, before = 1, b""
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                text = before + piece
                if found := self._earliest(text):
                    return Found(line + text.count(b"\n", 0, found[0]), found[1])
                line += text.count(b"\n", 0, max(0, len(text) - OVERLAP))
                before = text[-OVERLAP:]
        return None

    def _earliest(self, text: bytes) -> tuple[int, str] | None:
        small = text.lower()
        possible = (shape for shape in self.shapes if any(hint in small for hint in shape.hints))
        matches = ((shape.pattern.search(text), shape.what) for shape in possible)
        return min(((match.start(), what) for match, what in matches if match), default=None)


def search(environment: Mapping[str, str]) -> Search:
    """Shapes of secrets, and those that this process has in its environment, by the name of the variable."""
    own = tuple(
        Shape(f"the value of ${name}", (value.lower().encode(),), re.compile(re.escape(value.encode())))
        for name, value in sorted(environment.items())
        if NAMES.search(name) and len(value) >= LEAST
    )
    # What a variable says is said by its name, where a shape would fit too.
    return Search((*own, *SHAPES))
