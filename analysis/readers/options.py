"""Options of a file: what the caller gives, and over it what stands in `<file>.yaml` beside the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from analysis.errors import ForeignLogError
from analysis.readers.contract import Reader, Source


def source(reader: Reader, file: Path, given: Mapping[str, Any]) -> Source:
    """A file with its options; ForeignLogError names file, field, value and what is allowed."""
    if not file.is_file():
        raise ForeignLogError(f"{file}: no such file")
    beside = companion(file)
    merged = {**given, **_document(beside)}
    try:
        return Source(file.absolute(), reader.options.model_validate(merged))
    except ValidationError as error:
        where = beside if beside.is_file() else "options"
        raise ForeignLogError(f"{where}: {_said(error, reader)}") from error


def companion(file: Path) -> Path:
    return file.with_name(file.name + ".yaml")


def _document(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ForeignLogError(f"{path}: cannot be read as YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ForeignLogError(f"{path}: holds a {type(document).__name__}; give options as `name: value` lines")
    return document


def _said(error: ValidationError, reader: Reader) -> str:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    known = ", ".join(reader.options.model_fields)
    if first["type"] == "extra_forbidden":
        return f"unknown option {field!r}; there are {known}"
    return f"{field} is {first['input']!r}: {first['msg'].lower()}; options are {known}"
