"""Reads NS files as far as Emulab's parser does for machines and one LAN; anything else is an error with its line."""

import re
from dataclasses import dataclass, field


@dataclass
class Parsed:
    hardware: dict[str, str] = field(default_factory=dict)
    image: dict[str, str] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    lan_mbit: int = 0
    address: dict[str, str] = field(default_factory=dict)
    slower: dict[str, int] = field(default_factory=dict)
    run: bool = False


class ParseError(Exception):
    pass


def parse(text: str) -> Parsed:
    parsed = Parsed()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not _line(line, parsed):
            raise ParseError(f"*** parse error in line {number}: {line}")
    nodes = set(parsed.hardware)
    if not parsed.run or set(parsed.image) != nodes or (len(nodes) > 1 and set(parsed.members) != nodes):
        raise ParseError("*** invalid: no run, a node without an image, or one outside the LAN")
    if len(set(parsed.address.values())) != len(parsed.address):
        raise ParseError("*** invalid: an IP address is used twice")
    return parsed


def _line(line: str, parsed: Parsed) -> bool:
    if line in ("set ns [new Simulator]", "source tb_compat.tcl", "$ns rtproto Static"):
        return True
    if line == "$ns run":
        parsed.run = True
        return True
    if found := re.fullmatch(r"set (\w+) \[\$ns node\]", line):
        fresh = found[1] not in parsed.hardware
        parsed.hardware.setdefault(found[1], "pc")
        return fresh
    if found := re.fullmatch(r'set \w+ \[\$ns make-lan "([$\w ]+)" (\d+)Mb 0ms\]', line):
        parsed.members, parsed.lan_mbit = tuple(one[1:] for one in found[1].split()), int(found[2])
        return all(one in parsed.hardware for one in parsed.members)
    if found := re.fullmatch(r"(tb-set-[a-z-]+) \$(\w+) (?:\$lan0 )?([\w.-]+?)(?:Mb)?", line):
        return found[2] in parsed.hardware and _property(found[1], found[2], found[3], parsed)
    return False


def _property(command: str, node: str, value: str, parsed: Parsed) -> bool:
    if command == "tb-set-hardware":
        parsed.hardware[node] = value
    elif command == "tb-set-node-os":
        parsed.image[node] = value
    elif command == "tb-set-ip":
        parsed.address[node] = value
    elif command == "tb-set-node-lan-bandwidth":
        parsed.slower[node] = int(value)
    else:
        return False
    return True
