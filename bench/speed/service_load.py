"""What the policy service needs for many topologies: `python -m bench.speed.service_load --sizes 40x20,400x200`.

No network and no Storm: a minute of workers' lines, as many a second as real workers send, and what each call then
takes in this process: a post of two seconds of one worker's lines, a scheduling round, and the harness's look
(`/state`, as JSON). The policy (`--policy`) may act by itself in every round; each topology misses its service level,
so Henge has something to do wherever nothing settles. Medians, in ms of CPU, and the longest round, the first, which
sums up a minute of lines at once; `busy`: the share of one core that posts each other second, a round every two seconds
and a look each second would take together. All of it happens under one lock. A round is to take at most 250 ms for 40
topologies on 20 machines, 10 s for 400 on 200.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.tables import markdown_table
from scheduler_plugins.service.messages import VERSION
from scheduler_plugins.service.state import ServiceState

COMPONENTS = ("centre", "sink_1", "sink_2", "spout_1", "spout_2")
EDGES = (("spout_1", "centre"), ("spout_2", "centre"), ("centre", "sink_1"), ("centre", "sink_2"))
TASKS, EXECUTORS, WORKERS = 4, 2, 3  # of a component, of a component, of a topology
PORTS = range(6700, 6700 + 24)
WINDOW_S = 60


def topology(number: int, machines: int) -> dict[str, Any]:
    """Star, as Nimbus shows it; its workers are on neighbouring machines."""
    components, first = [], 1
    for name in COMPONENTS:
        tasks = list(range(first, first + TASKS))
        ranges = [[tasks[0], tasks[TASKS // 2 - 1]], [tasks[TASKS // 2], tasks[-1]]]
        kind = "spout" if name.startswith("spout") else "bolt"
        components.append({"name": name, "kind": kind, "tasks": tasks, "executors": ranges})
        first += TASKS
    numbers = range(number * WORKERS, (number + 1) * WORKERS)
    slots = [f"m{each % machines + 1}:{PORTS[each // machines]}" for each in numbers]
    placement = {str(task): slots[(task - 1) // 2 % WORKERS] for task in range(1, first)}
    edges = [{"source": s, "stream": "default", "target": t, "grouping": "shuffle"} for s, t in EDGES]
    return {
        "id": f"star-{number}-1000", "name": f"star-{number}", "workers": WORKERS, "uptime_s": 60,
        "components": components, "edges": edges, "placement": placement, "rebalancing": False,
    }  # fmt: skip


def request(t: float, topologies: Sequence[Mapping[str, Any]], machines: int) -> dict[str, Any]:
    known = [{"name": f"m{n}", "supervisor_id": f"m{n}", "ports": list(PORTS), "alive": True}
             for n in range(1, machines + 1)]  # fmt: skip
    return {"v": VERSION, "t": t, "machines": known, "topologies": list(topologies)}


def worker_line(t: int, shown: Mapping[str, Any], slot: str) -> str:
    """A second of the tasks in that slot, with everything that a line has but latencies' buckets."""
    kinds = {task: (each["name"], each["kind"]) for each in shown["components"] for task in each["tasks"]}
    tasks = [int(task) for task, where in shown["placement"].items() if where == slot]
    machine, _, port = slot.partition(":")
    names = [kinds[task][0] for task in tasks]
    counts = {name: [100] * len(tasks) for name in ("emitted", "transferred", "executed", "queue")}
    times = {name: [12.5] * len(tasks) for name in ("execute_ms", "process_ms", "cpu_ms", "backpressure_ms")}
    spouts = [task for task in tasks if kinds[task][1] == "spout"]
    bolts = [task for task in tasks if kinds[task][1] == "bolt"]
    sources = {"task": bolts, "component": ["centre"] * len(bolts), "stream": ["default"] * len(bolts)}
    line = {
        "v": 1, "t": t + 0.003, "dt_s": 1.0, "machine": machine, "port": int(port), "pid": 1, "topology": shown["id"],
        "seq": t, "tasks": {"task": tasks, "component": names, **counts, **times},
        "streams": {"task": tasks, "stream": ["default"] * len(tasks), "emitted": [100] * len(tasks)},
        "sources": sources | {"executed": [100] * len(bolts), "execute_ms": [12.5] * len(bolts)},
        "sinks": {"task": bolts, "n": [100] * len(bolts), "sum_ms": [900.0] * len(bolts)},
        "spouts": {"task": spouts, "due": [100] * len(spouts), "emitted": [100] * len(spouts),
                   "behind": [0] * len(spouts), "behind_ms": [0.0] * len(spouts)},
    }  # fmt: skip
    return json.dumps(line)


def machine_line(t: int, name: str) -> str:
    return json.dumps(
        {"t": float(t), "dt_s": 1.0, "machine": name, "cpu_cores": 1.0, "cpu_quota_cores": 1.0, "runnable": 3.0}
    )


def costs_ms(topologies: int, machines: int, repetitions: int, policy: str) -> tuple[float, float, float, float]:
    """Of a post, a round, the longest round, and a look."""
    shown = [topology(number, machines) for number in range(topologies)]
    workers = [(each, slot) for each in shown for slot in sorted(set(each["placement"].values()))]
    now = [1000.0]
    with TemporaryDirectory() as folder:
        state = ServiceState(Path(folder), lambda: now[0])
        levels = {each["name"]: {"latency_ms": 1.0, "max_utility": 10.0 + n} for n, each in enumerate(shown)}
        state.configure({"run_id": "load", "policy": policy, "window_s": WINDOW_S, "service_levels": levels})
        state.schedule(request(now[0], shown, machines))
        state.change_rounds({"decide_every_s": 2.0})
        posts: list[float] = []
        rounds: list[float] = []
        looks: list[float] = []
        for second in range(1000, 1000 + WINDOW_S + 2 * repetitions, 2):
            now[0] = second + 2.0
            texts = [([worker_line(second + n, each, slot) for n in (1, 2)], each["id"]) for each, slot in workers]
            for lines, topology_id in texts:
                posts.append(timed_ms(lambda lines=lines, id=topology_id: state.take_samples(lines, id)))  # type: ignore[misc]
            state.take_machine_samples([machine_line(second + 2, f"m{n}") for n in range(1, machines + 1)])
            if second >= 1000 + WINDOW_S:
                asked = request(now[0], shown, machines)
                rounds.append(timed_ms(lambda asked=asked: state.schedule(asked)))  # type: ignore[misc]
                looks.append(timed_ms(lambda: json.dumps(state.state())))
    return median(posts), median(rounds), max(rounds), median(looks)


def timed_ms(call: Callable[[], object]) -> float:
    begun = time.thread_time()
    call()
    return 1000 * (time.thread_time() - begun)


def table(sizes: Sequence[tuple[int, int]], repetitions: int, policy: str) -> str:
    lines = []
    for topologies, machines in sizes:
        post, round, longest, look = costs_ms(topologies, machines, repetitions, policy)
        busy = (topologies * WORKERS * post / 2 + round / 2 + look) / 1000
        size = [f"{topologies} × {machines}", str(topologies * WORKERS)]
        lines.append([*size, f"{post:.2f}", f"{round:.1f}", f"{longest:.1f}", f"{look:.1f}", f"{100 * busy:.1f}"])
    headings = [
        "topologies × machines",
        "workers",
        "post, ms",
        "round, ms",
        "longest, ms",
        "look, ms",
        "busy, % of a core",
    ]
    return markdown_table(f"Policy service, {policy}, window {WINDOW_S} s, {repetitions} repetitions", headings, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="1x2,2x3,4x5,8x10,20x20,40x20", metavar="TOPOLOGIESxMACHINES,…")
    parser.add_argument("--policy", default="henge")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    sizes = [(int(a), int(b)) for a, _, b in (size.partition("x") for size in options.sizes.split(","))]
    print(table(sizes, options.repetitions, options.policy))


if __name__ == "__main__":
    main()
