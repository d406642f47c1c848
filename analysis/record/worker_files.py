"""Workers' files of samples, as docs/contracts.md has them: Avro containers with a block a line. No Spark.

`python -m analysis.record.worker_files` prints the schema, which the worker has as a resource.
"""

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import fastavro

from analysis.record.schemas import GROUPS, TABLES, Column, group_fields

VERSION = 2
SUFFIX = ".avro"
MAGIC = b"Obj\x01"
# Between blocks. Every file has the same, and of characters: Spark splits files at it as it does at line ends.
MARKER = b"\x1d\x02kQ\x1f7z~\x0b^\x19dW\x05!\x12"
# The CRC-32 of whatever ends with its own CRC-32.
RESIDUE = 0x2144DF1C
CHECKSUM, CHECKSUM_BYTES = "checksum", 4
# Null for other people's logs and older workers' lines, but never for a worker of ours.
ALWAYS_KNOWN = {
    "tasks": ("emitted", "transferred", "executed"), "streams": ("emitted",), "sources": ("executed",),
    "sinks": ("buckets", "counts"), "spouts": ("emitted",),
}  # fmt: skip
HEAD = (("v", "int"), ("t", "double"), ("dt_s", "double"), ("machine", "string"), ("port", "int"), ("pid", "long"),
        ("topology", "string"), ("seq", "long"))  # fmt: skip
TYPES = {"int": "int", "bigint": "long", "double": "double", "string": "string"}
Schema = dict[str, Any]
METADATA: Schema = {"type": "map", "values": "bytes"}


def _column(group: str, column: Column) -> Schema:
    inner = column.type.removeprefix("array<").removesuffix(">")
    one: Any = TYPES[inner] if inner == column.type else {"type": "array", "items": TYPES[inner]}
    known = not column.null_when or column.name in ALWAYS_KNOWN.get(group, ())
    items = one if known else ["null", one]
    return {"name": column.name, "type": {"type": "array", "items": items}, "default": []}


def _group(group: str) -> Schema:
    view = TABLES[GROUPS[group]]
    columns = [_column(group, column) for column in view.columns if column.name in group_fields(view)]
    return {"name": group, "type": ["null", {"type": "record", "name": group, "fields": columns}], "default": None}


# What a later version adds has a default, so that it reads older files.
SCHEMA: Schema = {
    "type": "record", "name": "worker_line",
    "fields": [
        *({"name": name, "type": kind} for name, kind in HEAD),
        *(_group(group) for group in GROUPS),
        {"name": CHECKSUM, "type": {"type": "fixed", "name": "crc_32", "size": CHECKSUM_BYTES}},
    ],
}  # fmt: skip


def resource() -> str:
    """The schema as the worker's resource has it."""
    return json.dumps(SCHEMA, separators=(",", ":"))


def header(schema: Schema | None = None) -> bytes:
    """What a file begins with, without the marker."""
    text = resource() if schema is None else json.dumps(schema, separators=(",", ":"))
    return MAGIC + _encoded(METADATA, {"avro.schema": text.encode(), "avro.codec": b"null"})


def header_of(head: bytes) -> tuple[bytes, Schema] | None:
    """The header in a file's first bytes, without the marker, and its schema. None: it is cut short or damaged."""
    found, marker, _ = head.partition(MARKER)
    if not marker or not found.startswith(MAGIC):
        return None
    try:
        metadata: Any = fastavro.schemaless_reader(io.BytesIO(found[len(MAGIC) :]), METADATA, None)
        schema = json.loads(metadata["avro.schema"])
        return (found, schema) if schema["fields"] else None
    except Exception:  # noqa: BLE001 - whatever way bytes that are none of ours fail
        return None


def block(line: Mapping[str, Any]) -> bytes:
    """A line (as JSON has it) as a block, without the marker. A column that it lacks is null throughout."""
    record: dict[str, Any] = {**line, "v": VERSION, CHECKSUM: bytes(CHECKSUM_BYTES)}
    for group in GROUPS:
        columns = line.get(group)
        if columns is not None:
            length = len(next(iter(columns.values())))
            names = group_fields(TABLES[GROUPS[group]])
            record[group] = {name: columns.get(name, [None] * length) for name in names}
    return _block(_encoded(_parsed(), record))


def _block(datum: bytes) -> bytes:
    framed = b"\x02" + _length(len(datum)) + datum[:-CHECKSUM_BYTES]  # one line, in so many bytes
    return framed + zlib.crc32(framed).to_bytes(CHECKSUM_BYTES, "little")


def _length(number: int) -> bytes:
    """As Avro writes whole numbers."""
    left, out = 2 * number, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """A file as a worker writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(part + MARKER for part in (header(), *map(block, lines))))


def read(path: Path) -> Iterator[dict[str, Any] | None]:
    """The lines of a file, as JSON has them; None for each part between two markers that is no whole line."""
    content = path.read_bytes()
    header, schema = header_of(content) or (b"", SCHEMA)
    for part in content.split(MARKER):
        if part not in (b"", header):
            yield _line(part, schema) if zlib.crc32(part) == RESIDUE else None


def _line(block: bytes, schema: Schema) -> dict[str, Any]:
    found: Any = fastavro.schemaless_reader(io.BytesIO(block), framed(schema), framed(SCHEMA))
    own = {field["name"] for field in SCHEMA["fields"]} - {CHECKSUM}
    return {name: value for name, value in found.items() if name in own and value is not None}


def framed(schema: Schema) -> Schema:
    """Of a block. Its own two numbers come first: how many lines it has, and in how many bytes."""
    numbers = [{"name": f"block_{name}", "type": "long"} for name in ("lines", "bytes")]
    return schema | {"fields": [*numbers, *schema["fields"]]}


@cache
def _parsed() -> Any:
    return fastavro.parse_schema(SCHEMA)


def _encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


if __name__ == "__main__":
    print(resource())
