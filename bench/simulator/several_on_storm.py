"""What topologies at once cost on real Storm: `python -m bench.simulator.several_on_storm --sizes 2,4,8` (as root).

Each size is a run of its own on the testbed `local`, of about three minutes: so many small topologies, each of one
worker, on two machines, and a hold of 60 s in which the policy may act every 10 s and does not. Of that hold:

- a scheduling round at the policy service, as its decision log has it: median and 95 %, in ms, and how many there were;
- posts to the service each second, as they pass the master's link of the control LAN: workers' and probes';
- CPU in percent of a core: the master as its probe counts it, and of that Nimbus (with the bridge) and the policy
  service, as the kernel counts their processes;
- workers that restarted, in the whole run.

`service_load` has larger sizes, in one process. The runs are kept nowhere.
"""

from __future__ import annotations

import argparse
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from analysis.record.files import json_lines
from barograph.campaign.steps import do_run
from barograph.machines.series_lease import saved_lease
from barograph.plan.experiment import Experiment, parse
from barograph.policy_service import SERVICE_PORT
from barograph.series.series import Series
from bench.tables import markdown_table
from inventory.leases.processes import cgroup_pids
from tests.support.deployed_series import deployed

HOLD_S = 60
MACHINES = 2
COMPONENTS = ("spout", "bolt_1", "bolt_2", "sink")  # of linear
PROCESSES = {"Nimbus": "org.apache.storm.daemon.nimbus.Nimbus", "service": "scheduler_plugins.service"}
EVERY_PACKET = 0x0003  # ETH_P_ALL
LOOK_S = 2.0


def experiment(topologies: int, repetitions: int) -> Experiment:
    two = dict.fromkeys(COMPONENTS, 2)
    small = {"flux": "linear", "parameters": {"rate_per_s": 20.0, "ms_per_character": 0.2},
             "overrides": {"workers": 1, "tasks": two, "executors": two}}  # fmt: skip
    data = {
        "title": f"{topologies} topologies at once",
        "topologies": [{"name": f"t{number}", **small} for number in range(1, topologies + 1)],
        "testbed": {"name": "local", "machine_type": "type_1", "scale": 0.8},
        "machines": {"before": MACHINES, "after": MACHINES},
        "variants": [{"name": "even", "policy": "even"}],
        "events": [{"kind": "hold", "at": 30, "decide_every_s": 10, "for_s": HOLD_S}],
        "durations": {"warm_up_floor_s": 30, "warm_up_ceiling_s": 30, "after_floor_s": HOLD_S, "horizon_s": 2 * HOLD_S},
        "repetitions": repetitions, "seed": 1, "lease_minutes": 60,
    }  # fmt: skip
    return parse(f"small/several_{topologies}", data, source=Path(__file__).name)


@dataclass
class MasterLoad:
    """What is seen of the master from this box while a run goes on: its posts, and CPU seconds of its processes."""

    lease_id: str
    posts: list[float] = field(default_factory=list)  # when each came
    cpu: list[tuple[float, Mapping[str, float]]] = field(default_factory=list)  # when, and seconds by process
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watched(self) -> Iterator[MasterLoad]:
        threads = [threading.Thread(target=each) for each in (self._hear_posts, self._look_at_processes)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _hear_posts(self) -> None:
        """At the box's end of the link of the lease's first machine."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PACKET)) as link:
            link.bind((f"b{self.lease_id}c0", 0))
            link.settimeout(LOOK_S)
            while not self._over.is_set():
                with suppress(TimeoutError):
                    if is_post(link.recv(65535)):
                        self.posts.append(time.time())

    def _look_at_processes(self) -> None:
        while not self._over.wait(LOOK_S):
            self.cpu.append((time.time(), cpu_seconds(self.lease_id)))

    def posts_per_s(self, begin: float, end: float) -> float:
        return sum(begin <= t < end for t in self.posts) / (end - begin)

    def cpu_percent(self, process: str, begin: float, end: float) -> float:
        """Of a core, from the first look in that time to the last one."""
        looks = [(t, seconds[process]) for t, seconds in self.cpu if begin <= t < end]
        (first_t, first), (last_t, last) = looks[0], looks[-1]
        return 100 * (last - first) / (last_t - first_t)


def is_post(frame: bytes) -> bool:
    """Whether an Ethernet frame begins a POST to the policy service."""
    ip = frame[14:]
    if frame[12:14] != b"\x08\x00" or len(ip) < 40 or ip[9] != socket.IPPROTO_TCP:
        return False
    tcp = ip[4 * (ip[0] & 15) :]
    return int.from_bytes(tcp[2:4], "big") == SERVICE_PORT and tcp[4 * (tcp[12] >> 4) :].startswith(b"POST /")


def cpu_seconds(lease_id: str) -> dict[str, float]:
    """By process: of those that the lease's machines run, by a word of the command."""
    found = dict.fromkeys(PROCESSES, 0.0)
    for pid in set(cgroup_pids(lease_id)):  # each hierarchy has it
        with suppress(OSError):  # it has ended
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
            for name, word in PROCESSES.items():
                found[name] += time.clock_gettime(cpu_clock(pid)) if word in words else 0.0
    return found


def cpu_clock(pid: int) -> int:
    """The number of a process's CPU clock (clock_getcpuclockid): its threads of now and those that have ended, to the
    nanosecond. /proc/<pid>/stat counts ticks, which short turns hit or miss."""
    return ~pid << 3 | 2


@dataclass(frozen=True)
class Cost:
    rounds_ms: Sequence[float]
    posts_per_s: float
    master: float  # these in percent of a core
    nimbus: float
    service: float
    restarts: int


def costs(topologies: int, repetitions: int) -> list[Cost]:
    """Of each run, in order."""
    found = []
    with deployed(experiment(topologies, repetitions)) as series:
        lease = saved_lease(series.folder)
        assert lease is not None, "there are machines"
        for _ in range(repetitions):
            with MasterLoad(lease.lease_id).watched() as load:
                run_id = do_run(series.folder)
            assert run_id is not None, "as many as it has repetitions"
            found.append(cost_of(series, run_id, load))
    return found


def cost_of(series: Series, run_id: str, load: MasterLoad) -> Cost:
    run = series.run_folder(run_id)
    events = list(json_lines(run / "events.jsonl"))
    begin, end = (time_of(events, kind) for kind in ("event_performed", "hold_ended"))
    rounds = [line["duration_ms"] for line in json_lines(run / "decisions.jsonl") if begin <= line["t"] < end]
    machine = json_lines(run / "machines" / "master.jsonl")
    cores = [line["cpu_cores"] for line in machine if begin <= line["t"] < end and line["cpu_cores"] is not None]
    restarts = sum(event["kind"] == "worker_restarted" for event in events)
    nimbus, service = (load.cpu_percent(process, begin, end) for process in PROCESSES)
    return Cost(rounds, load.posts_per_s(begin, end), 100 * fmean(cores), nimbus, service, restarts)


def time_of(events: Sequence[Mapping[str, Any]], kind: str) -> float:
    return next(float(event["t"]) for event in events if event["kind"] == kind)


def table_line(topologies: int, run: int, cost: Cost) -> list[str]:
    rounds = sorted(cost.rounds_ms)
    highest = quantiles(rounds, n=20, method="inclusive")[-1]
    numbers = [f"{median(rounds):.1f}", f"{highest:.1f}", str(len(rounds)), f"{cost.posts_per_s:.1f}"]
    shares = [f"{share:.1f}" for share in (cost.master, cost.nimbus, cost.service)]
    return [str(topologies), str(run), *numbers, *shares, str(cost.restarts)]


HEADINGS = ("topologies", "run", "round, ms", "95 % of rounds, ms", "rounds", "posts/s", "master, % of a core",
            "of it Nimbus", "of it the service", "restarts")  # fmt: skip


def table(sizes: Sequence[int], repetitions: int) -> str:
    lines = [
        table_line(size, number, cost)
        for size in sizes
        for number, cost in enumerate(costs(size, repetitions), start=1)
    ]
    return markdown_table(f"Topologies at once on {MACHINES} machines, a hold of {HOLD_S} s", HEADINGS, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="2,4,8", metavar="N,…", help="topologies at once; two machines run eight")
    parser.add_argument("--repetitions", type=int, default=1, help="runs of each size")
    options = parser.parse_args()
    with TemporaryDirectory(prefix="barograph-") as folder:
        os.environ["BAROGRAPH_RESULTS"] = folder
        print(table([int(size) for size in options.sizes.split(",")], options.repetitions))


if __name__ == "__main__":
    main()
