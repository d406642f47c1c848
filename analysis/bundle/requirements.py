"""Of the pinned requirements those that the analysis needs, found by what each one is there for. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

BEGIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*==")
VIA = re.compile(r"#\s+(?:via\s+)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)")


def needed(pinned: str, roots: Collection[str]) -> str:
    """The blocks (pin, hashes, `via` comments) of `roots` and of all that they need."""
    blocks = _blocks(pinned)
    wanted = {_plain(name) for name in roots} & set(blocks)
    while more := {name for name in set(blocks) - wanted if _vias(blocks[name]) & wanted}:
        wanted |= more
    return "".join(blocks[name] for name in sorted(wanted))


def _blocks(pinned: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = None
    for line in pinned.splitlines(keepends=True):
        if begin := BEGIN.match(line):
            name = _plain(begin["name"])
            found.setdefault(name, "")  # a package may be pinned once for each version of Python
        if name is not None and line.strip():
            found[name] += line
    return found


def _vias(block: str) -> set[str]:
    comments = (line.strip() for line in block.splitlines() if line.strip().startswith("#"))
    return {_plain(match["name"]) for comment in comments if (match := VIA.match(comment))}


def _plain(name: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()
