"""The parts of declared tables: a column, a table, and the columns that several tables share."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column; `type` is Spark's. `unit` is empty if there is none; `null_when` is empty if the value is never
    null."""

    name: str
    type: str
    unit: str
    meaning: str
    null_when: str = ""


@dataclass(frozen=True)
class Table:
    """A table. `key`: the columns that identify its rows within a series. `group`: it is a view, of this group of
    columns of `worker_lines` (`LINE`: of whole lines); no file has it.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    group: str = ""

    @property
    def names_topology(self) -> bool:
        """Return whether a row belongs to a topology by its name, or to the cluster."""
        return TOPOLOGY_NAME in self.columns or self.name == "topologies"

    @property
    def ddl(self) -> str:
        """Return its columns as Spark and `small_tables` read them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


LINE = "line"

# Columns that several tables share.
RUN_ID = Column("run_id", "string", "", "the run, `<variant>-r<repetition>`")
EVENT_ID = Column(
    "event_id", "string", "", "the event of the plan, `e1`, `e2` … in its order; `e0` is the run as a whole"
)
T_S = Column("t_s", "double", "s", "epoch seconds at the end of the sampled interval")
DT_S = Column(
    "dt_s",
    "double",
    "s",
    "length of the sampled interval: 1, but for a worker's first and last lines, a throttled sampler's, and where a "
    "run was simulated with longer ones",
)
WINDOW_S = Column(
    "window_s", "double", "s", "start of a window of 10 s, relative to the event's zero; negative before it"
)
PHASE = Column("phase", "string", "", "`before` or `after` the event")
PART = Column(
    "phase",
    "string",
    "",
    "`before` or `after` the event; `rest`: the part of *after* in which what the event had begun was over "
    "(from `scale_events.ended_s` on), where it was over before the next one",
)
MACHINE = Column("machine", "string", "", "name of the machine: `master`, `m1` …")
PORT = Column("port", "int", "", "port of the worker; `machine:port` is its slot")
TOPOLOGY = Column("topology", "string", "", "id of the topology in Storm", "read from other people's logs")
TOPOLOGY_NAME = Column(
    "topology", "string", "", "name of the topology in Storm; `all`: the cluster, where a run has several topologies; "
    "empty where the record names none")  # fmt: skip
TASK = Column("task", "int", "", "number of the task in its topology")
FIRST_TASK = Column("first_task", "int", "", "first task of its executor")
LAST_TASK = Column("last_task", "int", "", "last task of its executor")
FROM = Column("from", "int", "", "task that sent")
TO = Column("to", "int", "", "task that was sent to")
COMPONENT = Column("component", "string", "", "name of the component")
STREAM = Column("stream", "string", "", "name of the stream")
SOURCE = Column("source", "string", "", "component that emits")
TARGET = Column("target", "string", "", "component that receives")
GROUPING = Column("grouping", "string", "", "how the target's tasks are chosen: `shuffle`, `fields`, `all` …")
INTERFACE = Column("interface", "string", "", "`ctl0` (control LAN) or `exp0` (experiment LAN)")
SLOT = Column("slot", "string", "", "`machine:port`")
JOINS_AT_SCALE = Column(
    "joins_at_scale", "boolean", "", "whether the machine joins only at an event", "the machine is the master"
)
SINK = Column("component", "string", "", "the sink; empty for the other scopes")
SCOPE = Column(
    "scope", "string", "", "`sink` (one component), `total` (all sinks), `spouts` (emitted) or `due` (offered)"
)
RATE = Column(
    "rate",
    "double",
    "tuples/s",
    "mean over the window; 0 where workers were silent",
    "nobody reported in the window; of `due`: nobody knew all that fell due in it",
)
COMPLETE = Column("complete", "boolean", "", "whether the window lies wholly inside what was observed")
P50_MS = Column("p50_ms", "double", "ms", "what half of all tuples keep to")
P95_MS = Column("p95_ms", "double", "ms", "what 95 % of all tuples keep to")
P99_MS = Column("p99_ms", "double", "ms", "what 99 % of all tuples keep to")
UTILISATION_MEAN = Column("utilisation_mean", "double", "1", "share of its quota, mean", "no quota is known")
MEMORY_BYTES_MEAN = Column("memory_bytes_mean", "double", "bytes", "memory in use, mean", "not measured")
