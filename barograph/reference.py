"""Reference pages, written from the code: `python -m barograph.reference PAGE > docs/PAGE.md`; a test holds them to it.

`command_line` is made of the argument parsers, `experiment_keys` of the experiment's dataclasses: the meaning of a key
is the comment behind its field.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from annotated_types import BaseMetadata
from pydantic.types import StringConstraints

COMMAND_LINE_HEAD = """# The command line

`barograph COMMAND …`, or `python -m barograph COMMAND …`. This page is written from the code by
`python -m barograph.reference command_line > docs/command_line.md`.
"""
EXPERIMENT_HEAD = """# Keys of an experiment

Every key of `dags/experiments/<family>/<name>.yaml`; [experiments.md](experiments.md) says how they work together.
This page is written from the code by `python -m barograph.reference experiment_keys > docs/experiment_keys.md`.
"""
LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
LENGTHS = {"min_length": "at least", "max_length": "at most"}


def command_line() -> str:
    """Every command with its arguments, as Markdown."""
    from barograph.cli import COMMANDS, parser

    parts = [COMMAND_LINE_HEAD]
    (subcommands,) = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    for name, (_, purpose) in COMMANDS.items():
        command: argparse.ArgumentParser = subcommands.choices[name]
        parts.append(f"## {name}\n\n{_sentence(command.description or purpose)}\n")
        parts.append("```\n" + " ".join(_usage(command).split()) + "\n```\n")
        rows = [
            _argument(action)
            for action in command._actions
            if action.dest != "help" and action.help != argparse.SUPPRESS
        ]
        if rows:
            parts.append("| argument | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n")
        if command.epilog:
            parts.append(" ".join(command.epilog.split()) + "\n")
    return "\n".join(parts)


def _usage(command: argparse.ArgumentParser) -> str:
    return command.format_usage().removeprefix("usage: ")


def _argument(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.option_strings and action.nargs != 0:
        names += f" `{value}`"
    is_none = action.default is None or action.default is False or action.default in (argparse.SUPPRESS, [])
    default = "" if is_none else f"`{action.default}`"
    choices = f"; one of {', '.join(map(str, action.choices))}" if action.choices else ""
    meaning = (action.help or "") % {**vars(action), "prog": "barograph"} if action.help else ""
    return f"| {names} | {default} | {_cell(meaning + choices)} |"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def experiment_keys() -> str:
    """Every key of an experiment's file, as Markdown."""
    from barograph.plan.events import KINDS
    from barograph.plan.experiment import (
        Code,
        Durations,
        Experiment,
        MachineCount,
        ServiceLevelChoice,
        TestbedChoice,
        TopologyChanges,
        TopologyChoice,
        Variant,
    )

    parts = [EXPERIMENT_HEAD]
    sections: Mapping[str, type] = {
        "At the top": Experiment, "topology": TopologyChoice,
        "topology: service_level": ServiceLevelChoice, "testbed": TestbedChoice, "machines": MachineCount,
        "variants: each": Variant, "variants: code": Code, "variants: topology": TopologyChanges,
        "durations": Durations, **{f"events: {kind}": cls for kind, cls in KINDS.items()},
    }  # fmt: skip
    for title, cls in sections.items():
        parts.append(f"## {title}\n\n{_first_paragraph(cls)}\n")
        rows = [_key(cls, each) for each in fields(cls) if (cls, each.name) != (Experiment, "name")]
        parts.append("| key | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _first_paragraph(cls: type) -> str:
    text = inspect.getdoc(cls) or ""
    if not text or text.startswith(f"{cls.__name__}("):  # a dataclass without a docstring shows its signature
        text = (inspect.getdoc(sys.modules[cls.__module__]) or "") if "events" in cls.__module__ else ""
    return " ".join(text.split("\n\n")[0].split())


def _key(cls: type, each: Field[Any]) -> str:
    hint = typing.get_type_hints(cls, include_extras=True)[each.name]
    meaning = "which kind of event" if each.name == "kind" else _comment(cls, each.name)
    cells = (f"`{_alias(hint) or each.name}`", _cell(_type(hint)), _default(each), _cell(meaning))
    return f"| {' | '.join(cells)} |"


def _alias(hint: Any) -> str | None:
    """The name that people write, where it is not the field's."""
    for extra in getattr(hint, "__metadata__", ()):
        alias = getattr(extra, "validation_alias", None)
        if alias is not None:
            return str(alias.choices[0])
    return None


def _default(each: Field[Any]) -> str:
    if each.default is MISSING and each.default_factory is MISSING:
        return "required"
    value = each.default_factory() if each.default_factory is not MISSING else each.default
    if value is None or value == "" or value == ():
        return ""
    return f"`{value}`"


def _type(hint: Any) -> str:
    """In words of YAML: `number above 0, at most 1`, `list of …`, `mapping`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        limits = [text for extra in arguments[1:] for text in _limits(extra)]
        return ", ".join([_type(arguments[0]), *limits])
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return "list" if arguments[0] is Ellipsis else f"list of {_plural(arguments[0])}"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if (origin is not None and type(None) in arguments) or origin in (typing.Union, type(int | str)):
        return " or ".join(_type(one) for one in arguments if one is not type(None))
    if is_dataclass(hint):
        return "mapping, see below"
    return {float: "number", int: "whole number", str: "text", bool: "true or false"}.get(hint, "see below")


def _plural(hint: Any) -> str:
    """The entries of a list: mappings have a section of their own."""
    inner = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    is_mapping = is_dataclass(inner) or any(is_dataclass(one) for one in typing.get_args(inner))
    return "mappings, see below" if is_mapping else _type(hint)


def _limits(extra: Any) -> Iterator[str]:
    if isinstance(extra, StringConstraints):
        if extra.pattern:
            yield f"`{getattr(extra.pattern, 'pattern', extra.pattern)}`"
        return
    found = [extra] if isinstance(extra, BaseMetadata) else getattr(extra, "metadata", ())
    for each in found:
        for name, word in {**LIMITS, **LENGTHS}.items():
            if getattr(each, name, None) is not None:
                yield f"{word} {getattr(each, name):g}" + (" of them" if name in LENGTHS else "")


def _comment(cls: type, name: str) -> str:
    """The comment behind the field, in the class that declares it."""
    for declaring in cls.__mro__:
        if is_dataclass(declaring) and name in inspect.get_annotations(declaring):
            source = textwrap.dedent(inspect.getsource(declaring))
            found = re.search(rf"^\s+{name}: .*?  # (.+)$", source, re.MULTILINE)
            return found.group(1) if found else ""
    return ""


PAGES: Mapping[str, Callable[[], str]] = {"command_line": command_line, "experiment_keys": experiment_keys}

if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
