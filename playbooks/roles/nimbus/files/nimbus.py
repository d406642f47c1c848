"""Ask Nimbus over Thrift without a JVM, which costs seconds; runs on the master, standard library only.

    nimbus.py kill [NAME]              kill every topology, or this one, at once and wait until Nimbus has forgotten it
    nimbus.py exactly m1,m2 [SECONDS]  wait until these machines, and no others, have a registered supervisor
    nimbus.py present m1,m2 [SECONDS]  wait until these have one, whatever others have
    nimbus.py gone m1,m2 [SECONDS]     wait until none of these has one

Framed transport and binary protocol of Apache Thrift; field numbers as in Storm's storm.thrift (ClusterSummary:
1 supervisors, 3 topologies; SupervisorSummary: 1 host; TopologySummary: 2 name, 7 status; KillOptions: 1 wait_secs).
"""

import json
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

ADDRESS = ("master", 6627)
CALL, EXCEPTION = 1, 3
STOP, BOOL, BYTE, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, SET, LIST = 0, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15
NUMBERS = {BOOL: ">b", BYTE: ">b", DOUBLE: ">d", I16: ">h", I32: ">i", I64: ">q"}


class NimbusError(Exception):
    """Nimbus answered with an exception, or not at all."""


class ThriftReader:
    """Reader of the binary protocol's values, without a schema: a struct is a dict by field number."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def value(self, kind: int) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == STRING:
            return self.take(self.number(">i")).decode("utf-8", "replace")
        if kind == STRUCT:
            return self.fields()
        if kind == MAP:
            keys, values = self.number(">b"), self.number(">b")
            return [(self.value(keys), self.value(values)) for _ in range(self.number(">i"))]
        if kind in (LIST, SET):
            items = self.number(">b")
            return [self.value(items) for _ in range(self.number(">i"))]
        raise NimbusError(f"unknown Thrift type {kind}")

    def fields(self) -> dict[int, Any]:
        values: dict[int, Any] = {}
        while True:
            kind = self.number(">b")
            if kind == STOP:
                return values
            number = self.number(">h")
            values[number] = self.value(kind)


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise NimbusError("Nimbus closed the connection")
        data += part
    return data


def call(method: str, arguments: bytes = b"") -> Any:
    """Call a method; the arguments are the encoded fields of its argument struct. Returns the result, None for void."""
    name = method.encode()
    message = struct.pack(">Ii", 0x80010000 | CALL, len(name)) + name + struct.pack(">i", 0) + arguments + b"\0"
    with socket.create_connection(ADDRESS, 10) as connection:
        connection.sendall(struct.pack(">i", len(message)) + message)
        reader = ThriftReader(receive(connection, struct.unpack(">i", receive(connection, 4))[0]))
    kind = reader.number(">i") & 0xFF
    reader.value(STRING)
    reader.number(">i")  # sequence number
    answer = reader.fields()
    if kind == EXCEPTION or set(answer) - {0}:
        raise NimbusError(f"{method}: {answer}")
    return answer.get(0)


def text(number: int, value: str) -> bytes:
    data = value.encode()
    return struct.pack(">bhi", STRING, number, len(data)) + data


def kill_options(number: int, wait_s: int) -> bytes:
    return struct.pack(">bh", STRUCT, number) + struct.pack(">bhi", I32, 1, wait_s) + b"\0"


def topologies() -> list[tuple[str, str]]:
    return [(summary[2], summary.get(7, "")) for summary in call("getClusterInfo").get(3, [])]


def supervisors() -> list[str]:
    return sorted(summary[1] for summary in call("getClusterInfo").get(1, []))


def until(wanted: object, seen: Callable[[], object], seconds: float, what: str) -> None:
    """Poll until `seen()` equals `wanted`; its last value, or why it failed, goes into the message."""
    deadline = time.monotonic() + seconds
    while True:
        last: object
        try:
            last = seen()
            if last == wanted:
                return
        except (OSError, NimbusError) as error:
            last = error
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not so after {seconds:.0f} s; last seen: {last}")
        time.sleep(0.25)


def kill(only: str | None = None) -> list[str]:
    """Kill topologies; repeated while a Nimbus that has just started does not lead yet."""
    killed: dict[str, None] = {}

    def wanted() -> list[tuple[str, str]]:
        return [(name, status) for name, status in topologies() if only in (None, name)]

    def left() -> list[tuple[str, str]]:
        for name in [name for name, status in wanted() if status != "KILLED"]:
            call("killTopologyWithOpts", text(1, name) + kill_options(2, 0))
            killed[name] = None
        return wanted()

    until([], left, 30, f"topology {only} is gone" if only else "no topology is left")
    return list(killed)


def waits(how: str, machines: list[str]) -> tuple[list[str], Callable[[], list[str]], str]:
    """Return the wanted answer, the function that gets it, and its description."""
    names = ", ".join(machines)
    if how == "gone":
        return [], lambda: [name for name in supervisors() if name in machines], f"Nimbus has forgotten {names}"
    if how == "present":
        return machines, lambda: [name for name in supervisors() if name in machines], f"Nimbus has {names}"
    return machines, supervisors, f"Nimbus has the supervisors {names} and no others"


def main(arguments: list[str]) -> None:
    if arguments[0] == "kill":
        print(json.dumps({"killed": kill(*arguments[1:])}))
        return
    machines = sorted(filter(None, arguments[1].split(",")))
    seconds = float(arguments[2]) if len(arguments) > 2 else 60.0
    target, current, what = waits(arguments[0], machines)
    until(target, current, seconds, what)
    print(json.dumps({"supervisors": machines}))


if __name__ == "__main__":
    main(sys.argv[1:])
