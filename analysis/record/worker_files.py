"""Workers' files of samples, as specified in docs/contracts.md: Avro containers with a block a line. No Spark.

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

from analysis.record.schemas import GROUPS, TABLES, group_fields

VERSION = 3
SUFFIX = ".avro"
MAGIC = b"Obj\x01"
# Between blocks. Every file has the same, made of characters: Spark splits files at it as it does at line ends.
MARKER = b"\x1d\x02kQ\x1f7z~\x0b^\x19dW\x05!\x12"
# The CRC-32 of anything that ends with its own CRC-32.
RESIDUE = 0x2144DF1C
CHECKSUM, CHECKSUM_BYTES = "checksum", 4
# Null for other people's logs, but never for a worker of ours.
ALWAYS_KNOWN = {
    "tasks": ("emitted", "transferred", "executed"), "streams": ("emitted",), "sources": ("executed",),
    "sinks": ("buckets", "counts"), "spouts": ("emitted",),
}  # fmt: skip
HEAD = (("v", "int"), ("t", "double"), ("dt_s", "double"), ("machine", "string"), ("port", "int"), ("pid", "long"),
        ("topology", "string"), ("seq", "long"))  # fmt: skip
COLUMNS = {group: tuple(group_fields(TABLES[view])) for group, view in GROUPS.items()}
TYPES = {"int": "int", "bigint": "long", "double": "double", "string": "string"}
Schema = dict[str, Any]
METADATA: Schema = {"type": "map", "values": "bytes"}


def _group(group: str) -> Schema:
    columns = []
    for column in TABLES[GROUPS[group]].columns:
        if column.name in COLUMNS[group]:
            inner = column.type.removeprefix("array<").removesuffix(">")
            one: Any = TYPES[inner] if inner == column.type else {"type": "array", "items": TYPES[inner]}
            is_required = not column.null_when or column.name in ALWAYS_KNOWN.get(group, ())
            items = {"type": "array", "items": one if is_required else ["null", one]}
            columns.append({"name": column.name, "type": items, "default": []})
    return {"name": group, "type": ["null", {"type": "record", "name": group, "fields": columns}], "default": None}


SCHEMA: Schema = {
    "type": "record", "name": "worker_line",
    "fields": [
        *({"name": name, "type": kind} for name, kind in HEAD),
        *(_group(group) for group in GROUPS),
        {"name": CHECKSUM, "type": {"type": "fixed", "name": "crc_32", "size": CHECKSUM_BYTES}},
    ],
}  # fmt: skip


def resource() -> str:
    """Return the schema as the worker's resource has it."""
    return json.dumps(SCHEMA, separators=(",", ":"))


def _checksum(content: bytes) -> bytes:
    """Return the CRC-32, the lowest byte first."""
    return zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little")


# The checksums of lines begin with it: no line is whole by any other schema.
SCHEMA_CHECKSUM = _checksum(resource().encode())


@cache
def header() -> bytes:
    """Return the beginning of a file, up to the marker."""
    metadata = {"avro.schema": resource().encode(), "avro.codec": b"null",
                "schema_checksum": SCHEMA_CHECKSUM.hex().encode()}  # fmt: skip
    return MAGIC + _encoded(METADATA, metadata)


def block(line: Mapping[str, Any]) -> bytes:
    """Return a line (as JSON has it) as a block, without the marker. A missing column is null throughout."""
    record: dict[str, Any] = {**line, "v": VERSION, CHECKSUM: bytes(CHECKSUM_BYTES)}
    for group in GROUPS:
        columns = line.get(group)
        if columns is not None:
            length = len(next(iter(columns.values())))
            # Named, because fastavro otherwise tries all values of a group to find its name.
            record[group] = (group, {name: columns.get(name, [None] * length) for name in COLUMNS[group]})
    datum = _encoded(_parsed(), record)  # its last bytes are kept free for the checksum
    content = b"\x02" + _length(len(datum)) + datum[:-CHECKSUM_BYTES]  # one line, in so many bytes
    return content + _checksum(SCHEMA_CHECKSUM + content)


def _length(number: int) -> bytes:
    """Encode a whole number as Avro does."""
    rest, buffer = 2 * number, bytearray()
    while rest > 0x7F:
        buffer.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*buffer, rest])


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a file as a worker does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(part + MARKER for part in (header(), *map(block, lines))))


def read(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the lines of a file, as JSON has them; None for each part between two markers that is no whole line."""
    names = {field["name"] for field in SCHEMA["fields"]} - {CHECKSUM}
    for part in path.read_bytes().split(MARKER):
        if part in (b"", header()):
            continue
        if zlib.crc32(SCHEMA_CHECKSUM + part) != RESIDUE:
            yield None
            continue
        line: Any = fastavro.schemaless_reader(io.BytesIO(part), framed(), None)
        yield {name: value for name, value in line.items() if name in names and value is not None}


def framed() -> Schema:
    """Return the schema of a block. Its two numbers come first: how many lines it has, and in how many bytes."""
    numbers = [{"name": f"block_{name}", "type": "long"} for name in ("lines", "bytes")]
    return SCHEMA | {"fields": [*numbers, *SCHEMA["fields"]]}


@cache
def _parsed() -> Any:
    return fastavro.parse_schema(SCHEMA)


def _encoded(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, value)
    return buffer.getvalue()


if __name__ == "__main__":
    print(resource())
