"""Is every damaged worker line counted, in files of any size?

    python -m bench.speed.damaged_lines --mb 1000

Writes worker lines of which nine in ten are damaged, each in one of several ways, analyses them as the product does,
and compares the table `damaged` and the rows of intact lines with what was written. Exit code 1 where they differ.
"""

import argparse
import copy
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

from analysis.record import worker_files
from bench.speed import ingest_bench

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
    "a column that is shorter": lambda line: line.replace(b'"queue": [', b'"queue": [], "other": [', 1),
}


def _remade(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], bytes]:
    """A block of a line that was changed, with a checksum that is right."""

    def made(line: dict[str, Any]) -> bytes:
        line = copy.deepcopy(line)
        change(line)
        return worker_files.block(line)

    return made


def _spoilt(damage: Damage) -> Callable[[dict[str, Any]], bytes]:
    return lambda line: damage(worker_files.block(line))


# Of a line as workers write it: the block that stands for it.
AVRO_WAYS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "cut short": _spoilt(lambda block: block[: len(block) // 2]),
    "the beginning is lost": _spoilt(lambda block: block[len(block) // 3 :]),
    "two in one": _spoilt(lambda block: block[: len(block) // 2] + block),
    "zeros, as a power failure leaves them": _spoilt(lambda block: b"\0" * 100 + block[100:]),
    "zeros in the middle": _spoilt(lambda block: block[:200] + b"\0" * 50 + block[250:]),
    "a bit": _spoilt(lambda block: block[:150] + bytes([block[150] ^ 4]) + block[151:]),
    "a length of gigabytes": _spoilt(lambda block: b"\x02\xfe\xff\xff\xff\x0f" + block),
    "text": lambda _: b"java.lang.OutOfMemoryError: Java heap space",
    "a line of a million years": _remade(lambda line: line.update(dt_s=3e13)),
    "a bucket that there is not": _remade(lambda line: line["sinks"]["buckets"][0].__setitem__(0, 100000)),
    "more counts than buckets": _remade(lambda line: line["sinks"]["counts"][0].append(1)),
    "a column that is shorter": _remade(lambda line: line["tasks"]["queue"].clear()),
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


def generate_avro(folder: Path, megabytes: float, seed: int = 1) -> Written:
    """The same in Avro; `megabytes` are of JSON."""
    chance, lines, damaged = random.Random(seed), Counter[str](), Counter[str]()
    ways = list(AVRO_WAYS.values())
    for source in ingest_bench.generate(folder, megabytes):
        path = source.with_suffix(worker_files.SUFFIX)
        name = f"workers/{path.name}"
        with source.open(encoding="ascii") as texts, path.open("wb") as target:
            target.write(worker_files.header() + worker_files.MARKER)
            for line in map(json.loads, texts):
                lines[name] += 1
                spoil = chance.random() < DAMAGED_SHARE
                damaged[name] += spoil
                block = chance.choice(ways)(line) if spoil else worker_files.block(line)
                target.write(block + worker_files.MARKER)
        source.unlink()
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
    parser.add_argument("--json", action="store_true", help="lines as workers wrote them before Avro")
    parser.add_argument("--mb", type=float, default=1000.0, help="megabytes of lines before they are damaged")
    arguments = parser.parse_args()
    from analysis import session
    from analysis.record.files import SeriesPaths
    from analysis.storage import maven
    from inventory.local.rootfs import cache_dir

    with tempfile.TemporaryDirectory(prefix="barograph-damaged-") as name:
        folder = Path(name)
        written = (generate if arguments.json else generate_avro)(folder, arguments.mb)
        size = SeriesPaths(folder).raw_bytes()
        jars = (maven.avro_jar(cache_dir(), print),)
        spark = session.spark(raw_bytes=size, settings=session.jar_settings(jars))
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
