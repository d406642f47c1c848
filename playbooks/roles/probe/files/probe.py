"""The probe: one line a second about this machine, to a file and every few seconds to the policy service.

Standard library only; meant to cost less than 0.3 % of a core. The line's fields stand in docs/contracts.md ("The machine
line"). An emulated machine is measured by its cgroup, because /proc/stat shows the whole box; a real one by /proc.
"""

import argparse
import http.client
import json
import os
import socket
import struct
import sys
import time
import urllib.parse

POST_EVERY_S = 5
KEPT_LINES = 120
SIOCGIFADDR = 0x8915
CGROUP = "/sys/fs/cgroup"


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def pairs(text):
    """The numbers of a cgroup's `name value` lines, by name."""
    return {name: int(value) for name, value in (line.split()[:2] for line in text.splitlines() if line)}


class CgroupV1:
    """CPU in ns, throttling in ns, memory in bytes, each from its own hierarchy."""

    def __init__(self, root=CGROUP):
        self.root = root

    def limited(self):
        try:
            return int(read(self.root + "/cpu/cpu.cfs_quota_us")) > 0
        except OSError:
            return False

    def quota_cores(self):
        quota, period = (int(read(self.root + "/cpu/cpu.cfs_%s_us" % word)) for word in ("quota", "period"))
        return quota / period

    def cpu_s(self):
        return int(read(self.root + "/cpuacct/cpuacct.usage")) / 1e9

    def throttled_s(self):
        return pairs(read(self.root + "/cpu/cpu.stat"))["throttled_time"] / 1e9

    def memory_bytes(self):
        """What could not be given back at once: the kernel counts page cache as use."""
        used = int(read(self.root + "/memory/memory.usage_in_bytes"))
        return used - pairs(read(self.root + "/memory/memory.stat"))["total_inactive_file"]

    def memory_limit_bytes(self):
        return int(read(self.root + "/memory/memory.limit_in_bytes"))


class CgroupV2:
    """CPU and throttling in µs, memory in bytes, from the one hierarchy."""

    def __init__(self, root=CGROUP):
        self.root = root

    def limited(self):
        try:
            return not read(self.root + "/cpu.max").startswith("max")
        except OSError:
            return False

    def quota_cores(self):
        quota, period = read(self.root + "/cpu.max").split()
        return int(quota) / int(period)

    def cpu_s(self):
        return pairs(read(self.root + "/cpu.stat"))["usage_usec"] / 1e6

    def throttled_s(self):
        return pairs(read(self.root + "/cpu.stat"))["throttled_usec"] / 1e6

    def memory_bytes(self):
        return int(read(self.root + "/memory.current")) - pairs(read(self.root + "/memory.stat"))["inactive_file"]

    def memory_limit_bytes(self):
        limit = read(self.root + "/memory.max").strip()
        return None if limit == "max" else int(limit)


class RealMachine:
    """The whole machine from /proc; it has no quota, so it is never throttled by one."""

    def __init__(self, root="/proc"):
        self.root = root
        self.ticks = os.sysconf("SC_CLK_TCK")

    def quota_cores(self):
        return float(os.cpu_count() or 1)

    def cpu_s(self):
        user, nice, system, _idle, _iowait, irq, softirq = map(int, read(self.root + "/stat").split("\n", 1)[0].split()[1:8])
        return (user + nice + system + irq + softirq) / self.ticks

    def throttled_s(self):
        return None

    def memory(self, field):
        for line in read(self.root + "/meminfo").splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        return None

    def memory_bytes(self):
        return self.memory("MemTotal") - self.memory("MemAvailable")

    def memory_limit_bytes(self):
        return self.memory("MemTotal")


def source():
    """Where this machine's use is counted."""
    return next((cgroup for cgroup in (CgroupV1(), CgroupV2()) if cgroup.limited()), None) or RealMachine()


def interface_of(address):
    """The name of the interface that has an IPv4 address; None if none has."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))[20:24]
            except OSError:
                continue
            if socket.inet_ntoa(found) == address:
                return name
    return None


def traffic(text):
    """(received, sent) bytes by interface from the text of /proc/net/dev."""
    rows = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): (int(row.split()[0]), int(row.split()[8])) for name, row in rows}


def reading(machine, interfaces):
    """Counters now; what cannot be read is None."""
    counters = traffic(read("/proc/net/dev"))
    return {
        "t": time.time(),
        "cpu_s": machine.cpu_s(),
        "throttled_s": machine.throttled_s(),
        "bytes": [counters.get(name) for name in interfaces.values()],
    }


def difference(new, old, scale=1.0):
    return None if new is None or old is None else round((new - old) * scale, 4)


def line(name, interfaces, before, now, machine):
    """The machine line of the second between two readings."""
    dt_s = now["t"] - before["t"]
    both = list(zip(now["bytes"], before["bytes"]))
    columns = [[new[i] - old[i] if new and old else None for new, old in both] for i in (0, 1)]
    return {
        "v": 1, "t": round(now["t"], 3), "dt_s": round(dt_s, 4), "machine": name,
        "cpu_cores": difference(now["cpu_s"], before["cpu_s"], 1 / dt_s), "cpu_quota_cores": machine.quota_cores(),
        "throttled_ms": difference(now["throttled_s"], before["throttled_s"], 1000.0),
        "memory_bytes": machine.memory_bytes(), "memory_limit_bytes": machine.memory_limit_bytes(),
        "interfaces": {"name": list(interfaces), "rx_bytes": columns[0], "tx_bytes": columns[1]},
    }  # fmt: skip


class Service:
    """The policy service, told every few seconds; one that does not answer never stops the probe."""

    def __init__(self, url, token):
        self.address, self.token = urllib.parse.urlsplit(url).netloc, token
        self.connection, self.waiting, self.silent = None, [], False

    def take(self, text):
        self.waiting = self.waiting[1 - KEPT_LINES :] + [text]

    def post(self):
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": "application/x-ndjson"}
        try:
            self.connection = self.connection or http.client.HTTPConnection(self.address, timeout=2)
            self.connection.request("POST", "/machine_samples", "\n".join(self.waiting).encode(), headers)
            answer = self.connection.getresponse()
            answer.read()
            self.said(None if answer.status == 200 else "HTTP %d" % answer.status)
            self.waiting = []
        except (OSError, http.client.HTTPException) as error:
            self.connection = None
            self.said(str(error) or type(error).__name__)

    def said(self, problem):
        """One line when it stops answering, one when it answers again."""
        if bool(problem) != self.silent:
            self.silent = bool(problem)
            print("policy service: %s" % (problem or "answers again"), file=sys.stderr, flush=True)


def watch(name, interfaces, output, service):
    machine = source()
    before = reading(machine, interfaces)
    for second in range(1, sys.maxsize):
        # To the next whole second that is at least half a second away: never two readings in one.
        time.sleep(1.5 - (time.time() + 0.5) % 1.0)
        now = reading(machine, interfaces)
        text = json.dumps(line(name, interfaces, before, now, machine), separators=(",", ":"))
        # Opened for each line: the file may have been moved away between two runs.
        with open(output, "a", encoding="ascii") as file:
            file.write(text + "\n")
        service.take(text)
        before = now
        if second % POST_EVERY_S == 0:
            service.post()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", required=True)
    parser.add_argument("--interface", action="append", required=True, help="NAME=ADDRESS: the name in the line, its IPv4 address")
    parser.add_argument("--output", required=True)
    parser.add_argument("--service", required=True)
    parser.add_argument("--token-file", required=True)
    options = parser.parse_args(arguments)
    interfaces = {name: interface_of(address) for name, address in (pair.split("=", 1) for pair in options.interface)}
    watch(options.machine, interfaces, options.output, Service(options.service, read(options.token_file).strip()))


if __name__ == "__main__":
    main()
