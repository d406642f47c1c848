"""Every table, declared once: its columns in their order, with type, unit, meaning, and when a value is null.

Parquet files, Spark's schemas, `barograph sql --describe` and docs/tables.md are made from this. `t_s` is epoch seconds
at the end of the sampled interval `dt_s`; counts of samples are of that interval. Null: not measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Column:
    """`type` is Spark's. `unit` is empty where there is none; `null_when` is empty where the value is never null."""

    name: str
    type: str
    unit: str
    meaning: str
    null_when: str = ""


@dataclass(frozen=True)
class Table:
    """`key`: the columns that tell its rows apart within a series. `group`: it is a view, of this group of columns of
    `worker_lines` (`LINE`: of the lines as wholes); no file has it.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    group: str = ""

    @property
    def names_topology(self) -> bool:
        """Whether a row is of a topology by its name, or of the cluster."""
        return TOPOLOGY_NAME in self.columns or self.name == "topologies"

    @property
    def ddl(self) -> str:
        """Its columns as Spark and `small_tables` read them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


LINE = "line"

# Columns that several tables have.
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
    "empty where the record names none", "an older version analysed it",
)  # fmt: skip
TASK = Column("task", "int", "", "number of the task in its topology")
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

# fmt: off
_DECLARED = (
    Table("runs", "one row a run, from its `run.json`", ("run_id",), (
        RUN_ID,
        Column("series_id", "string", "", "the series that the run is of", "no readable run.json"),
        Column("experiment", "string", "", "`family/name`", "no readable run.json"),
        Column("block", "int", "", "block that the run belongs to, from 1", "no readable run.json"),
        Column("repetition", "int", "", "repetition of the variant, from 1", "no readable run.json"),
        Column("order", "int", "",
               "place of the run in its series, from 1", "no readable run.json; read from other people's logs"),
        Column("seed", "bigint", "", "seed of the run", "as order"),
        Column("variant", "string", "", "name of the variant", "no readable run.json"),
        Column("policy", "string", "", "policy that decided", "as order; the variant is a foreign scheduler"),
        Column("parameters", "string", "JSON", "parameters of the policy"),
        Column("topology_changes", "string", "JSON",
               "`parameters` and `overrides` in which the variant's topology differs from the experiment's, or `{}`"),
        Column("status", "string", "",
               "`complete`, `incomplete` (cut short), `failed` or `invalid` (no result: its `run.json` says why)"),
        Column("failure_blame", "string", "",
               "whose failure: `configuration`, `capacity`, `infrastructure`, `system_under_test`, `harness`",
               "nothing failed"),
        Column("failure_message", "string", "", "what failed, in one line", "nothing failed"),
        Column("failure_where", "string", "", "the phase in which it failed", "nothing failed"),
        Column("started_s", "double", "s", "epoch seconds at which the run began", "no readable run.json"),
        Column("ended_s", "double", "s", "epoch seconds at which it ended", "no readable run.json"),
        Column("date_s", "double", "s",
               "epoch seconds at which a simulated run was begun; its other times are simulated ones",
               "the run was not simulated; older records"),
        Column("topology", "string", "",
               "name of the topology; of several the first one's (see `topologies`)", "no record was collected"),
        Column("topology_id", "string", "",
               "its id in Storm, `topology` of its samples; of several topologies the first one's (see `topologies`)",
               "no record was collected; older records; read from other people's logs"),
        Column("workers", "int", "",
               "workers that the topology asked for", "no record was collected; read from other people's logs"),
        Column("git_commit", "string", "", "commit of Barograph that ran it", "not run from a git work tree"),
        Column("git_dirty", "boolean", "", "whether the work tree was changed since that commit", "as git_commit"),
        Column("measurement", "int", "",
               "what its load and its samples mean (docs/contracts.md): runs of different ones are not compared",
               "older records; no readable run.json; read from other people's logs"),
        Column("versions", "string", "JSON", "versions of Storm, Python, Airflow, Ansible, Spark"),
        Column("harness_facts", "string", "JSON",
               "the machine that the harness ran on: CPU, memory, kernel, system, load"),
        Column("spec", "string", "JSON", "the experiment as it was run"),
    )),
    Table("components", "one row a task of the run's topologies", ("run_id", "topology", "component", "task"), (
        RUN_ID, TOPOLOGY_NAME, COMPONENT,
        Column("kind", "string", "", "`spout` or `bolt`"),
        Column("sink", "boolean", "", "whether it emits to nobody"),
        Column("executors", "int", "", "executors of the component at submission", "read from other people's logs"),
        TASK,
    )),
    Table("edges", "one row an edge of the run's topologies", ("run_id", "topology", "source", "stream", "target"), (
        RUN_ID, TOPOLOGY_NAME, SOURCE, STREAM, TARGET, GROUPING,
    )),
    Table("topologies",
          "one row a topology of a run; metrics are of these and of no other one that ran beside them",
          ("run_id", "topology"), (
        RUN_ID,
        Column("topology", "string", "", "its name in Storm; empty where the record names none"),
        Column("topology_id", "string", "", "its id in Storm, `topology` of its samples",
               "it was never submitted; older records; read from other people's logs"),
        Column("position", "int", "", "its place in the plan, from 1"),
        Column("workers", "int", "", "workers that it asked for", "as topology_id"),
        Column("latency_ms", "double", "ms", "its service level: mean latency of its tuples", "it has none in latency"),
        Column("juice", "double", "1", "its service level: share of its input that is processed (Henge's juice)",
               "it has none in juice"),
        Column("max_utility", "double", "", "its utility where its service level is met", "it has no service level"),
    )),
    Table("phases",
          "how long each phase of a run took, in the order in which they were",
          ("run_id", "phase", "start_s"), (
        RUN_ID,
        Column("phase", "string", "", "name of the phase: `reset`, `warm_up`, `after` …"),
        Column("start_s", "double", "s", "epoch seconds at which it began"),
        Column("end_s", "double", "s", "epoch seconds at which it ended", "the harness died in it"),
        Column("planned_s", "double", "s",
               "of it what the experiment's own durations asked for; 0 for the harness's phases"),
    )),
    Table("machines", "one row a machine of the workers, as it was described", ("run_id", "machine"), (
        RUN_ID, MACHINE,
        Column("type", "string", "", "machine type"),
        Column("cores", "double", "cores", "CPU that the machine may use", "not known"),
        Column("memory_mb", "double", "MB", "memory that it has", "not known"),
        Column("bandwidth_mbit", "double", "Mbit/s", "bandwidth of its experiment LAN", "not shaped or not known"),
        Column("slots", "int", "", "workers that it can run", "not known"),
        Column("joins_at_scale", "boolean", "", "whether it joins only at an event"),
        Column("clock_offset_ms", "double", "ms", "its clock less the harness's, before the run", "not measured"),
        Column("clock_end_offset_ms", "double", "ms", "the same when its files were collected",
               "not measured; older records, whose only offset may be of the collection"),
    )),
    Table("worker_samples",
          "one row a line of a worker, one a second unless it was simulated otherwise",
          ("run_id", "machine", "port", "pid", "seq"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT,
        Column("pid", "bigint", "", "process of the worker; another one after a restart"),
        TOPOLOGY,
        Column("seq", "bigint", "", "number of the line in its process, from 0"),
    ), LINE),
    Table("task_samples",
          "one row a task and second",
          ("run_id", "topology", "machine", "port", "t_s", "task", "component"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY, TASK, COMPONENT,
        Column("emitted", "bigint", "tuples", "emitted in the interval", "not measured"),
        Column("transferred", "bigint", "tuples",
               "sent to other tasks in the interval (emitted × receivers)", "not measured"),
        Column("executed", "bigint", "tuples",
               "executed in the interval", "not measured; a spout in other people's logs"),
        Column("execute_ms", "double", "ms", "time in `execute`, summed over the interval's tuples", "not measured"),
        Column("process_ms", "double", "ms", "time until the ack, summed over the interval's tuples", "nothing acks"),
        Column("queue", "bigint", "tuples",
               "waiting in the task's receive queue; tasks of one executor show an even share each", "not measured"),
        Column("cpu_ms", "double", "ms",
               "CPU time of its executor's thread in the interval; tasks of one executor show an even share each",
               "not measured: no tuple came to the executor yet; older records"),
        Column("backpressure_ms", "double", "ms",
               "time that its executor waited in the interval because a queue after it was full; tasks of one executor "
               "show an even share each; such time is in no `execute_ms`",
               "the topology has a wait strategy that is not ours; older records"),
    ), "tasks"),
    Table("stream_samples",
          "one row a task, stream and second",
          ("run_id", "topology", "machine", "port", "t_s", "task", "stream"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY, TASK, STREAM,
        Column("emitted", "bigint", "tuples", "emitted on the stream in the interval", "not measured"),
    ), "streams"),
    Table("source_samples",
          "one row a task, source and second",
          ("run_id", "topology", "machine", "port", "t_s", "task", "component", "stream"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY, TASK,
        Column("component", "string", "", "component that the tuples came from"),
        STREAM,
        Column("executed", "bigint", "tuples", "tuples of that source executed in the interval", "not measured"),
        Column("execute_ms", "double", "ms", "time in `execute`, summed over them", "not measured"),
    ), "sources"),
    Table("sink_samples",
          "latency at a sink, one row a task, source machine and second in which tuples came; from when a tuple should "
          "have been emitted to the end of its execution, each by the clock of its machine",
          ("run_id", "topology", "machine", "port", "t_s", "task", "source_machine"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY, TASK,
        Column("n", "bigint", "tuples", "tuples that were timed in the interval"),
        Column("sum_ms", "double", "ms", "sum of their latencies"),
        Column("max_ms", "double", "ms", "the largest", "no tuple in the interval (older records)"),
        Column("source_machine", "string", "", "machine of the spout's task, by whose clock they were due",
               "a source that is not ours; older records"),
        Column("buckets", "array<int>", "",
               "buckets of latencies that hold a tuple (docs/contracts.md)", "older records"),
        Column("counts", "array<bigint>", "tuples", "how many each of them holds", "older records"),
    ), "sinks"),
    Table("spout_samples",
          "what a spout was to emit and did, one row a task and second",
          ("run_id", "topology", "machine", "port", "t_s", "task"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY, TASK,
        Column("due", "bigint", "tuples", "whose intended emission time fell into the interval", "not measured"),
        Column("emitted", "bigint", "tuples", "emitted in the interval", "not measured"),
        Column("behind", "bigint", "tuples", "due and not emitted at the interval's end", "not measured"),
        Column("behind_ms", "double", "ms", "age of the oldest of them", "not measured"),
        Column("missed", "bigint", "tuples", "due, and never to be emitted; counted when the spout began anew",
               "not measured, or nobody knew what had been due before it began"),
        Column("late", "bigint", "tuples", "emitted in the interval, more than 1 s after they were due",
               "not measured"),
    ), "spouts"),
    Table("gap_samples",
          "what fell due while a spout had no process, as the next process says it; one row a task, restart and rate",
          ("run_id", "topology", "machine", "port", "t_s", "task", "until_s"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY, TASK,
        Column("from_s", "double", "s", "epoch seconds; begin of the gap, or of a rate in it", "nobody knew"),
        Column("until_s", "double", "s", "epoch seconds; end of the gap, or of that rate"),
        Column("due", "bigint", "tuples", "whose intended emission time fell into it", "nobody knew"),
    ), "gaps"),
    Table("traffic_samples",
          "tuples from task to task, one row a pair and second; of topologies with `barograph.traffic: true`",
          ("run_id", "topology", "machine", "port", "t_s", "from", "to"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY,
        Column("from", "int", "", "task that sent"),
        Column("to", "int", "", "task that was sent to"),
        Column("n", "bigint", "tuples", "sent in the interval"),
    ), "traffic"),
    Table("machine_samples", "CPU and memory of a machine, one row a line of its probe", ("run_id", "machine", "t_s"), (
        RUN_ID, T_S, DT_S, MACHINE,
        Column("cpu_cores", "double", "cores", "CPU seconds used per second", "not measured"),
        Column("cpu_quota_cores", "double", "cores", "CPU that it may use", "not known"),
        Column("throttled_ms", "double", "ms",
               "core time in the interval in which its quota was used up: added up over the cores of the box that "
               "it wanted, so it may be longer than the interval", "not measured"),
        Column("steal_percent", "double", "percent",
               "of the time of all cores of its box, what the hypervisor gave to others", "older records"),
        Column("memory_bytes", "bigint", "bytes", "memory in use", "not measured"),
        Column("memory_limit_bytes", "bigint", "bytes", "memory that it may use", "no limit is known"),
    )),
    Table("network_samples",
          "bytes of each interface of a machine, one row a line of its probe",
          ("run_id", "machine", "interface", "t_s"), (
        RUN_ID, T_S, DT_S, MACHINE, INTERFACE,
        Column("rx_bytes", "bigint", "bytes", "received in the interval", "not measured"),
        Column("tx_bytes", "bigint", "bytes", "sent in the interval", "not measured"),
    )),
    Table("events",
          "one row an event of `events.jsonl`; a column is filled for the kinds that have it",
          ("run_id", "t_s", "kind", "event_id", "decision_id", "phase"), (
        RUN_ID,
        Column("t_s", "double", "s", "epoch seconds at which it happened"),
        Column("kind", "string", "",
               "what happened: `run_started`, `scale_requested`, `decision`, `applied` … (docs/contracts.md)"),
        Column("phase", "string", "", "`before` or `after`, of `steady`", "another kind"),
        Column("steady", "boolean", "", "whether the run step, watching live, found the run steady", "another kind"),
        Column("reason", "string", "",
               "why: of `steady`, `decision`, `fallback`, `scale_aborted`, `course_ended`, `machine_request` …",
               "another kind"),
        Column("machines", "array<string>", "",
               "machines concerned: of `machines_joined`, `machines_left` …", "another kind"),
        Column("event_id", "string", "",
               "event of the plan that it belongs to; `e1.2` is the second attempt at `e1`", "it belongs to none"),
        Column("event", "string", "", "kind of event, of `scale_requested` and `event_performed`", "another kind"),
        Column("joined", "array<string>", "", "machines that joined, of `scale_requested`", "another kind"),
        Column("leave", "int", "", "how many machines are to leave, of `scale_requested`", "another kind"),
        Column("decision_id", "string", "", "of `decision` and `applied`", "another kind"),
        Column("ok", "boolean", "", "whether a decision could be applied", "another kind"),
        Column("own", "boolean", "", "whether the policy decided by itself, of `decision` and `applied`",
               "another kind; it did not"),
        Column("factor", "double", "", "input rate factor, of `rate_changed`", "another kind"),
        Column("machine", "string", "", "of `crashed`, `restarted` and `machine_booted`", "another kind"),
        Column("given_back", "boolean", "",
               "whether the testbed has the machines back, of `machines_left`", "another kind"),
        Column("topology", "string", "", "name of the topology that it is of", "it is of the cluster"),
        Column("topologies", "array<string>", "",
               "names of the topologies concerned, of `decision` and `applied`", "another kind; it does not say"),
    )),
    Table("decisions", "scheduling rounds that decided something", ("run_id", "t_s", "decision_id"), (
        RUN_ID,
        Column("t_s", "double", "s", "epoch seconds of the round"),
        Column("decision_id", "string", "", "id of the decision, as in the events"),
        Column("policy", "string", "", "policy that decided"),
        Column("reason", "string", "", "its one line of reason"),
        Column("duration_ms", "double", "ms", "time that the policy took"),
    )),
    Table("placements",
          "where each task was, one row a scheduling round and task",
          ("run_id", "t_s", "topology", "component", "task"), (
        RUN_ID,
        Column("t_s", "double", "s", "epoch seconds of the round"),
        Column("topology", "string", "", "id of the topology in Storm"),
        COMPONENT,
        Column("kind", "string", "", "`spout`, `bolt` or `system`"),
        TASK,
        Column("first_task", "int", "", "first task of its executor"),
        Column("last_task", "int", "", "last task of its executor"),
        Column("slot", "string", "", "`machine:port`", "the task is not placed"),
        Column("machine", "string", "", "machine of the slot", "the task is not placed"),
        Column("rebalancing", "boolean", "", "whether Storm was rebalancing the topology"),
    )),
    Table("damaged", "lines of every raw file that was read, and how many could not be", ("run_id", "file", "kind"), (
        RUN_ID,
        Column("file", "string", "", "path below the run's folder"),
        Column("kind", "string", "", "kind of line: `worker`, `machine`, `event`, `decision`"),
        Column("lines", "bigint", "lines", "in the file"),
        Column("damaged", "bigint", "lines",
               "with a wrong checksum or type, without a field, or with columns of different length"),
        Column("first_damaged", "string", "",
               "beginning of the first such line, in hexadecimal digits if its checksum is wrong", "there is none"),
        Column("missing", "bigint", "lines",
               "at least so many that its process numbered are not there, beside the damaged ones; what there was"
               " after the last intact line is not known", "its lines have no numbers of their own, or none is intact"),
    )),
    # Metrics. Times relative to a zero end in `_s` too and are negative before it. `zeros`, `throughput`: the run's own
    # axis, whose zero is its first event. What has an `event_id` is relative to that event (see scale_events).
    Table("zeros", "time axis of each run as a whole", ("run_id", "topology"), (
        RUN_ID, TOPOLOGY_NAME,
        Column("zero_s", "double", "s",
               "epoch seconds of the run's first event; of its first sample where it has none"),
        Column("scaled", "boolean", "", "whether there was an event"),
        Column("first_s", "double", "s", "epoch seconds from which on it was observed"),
        Column("last_s", "double", "s", "epoch seconds until which it was observed"),
    )),
    Table("throughput",
          "rates of each run as a whole in windows of 10 s, relative to its first event",
          ("run_id", "topology", "window_s", "scope", "component"), (
        RUN_ID, TOPOLOGY_NAME,
        Column("window_s", "double", "s", "start of the window relative to the run's first event; negative before it"),
        SCOPE, SINK, RATE, COMPLETE,
    )),
    Table("scale_events",
          "the events of each run's plan on its clock, and what became of them",
          ("run_id", "topology", "event_id"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID,
        Column("kind", "string", "",
               "`scale_out`, `scale_in`, `rate`, `crash` … (docs/experiments.md); `none` of a run without events"),
        Column("zero_s", "double", "s",
               "epoch seconds at which it was requested: all times after the event count from here"),
        Column("from_s", "double", "s", "zero of the event before", "it is the first"),
        Column("until_s", "double", "s", "zero of the next event", "it is the last"),
        Column("ended_s", "double", "s",
               "epoch seconds at which what it had begun was over: what is measured after it begins then",
               "it begins nothing, or that lasted until the next event or the end; an older version analysed it"),
        Column("first_s", "double", "s", "epoch seconds from which on *before* was observed"),
        Column("last_s", "double", "s", "epoch seconds until which *after* was observed"),
        Column("machines_before", "int", "", "machines of the workers when it came", "other people's logs do not say"),
        Column("joined", "array<string>", "",
               "machines that joined; those that a policy had by itself: if they stayed until the next event",
               "other people's logs do not say"),
        Column("released", "array<string>", "", "machines that left, and did not come back before the next event",
               "other people's logs do not say"),
        Column("given_back", "int", "", "how many of them the testbed has back", "as joined; a run without events"),
        Column("attempts", "int", "", "how often it was asked for until it was carried out", "as given_back"),
        Column("decided_s", "double", "s", "epoch seconds of the decision that was carried out", "none was"),
        Column("applied_s", "double", "s", "epoch seconds at which Storm had applied it", "none was"),
    )),
    # What each component did in a window; a row without a component: something was reported of it at all.
    Table("activity",
          "what each component did in a window, and (without a component) that anything was reported of it at all",
          ("run_id", "topology", "event_id", "window_s", "component"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, WINDOW_S,
        Column("component", "string", "", "name of the component", "the row only says that somebody reported"),
        Column("executed", "bigint", "tuples", "executed in the window", "not measured"),
        Column("queue", "double", "tuples", "waiting, mean over the window; at a spout those due and not emitted",
               "not measured"),
        Column("emitted", "bigint", "tuples", "emitted by spouts in the window", "no spout"),
        Column("due", "bigint", "tuples", "that spouts were to emit in the window, also without a process",
               "no spout; `due_unknown`"),
        Column("due_unknown", "boolean", "",
               "whether nobody knows all that fell due: a spout began anew without an answer, or never came back",
               "an older version analysed it"),
    )),
    Table("event_throughput",
          "as `throughput`, for each event and relative to it",
          ("run_id", "topology", "event_id", "window_s", "scope", "component"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, WINDOW_S, SCOPE, SINK, RATE, COMPLETE,
    )),
    Table("intervals",
          "the part of each side of an event that counts, the steady tail or what stands for it",
          ("run_id", "topology", "event_id", "phase"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PHASE,
        Column("start_s", "double", "s", "its begin, relative to the event"),
        Column("end_s", "double", "s", "its end, relative to the event"),
        Column("mean", "double", "tuples/s", "mean throughput of its windows"),
        Column("deviation", "double", "tuples/s", "their standard deviation (n − 1)"),
        Column("windows", "int", "", "how many windows it has"),
        Column("steady", "boolean", "", "whether that side of the event was steady"),
        Column("reason", "string", "", "why it was or was not, and which windows are left out"),
        Column("live_steady", "boolean", "",
               "whether the run step, watching live, had found it steady", "it was not asked"),
        Column("live_reason", "string", "", "its reason", "it was not asked"),
    )),
    Table("convergence",
          "convergence time after an event in the three published definitions",
          ("run_id", "topology", "event_id", "definition"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID,
        Column("definition", "string", "", "`sp`, `st` or `script` (docs/glossary.md)"),
        Column("time_s", "double", "s",
               "from the event until throughput is stable", "it never was: the time is longer than `horizon_s`"),
        Column("censored", "boolean", "", "whether it never was"),
        Column("horizon_s", "double", "s",
               "how long after the event was watched (`script`: the last start that it may answer); no time"),
    )),
    Table("downtime", "time at zero throughput after an event", ("run_id", "topology", "event_id"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID,
        Column("downtime_s", "double", "s",
               "seconds in which no sink executed a tuple, all together; of lines of several seconds, those of silent "
               "lines and between lines"),
        Column("longest_s", "double", "s", "the longest stretch of them"),
        Column("windows_at_zero_s", "double", "s", "the same counted in whole windows of 10 s"),
        Column("lasts", "boolean", "", "whether 10 s or more of them reach the end of the watch: bounds, then"),
    )),
    Table("losses",
          "tuples lost on each edge on each side of an event",
          ("run_id", "topology", "event_id", "phase", "source", "stream", "target"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PART, SOURCE, STREAM, TARGET, GROUPING,
        Column("sent", "double", "tuples", "emitted × fan-out"),
        Column("executed", "double", "tuples", "executed at the target"),
        Column("queued", "double", "tuples", "growth of the target's queues, by the edge's share"),
        Column("difference", "double", "tuples",
               "sent − executed − queued; negative where more was executed", "an older version analysed it"),
        Column("lost", "double", "tuples",
               "what of the difference neither the target's other edges nor the other side of a zero explain; 0 within "
               "the uncertainty"),
        Column("uncertainty", "double", "tuples",
               "what one line, of a second or longer, moves at the edge's rate: by so much `lost` may be wrong",
               "as difference"),
    )),
    Table("juice",
          "share of its input that a topology with a service level in it processed, in the part of each side of an "
          "event that counts",
          ("run_id", "topology", "event_id", "phase"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PHASE,
        Column("juice", "double", "1", "Henge's juice (docs/metrics.md); 0 where no tuple reached a sink",
               "nothing was due, or it is not known what was, or what all components sent"),
    )),
    Table("emissions",
          "what each source was to emit, and what became of it, on each side of an event",
          ("run_id", "topology", "event_id", "phase", "component"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PART,
        Column("component", "string", "", "name of the source"),
        Column("due", "bigint", "tuples", "that fell due, also while a spout had no process",
               "not measured; nobody knew what fell due before a spout began anew, or after it ended for good"),
        Column("emitted", "bigint", "tuples", "emitted", "not measured"),
        Column("missed", "bigint", "tuples", "due and never emitted",
               "not measured of all of its spouts; a spout ended for good"),
        Column("late", "bigint", "tuples", "emitted more than 1 s after they were due",
               "not measured of all of its spouts"),
    )),
    Table("latency", "latency at the sinks in windows of 10 s", ("run_id", "topology", "event_id", "window_s"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, WINDOW_S,
        Column("n", "double", "tuples",
               "tuples that were timed: the sum of `counts`, so parts of one where a line of several seconds is in two "
               "windows"),
        Column("corrected", "double", "tuples",
               "of them those whose machines' clocks are known: what they differ by is taken out"),
        Column("mean_ms", "double", "ms", "their mean"),
        Column("p50_ms", "double", "ms", "what half of all tuples keep to", "older records, which have no counts"),
        Column("p95_ms", "double", "ms", "what 95 % of all tuples keep to", "as p50_ms"),
        Column("p99_ms", "double", "ms", "what 99 % of all tuples keep to", "as p50_ms"),
        Column("max_ms", "double", "ms", "the largest", "no line says one (older records)"),
        Column("buckets", "array<int>", "", "buckets of latencies that hold a tuple (docs/contracts.md)", "as p50_ms"),
        Column("counts", "array<double>", "tuples",
               "how many each of them holds; parts of one where a line of several seconds is in two windows",
               "as p50_ms"),
    )),
    Table("interval_latency",
          "latency at the sinks of all tuples of the part of each side of an event that counts",
          ("run_id", "topology", "event_id", "phase"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PHASE,
        Column("n", "double", "tuples", "tuples that were timed"),
        Column("p50_ms", "double", "ms", "what half of all tuples keep to", "older records, which have no counts"),
        Column("p95_ms", "double", "ms", "what 95 % of all tuples keep to", "as p50_ms"),
        Column("p99_ms", "double", "ms", "what 99 % of all tuples keep to", "as p50_ms"),
    )),
    Table("cpu", "CPU and memory of each machine in the part that counts",
          ("run_id", "topology", "event_id", "phase", "machine"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PHASE, MACHINE, JOINS_AT_SCALE,
        Column("cores_mean", "double", "cores", "CPU seconds used per second, mean", "not measured"),
        Column("utilisation_mean", "double", "1", "share of its quota, mean", "no quota is known"),
        Column("utilisation_p10", "double", "1", "10th percentile over the seconds", "no quota is known"),
        Column("utilisation_p50", "double", "1", "median over the seconds", "no quota is known"),
        Column("utilisation_p90", "double", "1", "90th percentile over the seconds", "no quota is known"),
        Column("throttled_ms_per_s", "double", "ms/s",
               "core time in which its quota was used up, added up over the cores of the box that it wanted",
               "not measured"),
        Column("steal_percent_mean", "double", "percent",
               "of the time of all cores of its box, what the hypervisor gave to others, mean", "older records"),
        Column("memory_bytes_mean", "double", "bytes", "memory in use, mean", "not measured"),
        Column("samples", "bigint", "", "seconds that it is made of"),
    )),
    Table("cpu_windows", "CPU and memory of each machine over the whole run",
          ("run_id", "topology", "window_s", "machine"), (
        RUN_ID, TOPOLOGY_NAME,
        Column("window_s", "double", "s",
               "start of a window of 10 s, relative to the run's first event; negative before it"),
        MACHINE,
        Column("utilisation_mean", "double", "1", "share of its quota, mean", "no quota is known"),
        Column("memory_bytes_mean", "double", "bytes", "memory in use, mean", "not measured"),
    )),
    Table("network",
          "bytes per second of each machine in the part that counts",
          ("run_id", "topology", "event_id", "phase", "machine", "interface"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PHASE, MACHINE, INTERFACE,
        Column("rx_bytes_per_s", "double", "bytes/s", "received", "not measured"),
        Column("tx_bytes_per_s", "double", "bytes/s", "sent", "not measured"),
    )),
    Table("network_windows",
          "bytes of all workers' machines together on the experiment LAN in windows of 10 s",
          ("run_id", "topology", "event_id", "window_s"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, WINDOW_S,
        Column("machines", "int", "", "machines of which bytes were measured in the window"),
        Column("rx_bytes", "bigint", "bytes", "received in the window", "not measured"),
        Column("tx_bytes", "bigint", "bytes", "sent in the window", "not measured"),
    )),
    Table("task_traffic",
          "tuples from task to task in the part of each side of an event that counts, by where both were; of "
          "topologies with `barograph.traffic: true`",
          ("run_id", "topology", "event_id", "phase", "from", "to", "from_slot", "to_slot"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PHASE,
        Column("from", "int", "", "task that sent"),
        Column("to", "int", "", "task that was sent to"),
        Column("from_slot", "string", "", "`machine:port` of the task that sent"),
        Column("from_machine", "string", "", "its machine"),
        Column("to_slot", "string", "", "`machine:port` of the task that was sent to",
               "no process had it by then"),
        Column("to_machine", "string", "", "its machine", "as to_slot"),
        Column("tuples_per_s", "double", "tuples/s", "sent, mean over the part"),
    )),
    Table("tuple_rates",
          "tuples that passed and were executed in the part of each side of an event that counts",
          ("run_id", "topology", "event_id", "phase"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PHASE,
        Column("traffic_per_s", "double", "tuples/s", "sent from task to task", "the topology counts no traffic"),
        Column("between_workers_per_s", "double", "tuples/s", "of them to another worker", "as traffic_per_s"),
        Column("between_machines_per_s", "double", "tuples/s", "of them to another machine", "as traffic_per_s"),
        Column("unplaced_per_s", "double", "tuples/s", "of them to a task that no process had", "as traffic_per_s"),
        Column("executed_per_s", "double", "tuples/s", "executed by the topology's bolts", "not measured"),
        Column("ackers_executed_per_s", "double", "tuples/s",
               "executed by Storm's ackers; 0 where the topology has none",
               "it has some, and no line counts what they execute (older records); no placement was recorded"),
    )),
    Table("settled",
          "where every task was before and after an event: the last scheduling round on that side in which all were "
          "placed",
          ("run_id", "topology", "event_id", "phase", "task"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, PHASE, COMPONENT, TASK,
        Column("first_task", "int", "", "first task of its executor"),
        Column("last_task", "int", "", "last task of its executor"),
        SLOT, MACHINE,
    )),
    Table("slots", "each slot's worker before and after an event", ("run_id", "topology", "event_id", "slot"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID, SLOT, MACHINE, JOINS_AT_SCALE,
        Column("executors_before", "int", "", "executors on it before"),
        Column("executors_after", "int", "", "executors on it after"),
        Column("changed", "boolean", "", "whether its set of executors changed"),
        Column("seen_before", "boolean", "", "whether it reported before"),
        Column("seen_after", "boolean", "", "whether it reported after"),
        Column("restarts", "int", "", "how often its worker began anew after the event"),
    )),
    Table("moves", "what an event moved", ("run_id", "topology", "event_id"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID,
        Column("executors_before", "bigint", "", "executors before"),
        Column("executors_after", "bigint", "", "executors after"),
        Column("executors_moved", "bigint", "", "executors whose slot or range of tasks changed"),
        Column("tasks_moved", "bigint", "", "tasks whose machine changed"),
        Column("tasks_moved_to_old_machines", "bigint", "",
               "of them those that went to a machine that was there before"),
        Column("instances_on_joined", "bigint", "", "executors on machines that joined"),
        Column("joined_machines", "bigint", "", "machines that joined", "other people's logs do not say"),
        Column("old_machines", "bigint", "", "machines that were there before", "other people's logs do not say"),
    )),
    Table("running", "how long an event took until its last executor ran", ("run_id", "topology", "event_id"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID,
        Column("request_to_decision_s", "double", "s", "from the request to the decision", "none was carried out"),
        Column("request_to_applied_s", "double", "s",
               "from the request until Storm had applied it", "none was carried out"),
        Column("request_to_running_s", "double", "s",
               "until every executor of the changed workers has reported; the horizon where censored"),
        Column("rebalance_s", "double", "s", "of it the part from the decision on", "none was carried out"),
        Column("censored", "boolean", "", "whether an executor had not reported when the next event or the end came"),
    )),
    Table("loading", "how long a topology took to load", ("run_id", "topology"), (
        RUN_ID, TOPOLOGY_NAME,
        Column("submit_to_loaded_s", "double", "s",
               "from the submission until every task has reported", "one never did"),
        Column("tasks", "int", "", "tasks of the topology"),
        Column("tasks_reporting", "int", "", "of them those that have reported"),
    )),
    Table("measurements",
          "one number a run, event and metric, in long form; what claims and comparisons are made of",
          ("run_id", "topology", "event_id", "metric"), (
        RUN_ID, TOPOLOGY_NAME, EVENT_ID,
        Column("metric", "string", "",
               "name of the metric; docs/metrics.md has its definition and unit"),
        Column("value", "double", "", "the number; a metric that was not measured has no row"),
        Column("censored", "boolean", "",
               "whether the value is no time but the horizon: the run never got there while watched"),
        Column("steady", "boolean", "",
               "whether every side of the event that the value rests on was steady; else it is of what stood for that",
               "it rests on no side's steady part; an older version analysed it"),
    )),
)
# fmt: on

IN_EVERY_LINE = ("run_id", "t_s", "dt_s", "machine", "port", "topology")


def group_fields(view: Table) -> list[str]:
    """The columns of a view that are its group's."""
    return [column.name for column in view.columns if column.name not in IN_EVERY_LINE]


def _group(table: Table) -> Column:
    own = group_fields(table)
    fields = [f"`{column.name}`:array<{column.type}>" for column in table.columns if column.name in own]
    none = "the line has none of them; damaged lines"
    return Column(table.group, f"struct<{','.join(fields)}>", "", f"columns of `{table.name}`, equally long", none)


def _worker_lines(views: Sequence[Table]) -> Table:
    (whole,) = (table for table in views if table.group == LINE)
    own = [replace(column, null_when=column.null_when or "damaged lines") for column in whole.columns[1:]]
    columns = (
        RUN_ID,
        Column("file", "string", "", "path below the run's folder"),
        *own,
        *(_group(table) for table in views if table.group != LINE),
        Column("damaged_text", "string", "", "beginning of a damaged line", "the line is not damaged"),
    )
    meaning = "one row a line of a worker, damaged ones too, as it was written; what the other tables of workers are of"
    return Table("worker_lines", meaning, ("run_id", "file", "t_s", "pid", "seq", "damaged_text"), columns)


WORKER_LINES = _worker_lines([table for table in _DECLARED if table.group])
TABLES = {table.name: table for table in (WORKER_LINES, *_DECLARED)}
# A row a line or sample: only Spark reads them. What are views now, older versions stored.
LARGE_TABLES = {name for name, table in TABLES.items() if table.group} | {
    "worker_lines", "machine_samples", "network_samples", "placements",
}  # fmt: skip
STORED = tuple(name for name, table in TABLES.items() if not table.group)
GROUPS = {table.group: name for name, table in TABLES.items() if table.group not in ("", LINE)}
