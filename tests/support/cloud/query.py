"""EC2's query protocol: a call is a form, an answer is XML."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15"  # as moto writes it


@dataclass(frozen=True)
class Call:
    action: str
    parameters: Mapping[str, str]

    def listed(self, name: str) -> tuple[str, ...]:
        """`InstanceId.1`, `InstanceId.2`, … in their order."""
        return tuple(self.parameters[key] for key in self._numbered(rf"{name}\.(\d+)"))

    def filters(self) -> dict[str, tuple[str, ...]]:
        keys = [key.removesuffix(".Name") for key in self._numbered(r"Filter\.(\d+)\.Name")]
        return {self.parameters[f"{key}.Name"]: self.listed(f"{key}.Value") for key in keys}

    def tags(self, resource: str) -> dict[str, str]:
        """What the call tags resources of that type with from their birth."""
        tags: dict[str, str] = {}
        for key in self._numbered(r"TagSpecification\.(\d+)\.ResourceType"):
            if self.parameters[key] == resource:
                stem = re.escape(key.removesuffix("ResourceType") + "Tag")
                for one in self._numbered(rf"{stem}\.(\d+)\.Key"):
                    tags[self.parameters[one]] = self.parameters.get(one.removesuffix("Key") + "Value", "")
        return tags

    def without_filter(self, name: str) -> Call:
        """The same call with one filter less; the others are numbered anew, as moto wants it."""
        kept = [(key, values) for key, values in self.filters().items() if key != name]
        plain = {key: value for key, value in self.parameters.items() if not key.startswith("Filter.")}
        for number, (key, values) in enumerate(kept, 1):
            plain[f"Filter.{number}.Name"] = key
            plain |= {f"Filter.{number}.Value.{n}": value for n, value in enumerate(values, 1)}
        return Call(self.action, plain)

    def _numbered(self, pattern: str) -> list[str]:
        found = ((int(match[1]), key) for key in self.parameters if (match := re.fullmatch(pattern, key)))
        return [key for _, key in sorted(found)]


@dataclass(frozen=True)
class Answer:
    body: bytes
    status: int = 200


def parse(body: bytes) -> Call | None:
    """The call in a form, None if it is none of the query protocol."""
    try:
        parameters = dict(parse_qsl(body.decode(), keep_blank_values=True))
    except UnicodeDecodeError:
        return None
    return Call(parameters["Action"], parameters) if "Action" in parameters else None


def answer(action: str, content: str) -> Answer:
    head = f'<?xml version="1.0" encoding="UTF-8"?><{action}Response xmlns="{NAMESPACE}">'
    return Answer(f"{head}<requestId>{uuid.uuid4()}</requestId>{content}</{action}Response>".encode())


def refusal(code: str, message: str, status: int = 400) -> Answer:
    inner = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    text = f"<Response><Errors>{inner}</Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"
    return Answer(text.encode(), status)


def tag_set(tags: Mapping[str, str]) -> str:
    items = (f"<item><key>{escape(k)}</key><value>{escape(v)}</value></item>" for k, v in tags.items())
    return f"<tagSet>{''.join(items)}</tagSet>"


def matches(filters: Mapping[str, Iterable[str]], fields: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    """Whether a resource passes every filter (`tag:…`, `tag-key` or a field), as EC2 reads `*` and `?`."""
    return all(_matches(name, tuple(wanted), fields, tags) for name, wanted in filters.items())


def _matches(name: str, wanted: tuple[str, ...], fields: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    if name == "tag-key":
        return any(fnmatchcase(key, one) for key in tags for one in wanted)
    value = tags.get(name.removeprefix("tag:")) if name.startswith("tag:") else fields[name]
    return value is not None and any(fnmatchcase(value, one) for one in wanted)


def xml(body: bytes) -> ET.Element:
    ET.register_namespace("", NAMESPACE)
    return ET.fromstring(body)


def text_of(element: ET.Element, path: str) -> str:
    """The text at `a/b`, which must be there."""
    found = element.find("/".join(f"{{{NAMESPACE}}}{part}" for part in path.split("/")))
    if found is None or found.text is None:
        raise LookupError(f"no {path} in {ET.tostring(element)[:300]!r}")
    return found.text
