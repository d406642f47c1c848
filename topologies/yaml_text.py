"""YAML that people write, read without guesses, and YAML for Storm, whose reader takes other words for numbers."""

from __future__ import annotations

import re
from typing import Any

import yaml

_INT, _FLOAT, _TEXT = (f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "str"))
_AMBIGUOUS = re.compile(r"[-+]?(0[0-7_]+|[^:]*:.*)")


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, and numbers of YAML 1.1 that other readers take for others."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        places: dict[str, yaml.Mark] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in places:
                raise yaml.constructor.ConstructorError(
                    f"the key {key.value!r} stands twice, first", places[key.value],
                    "and again; remove one of them", key.start_mark,
                )  # fmt: skip
            if isinstance(key, yaml.ScalarNode):
                places[key.value] = key.start_mark
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if node.tag in (_INT, _FLOAT) and _AMBIGUOUS.fullmatch(node.value):
            number = self.construct_object(node)
            problem = f"{node.value} means {number:g} (base 8 or 60); write a number of base 10, or text in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes every text: SnakeYAML reads 1e1 as a number."""


_Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(_TEXT, text, style='"'))


def load(text: str) -> Any:
    """Return the data. Raises yaml.YAMLError, and ValueError for a date or a character that does not exist."""
    return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader


def dump(data: object) -> str:
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=120)
