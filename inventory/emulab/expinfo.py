"""What `expinfo` prints (Emulab's tbreport): sections with a title, two header lines and columns."""

import re
from collections.abc import Iterator

GONE = re.compile(r"no (such )?experiment", re.IGNORECASE)


def state(output: str) -> str:
    """`active`, `swapped`, …; empty where the experiment is in transition and nothing is told."""
    found = re.search(r"^State:\s*(\S+)", output, re.MULTILINE)
    return found[1] if found else ""


def qualified_names(output: str) -> dict[str, str]:
    """Machine → its name on the control net (`-n`). A line of a node is not indented, what follows it is."""
    rows = (line.split() for line in _section(output, "Virtual Node Info:") if not line.startswith(" "))
    return {words[0]: words[-1] for words in rows if len(words) >= 3 and "." in words[-1]}


def mapping(output: str) -> dict[str, str]:
    """Machine → physical node (`-m`)."""
    rows = (line.split() for line in _section(output, "Physical Node Mapping:"))
    return {words[0]: words[3] for words in rows if len(words) >= 4}


def addresses(output: str) -> dict[str, str]:
    """Machine → its address on the experiment's LAN (`-l`); the second line of a member has the mask and is skipped."""
    # Older releases call the section `Lan/Link Info:`.
    rows = (line.split() for line in _section(output, "Lan/Link Info:"))
    members = ((words[1], words[2]) for words in rows if len(words) >= 3 and ":" in words[1])
    return {member.partition(":")[0]: address for member, address in members if re.fullmatch(r"[\d.]+", address)}


def _section(output: str, title: str) -> Iterator[str]:
    lines = iter(output.splitlines())
    for line in lines:
        if line.strip().endswith(title):
            break
    for line in lines:
        if not line.strip():
            return
        if not re.match(r"\s*(ID\s|-{5})", line):
            yield line
