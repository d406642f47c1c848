"""Is every damaged worker line counted, in files of any size?

    python -m tests.calibration.damaged_lines --mb 1000

Writes worker lines of which nine in ten are damaged, each in one of several ways, analyses them as the product does,
and compares the table `damaged` and the rows of intact lines with what was written. Exit code 1 where they differ.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.calibration import ingest_bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAMAGED_SHARE = 0.9
Damage = Callable[[bytes], bytes]


def _without(key: bytes) -> Damage:
    return lambda line: line.replace(b'"' + key + b'"', b'"x' + key + b'"', 1)


WAYS: dict[str, Damage] = {
    "cut short": lambda line: line[: len(line) // 2],
    "the beginning is lost": lambda line: line[len(line) // 3 :],
    "two in one": lambda line: line[: len(line) // 2] + line,
    "zeros, as a power failure leaves them": lambda line: b"\0" * 100 + line[100:],
    "no UTF-8": lambda line: b"\xff\xfe" + line,
    "another kind of value": lambda _: b'["no", "object"]',
    "a number": lambda _: b"17",
    "text": lambda _: b"java.lang.OutOfMemoryError: Java heap space",
    "no time": _without(b"t"),
    "no number in its sequence": _without(b"seq"),
    "text for a number": lambda line: line.replace(b'"dt_s": 1.0', b'"dt_s": "one"', 1),
    "a line of a million years": lambda line: line.replace(b'"dt_s": 1.0', b'"dt_s": 3e13', 1),
    "a bucket that there is not": lambda line: re.sub(rb'"buckets": \[\[\d+', b'"buckets": [[100000', line, count=1),
    "a bucket that is null": lambda line: re.sub(rb'"buckets": \[\[\d+', b'"buckets": [[null', line, count=1),
    "a column that is shorter": lambda line: line.replace(b'"queue": [', b'"queue": [], "other": [', 1),
}


@dataclass(frozen=True)
class Written:
    """By file: lines and how many are damaged."""

    lines: dict[str, int]
    damaged: dict[str, int]


def generate(folder: Path, megabytes: float, seed: int = 1) -> Written:
    """A series of one run in the folder."""
    chance, lines, damaged = random.Random(seed), Counter[str](), Counter[str]()
    ways = list(WAYS.values())
    for path in ingest_bench.generate(folder, megabytes):
        name, whole = f"workers/{path.name}", path.with_suffix(".whole")
        path.rename(whole)
        with whole.open("rb") as source, path.open("wb") as target:
            for line in source:
                lines[name] += 1
                if chance.random() < DAMAGED_SHARE:
                    damaged[name] += 1
                    target.write(chance.choice(ways)(line.rstrip(b"\n")) + b"\n")
                else:
                    target.write(line)
        whole.unlink()
    return Written(dict(lines), dict(damaged))


def counted(spark: "SparkSession", folder: Path) -> tuple[Written, int]:
    """What the analysis says, and how many lines it took as intact."""
    from analysis.ingest import tables
    from analysis.record.files import SeriesPaths
    from analysis.record.small_tables import rows

    paths = SeriesPaths(folder)
    tables.build_tables(spark, paths)
    table = rows(paths, "damaged")
    intact = tables.read(spark, paths, "worker_samples").count()
    return Written(*({row["file"]: row[key] for row in table} for key in ("lines", "damaged"))), intact


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=float, default=1000.0, help="megabytes of lines before they are damaged")
    arguments = parser.parse_args()
    from analysis import session

    with tempfile.TemporaryDirectory(prefix="barograph-damaged-") as name:
        folder = Path(name)
        written = generate(folder, arguments.mb)
        size = sum(file.stat().st_size for file in folder.rglob("*.jsonl"))
        spark = session.spark(raw_bytes=size)
        try:
            begin_s = time.monotonic()
            seen, intact = counted(spark, folder)
            took_s = time.monotonic() - begin_s
        finally:
            spark.stop()
    facts: dict[str, Any] = {
        "mb": round(size / 1e6, 1), "lines": sum(written.lines.values()), "damaged": sum(written.damaged.values()),
        "counted_lines": sum(seen.lines.values()), "counted_damaged": sum(seen.damaged.values()), "intact": intact,
        "took_s": round(took_s, 1),
    }  # fmt: skip
    print(json.dumps(facts))
    return 0 if seen == written and intact == facts["lines"] - facts["damaged"] else 1


if __name__ == "__main__":
    sys.exit(main())
