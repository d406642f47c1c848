"""What a simulated cluster is made of: what components do to tuples, what machines can do, what Storm costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from scheduler_plugins.model import SYSTEM_PREFIX

OnRestart = Literal["catch_up", "skip"]
GROUPINGS = ("shuffle", "local_or_shuffle", "fields", "global", "none", "all", "ring")


class SimulationError(Exception):
    """Something that the model does not have, or that cannot be. `blame` is the user's configuration."""

    blame = "configuration"


@dataclass(frozen=True)
class SimulatedComponent:
    """What one tuple costs a component. `sleep_ms` passes on any machine alike, `cpu_ms` needs a core for so long.

    `cost_cv2`: squared coefficient of variation of that cost, tuple by tuple. `rate_per_s`: what a spout component
    offers, shared by its tasks; None: as fast as Storm lets it. `buffer`: tuples that the receive queue of an executor
    takes before those that feed it have to wait; infinity as in Storm 0.9. `limit`: tuples that may wait for an
    executor of a bolt; of more the oldest are dropped, and have cost it `receive_ms` each.
    """

    name: str
    kind: Literal["spout", "bolt", "system"]
    tasks: tuple[int, ...]
    sleep_ms: float = 0.0
    cpu_ms: float = 0.0
    cost_cv2: float = 0.0
    rate_per_s: float | None = None
    on_restart: OnRestart = "catch_up"
    buffer: float = math.inf
    limit: float = math.inf


@dataclass(frozen=True)
class EdgeWork:
    """A stream from a component to another. `selectivity`: tuples emitted on it per tuple that the source executes (of
    a spout: emits). `weights`: of a fields grouping, the share of the tuples that each task of the target gets, in the
    order of its tasks; empty: all alike. `routes`: where that differs from task to task of the source: of each of them,
    in order, places of the target's tasks and their shares. A `ring` sends all tuples of the source's task i to the
    target's task i + 1.
    """

    source: str
    stream: str
    target: str
    grouping: str
    selectivity: float = 1.0
    tuple_bytes: float = 100.0
    weights: tuple[float, ...] = ()
    routes: tuple[tuple[tuple[int, float], ...], ...] = ()

    @property
    def is_system(self) -> bool:
        """Return whether it is Storm's own: an acker's."""
        return self.stream.startswith(SYSTEM_PREFIX)


@dataclass(frozen=True)
class Waits:
    """How an executor looks for tuples while there are none (Storm's WaitStrategyProgressive): for `spin_s` again and
    again, then every `sleep_s`. 0: it notices at once."""

    spin_s: float = 0.0
    sleep_s: float = 0.0


@dataclass(frozen=True)
class Acking:
    """Of a topology with ackers, whose component is one of kind `system`. `pending`: trees of tuples that a task of a
    spout has in flight at most, None: any number; `timeout_s`: one that is never complete is given up after one to two
    of these; `ack_bytes`: of the message to the spout."""

    pending: int | None = None
    timeout_s: float = 30.0
    ack_bytes: float = 16.0


@dataclass(frozen=True)
class SimulatedTopology:
    """A topology as it is submitted."""

    name: str
    workers: int
    components: tuple[SimulatedComponent, ...]
    edges: tuple[EdgeWork, ...]
    bolt_waits: Waits = Waits()
    spout_waits: Waits = Waits()
    acking: Acking | None = None

    def __post_init__(self) -> None:
        check_work(self)

    def levels(self) -> dict[str, int]:
        """Each component's longest way from a source: 0 for spouts only. Raises SimulationError for a cycle."""
        found = {component.name: 0 for component in self.components if component.kind == "spout"}
        sources: dict[str, list[str]] = {component.name: [] for component in self.components}
        for edge in self.edges:
            sources[edge.target].append(edge.source)
        while len(found) < len(sources):
            ready = [
                name for name, feeding in sources.items() if name not in found and all(s in found for s in feeding)
            ]
            if not ready:
                raise cycle_refusal(self.name, cycle_members(sources))
            found |= {name: 1 + max((found[s] for s in sources[name]), default=0) for name in ready}
        return found


def cycle_members(sources: Mapping[str, Iterable[str]]) -> list[str]:
    """Components on a cycle, sorted. `sources`: those that feed each component."""
    fed = {name: set(feeding) for name, feeding in sources.items()}
    for between in fed:
        for feeding in fed.values():
            if between in feeding:
                feeding.update(fed[between])
    return sorted(name for name, feeding in fed.items() if name in feeding)


def cycle_refusal(topology: str, members: Iterable[str]) -> SimulationError:
    """Its first words are those of the warning that Storm gives, which runs such a topology all the same."""
    return SimulationError(
        f'topology {topology} contains cycles in components "{",".join(members)}"; the simulator has no cycles: take'
        " the local testbed, or remove the stream that leads back"
    )


def check_work(work: SimulatedTopology) -> None:
    """Raises SimulationError for what the model does not have."""
    names = {component.name: component for component in work.components}
    for edge in work.edges:
        where = f"topology {work.name}: the stream from {edge.source} to {edge.target}"
        if edge.grouping not in GROUPINGS:
            raise SimulationError(f"{where} has the grouping {edge.grouping!r}; allowed are {', '.join(GROUPINGS)}")
        if edge.source not in names or edge.target not in names:
            raise SimulationError(f"{where} is between components of which one is not there")
        if edge.weights and len(edge.weights) != len(names[edge.target].tasks):
            tasks = len(names[edge.target].tasks)
            raise SimulationError(f"{where} has {len(edge.weights)} weights; allowed are {tasks}, one a task")
        if edge.routes:
            sources, targets = (len(names[end].tasks) for end in (edge.source, edge.target))
            if len(edge.routes) != sources:
                words = f"has routes of {len(edge.routes)} tasks; allowed are {sources}, one a task"
                raise SimulationError(f"{where} {words}")
            for place in {place for route in edge.routes for place, _ in route}:
                if not 0 <= place < targets:
                    words = f"has a route to place {place}; allowed are 0 to {targets - 1}, the target's"
                    raise SimulationError(f"{where} {words}")
    work.levels()


@dataclass(frozen=True)
class MachineSize:
    """`cores` that its processes may use, `bandwidth_mbit` in each direction, 0 for no limit; `slots`: its ports."""

    name: str
    cores: float = 1.0
    bandwidth_mbit: float = 0.0
    slots: int = 4


@dataclass(frozen=True)
class Costs:
    """What Storm costs on the machines in question; fitted to real runs, see docs/simulator.md.

    Times of a core in ms a tuple unless said. `start_cpu_s`: CPU a worker needs until it works; `start_wait_s`: time
    that passes before, whatever the CPU (the supervisor's look); `fetch_s`: more, of the first workers of a topology on
    a machine, while its supervisor fetches the code. `stop_s`: from an assignment until the old worker is gone.
    `supervisor_cpu_s`: CPU that a supervisor's own start takes. `idle_cores`: of a worker at rest,
    beside its executors. `poll_ms`: of each look of an executor that finds nothing (the shorter its sleeps, the more).
    `machine_idle_cores`: of a machine without workers. `hop_ms`: from emit to the receive queue inside a worker,
    `remote_hop_ms` to that of another one; how long a tuple waits there until it is noticed follows from the topology's
    own settings (`Waits`).
    `sleep_slack_ms`: what a sleep takes longer than it was told. `warm_up_cores`: what a worker uses more than at rest
    when it has just started, whatever comes to it, for its JVM compiles; after `warm_up_s` 1/e of it is left.
    `quota_period_ms`: after which a machine whose quota is used up goes on; 0 where machines have none, and threads
    that lack CPU take turns of `slice_ms`. `frame_bytes`: what Storm adds to a tuple that leaves its worker. `noise`:
    standard deviation of an executor's speed, second by second, as a share of it, beside that of what its tuples cost
    (`cost_cv2`).
    """

    receive_ms: float = 0.02
    local_emit_ms: float = 0.01
    remote_emit_ms: float = 0.04
    remote_kb_ms: float = 0.005
    hop_ms: float = 0.1
    remote_hop_ms: float = 0.7
    frame_bytes: float = 60.0
    start_cpu_s: float = 1.6
    start_wait_s: float = 2.0
    fetch_s: float = 1.5
    stop_s: float = 1.0
    supervisor_cpu_s: float = 2.0
    idle_cores: float = 0.0215
    poll_ms: float = 0.035
    machine_idle_cores: float = 0.02
    sleep_slack_ms: float = 0.2
    warm_up_cores: float = 0.015
    warm_up_s: float = 30.0
    quota_period_ms: float = 100.0
    slice_ms: float = 3.0
    noise: float = 0.0

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Costs:
        """From a file of costs. Raises SimulationError for an unknown name or a value below 0."""
        known = {each.name for each in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise SimulationError(f"costs: {name!r} is unknown; known are {', '.join(sorted(known))}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise SimulationError(f"costs: {name} is {value!r}; allowed is a number, 0 or above")
        return cls(**values)


def young_share(age_s: float, length_s: float, warm_up_s: float) -> float:
    """Return, of `warm_up_cores`, what a worker of that age uses over the time that follows, on average."""
    if warm_up_s <= 0 or length_s <= 0:
        return 0.0
    spent = math.exp(-max(age_s, 0.0) / warm_up_s) - math.exp(-(max(age_s, 0.0) + length_s) / warm_up_s)
    return spent * warm_up_s / length_s


@dataclass
class Load:
    """What a machine suffers now: `busy` cores wanted by others, `speed` as a share of its cores, `is_cut` from the
    LAN; what it sends to the machines `unreached` is lost, and what they send to it."""

    busy: float = 0.0
    speed: float = 1.0
    is_cut: bool = False
    is_alive: bool = True
    unreached: frozenset[str] = field(default_factory=frozenset)
