"""The probe: one line a second about this machine, to a file and every few seconds to the policy service.

Standard library only; meant to cost less than 0.5 % of a core. The line's fields stand in docs/contracts.md ("The
machine line"). An emulated machine is measured by its cgroup, because /proc/stat shows the whole box; a real one by
/proc. What a hypervisor took is always that of the whole box.
"""

from __future__ import annotations

import argparse
import fcntl
import http.client
import json
import os
import socket
import ssl
import struct
import sys
import time
import urllib.parse
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

POST_EVERY_S = 5
THREADS_EVERY_S = 5  # a reading of all threads costs some 12 µs of CPU for each
THREADS_SHARE = 0.002  # of a core that these readings may cost: on a machine with many threads they come less often
KEPT_LINES = 120
SIOCGIFADDR = 0x8915
CGROUP = "/sys/fs/cgroup"
PROCESSES = "/var/lib/barograph/processes"  # notes of the numbers of ours
WORKER = b"org.apache.storm.daemon.worker.Worker"

Interfaces = dict[str, "str | None"]  # name in the line -> the machine's own name of it


class ProbeCounters(Protocol):
    """Source of a machine's use. Times in s since the start, sizes in bytes; None: not measured here."""

    def quota_cores(self) -> float: ...
    def cpu_s(self) -> float: ...
    def throttled_s(self) -> float | None: ...
    def memory_bytes(self) -> int: ...
    def memory_limit_bytes(self) -> int | None: ...


def read(path: str) -> str:
    """Read a file of the kernel's."""
    return Path(path).read_text(encoding="ascii")


def pairs(text: str) -> dict[str, int]:
    """Return the numbers of a cgroup's `name value` lines, by name."""
    return {name: int(value) for name, value in (line.split()[:2] for line in text.splitlines() if line)}


class CgroupV1:
    """CPU in ns, throttling in ns, memory in bytes, each from its own hierarchy."""

    def __init__(self, root: str = CGROUP) -> None:
        self.root = root

    def limited(self) -> bool:
        try:
            return int(read(self.root + "/cpu/cpu.cfs_quota_us")) > 0
        except OSError:
            return False

    def quota_cores(self) -> float:
        quota, period = (int(read(f"{self.root}/cpu/cpu.cfs_{word}_us")) for word in ("quota", "period"))
        return quota / period

    def cpu_s(self) -> float:
        return int(read(self.root + "/cpuacct/cpuacct.usage")) / 1e9

    def throttled_s(self) -> float:
        return pairs(read(self.root + "/cpu/cpu.stat"))["throttled_time"] / 1e9

    def memory_bytes(self) -> int:
        """Return memory that could not be freed at once: the kernel counts page cache as use."""
        usage = int(read(self.root + "/memory/memory.usage_in_bytes"))
        return usage - pairs(read(self.root + "/memory/memory.stat"))["total_inactive_file"]

    def memory_limit_bytes(self) -> int:
        return int(read(self.root + "/memory/memory.limit_in_bytes"))


class CgroupV2:
    """CPU and throttling in µs, memory in bytes, from the one hierarchy."""

    def __init__(self, root: str = CGROUP) -> None:
        self.root = root

    def limited(self) -> bool:
        try:
            return not read(self.root + "/cpu.max").startswith("max")
        except OSError:
            return False

    def quota_cores(self) -> float:
        quota, period = read(self.root + "/cpu.max").split()
        return int(quota) / int(period)

    def cpu_s(self) -> float:
        return pairs(read(self.root + "/cpu.stat"))["usage_usec"] / 1e6

    def throttled_s(self) -> float:
        return pairs(read(self.root + "/cpu.stat"))["throttled_usec"] / 1e6

    def memory_bytes(self) -> int:
        return int(read(self.root + "/memory.current")) - pairs(read(self.root + "/memory.stat"))["inactive_file"]

    def memory_limit_bytes(self) -> int | None:
        limit = read(self.root + "/memory.max").strip()
        return None if limit == "max" else int(limit)


class RealMachine:
    """The whole machine from /proc; it has no quota, so it is never throttled by one."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self.ticks = os.sysconf("SC_CLK_TCK")

    def quota_cores(self) -> float:
        return float(os.cpu_count() or 1)

    def cpu_s(self) -> float:
        user, nice, system, _idle, _iowait, irq, softirq = map(
            int, read(self.root + "/stat").split("\n", 1)[0].split()[1:8]
        )
        return (user + nice + system + irq + softirq) / self.ticks

    def throttled_s(self) -> None:
        return None

    def memory(self, field: str) -> int:
        for line in read(self.root + "/meminfo").splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise KeyError(field)

    def memory_bytes(self) -> int:
        return self.memory("MemTotal") - self.memory("MemAvailable")

    def memory_limit_bytes(self) -> int:
        return self.memory("MemTotal")


def source() -> ProbeCounters:
    """Return the counters of this machine."""
    v1, v2 = CgroupV1(), CgroupV2()
    return v1 if v1.limited() else v2 if v2.limited() else RealMachine()


class ThreadTimes:
    """Run and wait times of the machine's own threads, from /proc/PID/task/TID/schedstat.

    The load average of an emulated machine is the whole box's; its own threads are all that its /proc shows. A thread
    that waits because the quota is used up counts as waiting.
    """

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self.times, self.t, self.rest_s = self.read(), time.monotonic(), 0.0
        self.has_waits = any(wait for _, wait in self.times.values())

    def read(self) -> dict[str, tuple[int, int]]:
        """Return ns run and ns waited since its start, by thread; one that ends meanwhile is left out."""
        times = {}
        for process in os.scandir(self.root):
            with suppress(OSError):
                for thread in os.scandir(process.path + "/task") if process.name.isdigit() else ():
                    with suppress(OSError):
                        file = os.open(path := thread.path + "/schedstat", os.O_RDONLY)
                        try:
                            run, wait, _slices = os.read(file, 100).split()
                        finally:
                            os.close(file)
                        times[path] = int(run), int(wait)
        return times

    def runnable(self) -> float | None:
        """Return the mean number of threads that ran or waited for a CPU since the last reading, if one is due again.

        None else, and where the kernel counts no waits. A thread that has begun meanwhile counts with all its time, one
        that has ended with none since the last reading.
        """
        passed_s = time.monotonic() - self.t
        if passed_s < max(THREADS_EVERY_S - 0.5, self.rest_s):
            return None
        cpu_s = time.thread_time()
        before, self.times, self.t = self.times, self.read(), self.t + passed_s
        self.rest_s = (time.thread_time() - cpu_s) / THREADS_SHARE
        self.has_waits = self.has_waits or any(wait for _, wait in self.times.values())
        if not self.has_waits:
            return None
        used_ns = 0
        for thread, times in self.times.items():
            now_ns, then_ns = sum(times), sum(before.get(thread, (0, 0)))
            # Smaller times are those of a new thread under an id of one that has ended; none is older than the reading.
            used_ns += now_ns - then_ns if 0 < then_ns <= now_ns else min(now_ns, int(passed_s * 1e9))
        return round(used_ns / 1e9 / passed_s, 4)


def worker_memory_bytes(notes: str = PROCESSES, root: str = "/proc") -> int | None:
    """Return the resident memory of this machine's workers, 0 where none runs; None where it cannot be read.

    A page that several of them map counts in each.
    """
    pages = 0
    try:
        for note in os.scandir(notes):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                if note.name.isdigit() and WORKER in Path(root, note.name, "cmdline").read_bytes():
                    pages += int(read(f"{root}/{note.name}/statm").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def interface_of(address: str) -> str | None:
    """Return the name of the interface that has an IPv4 address; None if none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                packed = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))[20:24]
            except OSError:
                continue
            if socket.inet_ntoa(packed) == address:
                return name
    return None


def traffic(text: str) -> dict[str, tuple[int, int]]:
    """Return (received, sent) bytes by interface from the text of /proc/net/dev."""
    rows = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): (int(row.split()[0]), int(row.split()[8])) for name, row in rows}


def box_time(text: str) -> tuple[int, int]:
    """Return ticks of all cores since the start from the text of /proc/stat: (taken by the hypervisor, all)."""
    ticks = [int(each) for each in text.split("\n", 1)[0].split()[1:9]]
    return ticks[7], sum(ticks)


def reading(machine: ProbeCounters, interfaces: Interfaces) -> dict[str, Any]:
    """Read the counters; unreadable ones are None."""
    counters = traffic(read("/proc/net/dev"))
    return {
        "t": time.time(),
        "cpu_s": machine.cpu_s(),
        "throttled_s": machine.throttled_s(),
        "box": box_time(read("/proc/stat")),
        "bytes": [counters.get(name or "") for name in interfaces.values()],
    }


def difference(new: float | None, old: float | None, scale: float = 1.0) -> float | None:
    """Return new minus old, scaled; None if either was not measured."""
    return None if new is None or old is None else round((new - old) * scale, 4)


def line(
    name: str,
    interfaces: Interfaces,
    before: dict[str, Any],
    now: dict[str, Any],
    machine: ProbeCounters,
    runnable: float | None = None,
    worker_bytes: int | None = None,
) -> dict[str, Any]:
    """Return the machine line of the second between two readings."""
    dt_s = now["t"] - before["t"]
    pairs = list(zip(now["bytes"], before["bytes"], strict=True))
    columns = [[new[i] - old[i] if new and old else None for new, old in pairs] for i in (0, 1)]
    steal, passed = (max(0, new - old) for new, old in zip(now["box"], before["box"], strict=True))
    return {
        "v": 1, "t": round(now["t"], 3), "dt_s": round(dt_s, 4), "machine": name,
        "cpu_cores": difference(now["cpu_s"], before["cpu_s"], 1 / dt_s), "cpu_quota_cores": machine.quota_cores(),
        "throttled_ms": difference(now["throttled_s"], before["throttled_s"], 1000.0),
        "steal_percent": round(100 * steal / passed, 2) if passed else None, "runnable": runnable,
        "memory_bytes": machine.memory_bytes(), "memory_limit_bytes": machine.memory_limit_bytes(),
        "worker_memory_bytes": worker_bytes,
        "interfaces": {"name": list(interfaces), "rx_bytes": columns[0], "tx_bytes": columns[1]},
    }  # fmt: skip


class SampleSink:
    """The policy service, which gets lines every few seconds; if it does not answer, the probe goes on."""

    def __init__(self, url: str, token: str, certificate: str = "") -> None:
        self.address, self.token, self.silent = urllib.parse.urlsplit(url).netloc, token, False
        self.tls = ssl.create_default_context(cafile=certificate) if certificate else None
        self.connection: http.client.HTTPConnection | None = None
        self.waiting: list[str] = []

    def take(self, text: str) -> None:
        """Keep a line until the next post; the oldest go if the service is silent for long."""
        self.waiting = [*self.waiting[1 - KEPT_LINES :], text]

    def post(self) -> None:
        """Send the waiting lines; they stay if that fails."""
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": "application/x-ndjson"}
        try:
            self.connection = self.connection or self.connect()
            self.connection.request("POST", "/machine_samples", "\n".join(self.waiting).encode(), headers)
            answer = self.connection.getresponse()
            answer.read()
            self.said(None if answer.status == 200 else f"HTTP {answer.status}")
            self.waiting = []
        except (OSError, http.client.HTTPException) as error:
            self.connection = None
            self.said(str(error) or type(error).__name__)

    def connect(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(self.address, timeout=2)
        return http.client.HTTPSConnection(self.address, timeout=2, context=self.tls)

    def said(self, problem: str | None) -> None:
        """Print one line when it stops answering, one when it answers again."""
        if bool(problem) != self.silent:
            self.silent = bool(problem)
            print(f"policy service: {problem or 'answers again'}", file=sys.stderr, flush=True)


def watch(name: str, interfaces: Interfaces, output: Path, service: SampleSink) -> None:
    """Write a line at every whole second, for ever."""
    machine, threads = source(), ThreadTimes()
    previous = reading(machine, interfaces)
    for second in range(1, sys.maxsize):
        # To the next whole second that is at least half a second away: never two readings in one.
        time.sleep(1.5 - (time.time() + 0.5) % 1.0)
        now = reading(machine, interfaces)
        now_line = line(name, interfaces, previous, now, machine, threads.runnable(), worker_memory_bytes())
        text = json.dumps(now_line, separators=(",", ":"))
        # Opened for each line: the file may have been moved away between two runs.
        with output.open("a", encoding="ascii") as file:
            file.write(text + "\n")
        service.take(text)
        previous = now
        if second % POST_EVERY_S == 0:
            service.post()


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and watch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", required=True)
    parser.add_argument(
        "--interface", action="append", required=True, help="NAME=ADDRESS: the name in the line, its IPv4 address"
    )
    parser.add_argument("--output", required=True)
    parser.add_argument("--service", required=True)
    parser.add_argument("--token-file", required=True)
    parser.add_argument("--certificate", default="", help="of the service; with it the service speaks TLS")
    options = parser.parse_args(arguments)
    interfaces = {name: interface_of(address) for name, address in (pair.split("=", 1) for pair in options.interface)}
    service = SampleSink(options.service, read(options.token_file).strip(), options.certificate)
    watch(options.machine, interfaces, Path(options.output), service)


if __name__ == "__main__":
    main()
