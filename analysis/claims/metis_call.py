"""M13, as far as a computation of a second can show: does the policy lose anything against METIS itself,
called as MP called it (`vol`)?

A topology of ten thousand tasks in eight stages, each sending to five of the next stage, placed round robin. The policy
makes its graph from measurements and places executors; the bare call gets adjacency lists written here. The time
of both is measured on the same topology, of any width (bench/speed/partition_bench.py).
"""

from collections.abc import Mapping
from random import Random

from scheduler_plugins.model import Component, Edge, Executor, Observation, ScaleEvent, Slot, Topology, WorkerMachine
from scheduler_plugins.policies import bind
from scheduler_plugins.policies.partition import OBJECTIVES
from scheduler_plugins.traffic import Pair, Traffic

STAGES, WIDTH, RECEIVERS, PARTS = 8, 1250, 5, 10
WINDOW_S = 60.0
Counts = Mapping[Pair, float]


class NotComputed(Exception):
    """The reason why there is nothing to compare: METIS cannot be called, or the policy places nothing."""


def tuple_counts(width: int = WIDTH, seed: int = 13) -> Counts:
    """Return counts from task to task in the window; tasks from 1 on, `width` a stage. All but one of a task's
    receivers are near."""
    random = Random(seed)
    counts: dict[Pair, float] = {}
    for stage in range(STAGES - 1):
        first = 1 + stage * width
        for index in range(width):
            receivers = [(index + step) % width for step in range(RECEIVERS - 1)]
            for target in (*receivers, random.randrange(width)):
                counts[first + index, first + width + target] = float(random.randrange(60, 6000))
    return counts


def observation_of(counts: Counts, width: int = WIDTH, parts: int = PARTS) -> Observation:
    """Return the topology on `parts` machines of a slot each, a task an executor, with a request for a new
    placement."""
    hosts = tuple(WorkerMachine(f"m{n}", f"id-{n:03}", (6700,), cores=1e6) for n in range(1, parts + 1))
    slots = [Slot(host.name, 6700) for host in hosts]
    components = tuple(_component(stage, width) for stage in range(STAGES))
    edges = tuple(Edge(f"stage_{n}", "default", f"stage_{n + 1}", "fields", 1.0) for n in range(STAGES - 1))
    placement = {task: slots[task % parts] for task in range(1, 1 + STAGES * width)}
    traffic = Traffic(counts, WINDOW_S)
    topology = Topology("t-1", "t", parts, components, edges, placement, traffic=traffic, samples_age_s=1.0)
    return Observation(0.0, hosts, (topology,), 1.0, ScaleEvent("e1", "reschedule"))


def _component(stage: int, width: int) -> Component:
    tasks = tuple(range(1 + stage * width, 1 + (stage + 1) * width))
    executors = tuple(Executor(task, task, cpu_load=0.01) for task in tasks)
    return Component(f"stage_{stage}", "bolt" if stage else "spout", tasks, executors, 1.0, 1.0)


def policy_parts(counts: Counts) -> dict[int, object]:
    """Return where the policy `metis` (vol) puts each task. Raises NotComputed if it moves none."""
    observation = observation_of(counts)
    decision = bind("metis", {"objective": "vol"})(observation, {})
    if not decision.placement:
        raise NotComputed(decision.reason)
    return {**observation.topologies[0].placement, **decision.placement["t-1"]}


def bare_parts(counts: Counts) -> dict[int, object]:
    """Return METIS' own parts, with the options that the policy sets. Raises NotComputed without pymetis."""
    try:
        import pymetis
    except ImportError as error:
        raise NotComputed(f"needs pymetis, which this Python does not have ({error})") from error

    size = STAGES * WIDTH
    rows: list[dict[int, int]] = [{} for _ in range(size)]
    for (source, target), count in counts.items():
        for one, other in ((source - 1, target - 1), (target - 1, source - 1)):
            rows[one][other] = rows[one].get(other, 0) + int(count)
    ordered = [sorted(row.items()) for row in rows]
    _, parts = pymetis.part_graph(
        PARTS,
        [[other for other, _ in row] for row in ordered],
        vweights=[sum(row.values()) for row in rows],
        recursive=False,
        options=pymetis.Options(objtype=OBJECTIVES["vol"], ufactor=30, seed=0),
    )
    return dict(enumerate(parts, start=1))


def crossing(counts: Counts, places: Mapping[int, object]) -> float:
    return sum(count for (source, target), count in counts.items() if places[source] != places[target])


def crossing_beyond_bare_percent() -> float:
    """Return by how many percent the policy's crossing exceeds METIS' own. Raises NotComputed."""
    counts = tuple_counts()
    reference = crossing(counts, bare_parts(counts))
    return 100.0 * (crossing(counts, policy_parts(counts)) / reference - 1.0)
