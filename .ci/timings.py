"""Where the time of the tests went: seconds of each part, and the slowest tests, from the junit files in a folder.

python .ci/timings.py FOLDER
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

SLOWEST = 15


class Timing(NamedTuple):
    """A test with its fixtures."""

    seconds: float
    name: str


def timings(report: Path) -> Iterator[Timing]:
    """Of one part. A test that fails and whose fixture fails too is there twice."""
    for case in ET.parse(report).iter("testcase"):
        yield Timing(float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}")


def summary(folder: Path) -> str:
    """Two tables: the parts, then the slowest tests of all parts."""
    parts = {report.stem: list(timings(report)) for report in sorted(folder.glob("*.xml"))}
    wall = {
        name: sum(float(suite.get("time", 0)) for suite in ET.parse(folder / f"{name}.xml").iter("testsuite"))
        for name in parts
    }
    lines = [f"{'part':<12} {'tests':>6} {'wall s':>8} {'sum s':>8}"]
    for name in sorted(parts, key=lambda part: -wall[part]):
        lines.append(
            f"{name:<12} {len(parts[name]):>6} {wall[name]:>8.0f} {sum(timing.seconds for timing in parts[name]):>8.0f}"
        )
    slowest = sorted((timing for part in parts.values() for timing in part), reverse=True)[:SLOWEST]
    lines += ["", f"slowest {len(slowest)} tests", *(f"{timing.seconds:>8.1f} s  {timing.name}" for timing in slowest)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(summary(Path(sys.argv[1])))
