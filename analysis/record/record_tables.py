"""A column, a table, the columns that several tables share; and the tables of the records of runs: their samples,
events, decisions, and the specification of each run.

`t_s` is epoch seconds at the end of the sampled interval `dt_s`; counts of samples are of that interval.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column; `type` is Spark's; `unit` is empty without one, `null_when` if the value is never null."""

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

# fmt: off
# Columns that several tables share.
RUN_ID = Column("run_id", "string", "", "the run, `<variant>-r<repetition>`")
EVENT_ID = Column("event_id", "string", "",
                  "the event of the plan, `e1`, `e2` … in its order; `e0` is the run as a whole")
T_S = Column("t_s", "double", "s", "epoch seconds at the end of the sampled interval")
DT_S = Column("dt_s", "double", "s",
              "length of the sampled interval: 1, but for a worker's first and last lines, a throttled sampler's, and "
              "where a run was simulated with longer ones")
WINDOW_S = Column("window_s", "double", "s",
                  "start of a window of 10 s, relative to the event's zero; negative before it")
PHASE = Column("phase", "string", "", "`before` or `after` the event")
PART = Column("phase", "string", "",
              "`before` or `after` the event; `rest`: the part of *after* in which what the event had begun was over "
              "(from `scale_events.ended_s` on), where it was over before the next one")
MACHINE = Column("machine", "string", "", "name of the machine: `master`, `m1` …")
PORT = Column("port", "int", "", "port of the worker; `machine:port` is its slot")
TOPOLOGY = Column("topology", "string", "", "id of the topology in Storm", "read from other people's logs")
TOPOLOGY_NAME = Column("topology", "string", "",
                       "name of the topology in Storm; `all`: the cluster, where a run has several topologies; "
                       "empty where the record names none")
TASK = Column("task", "int", "", "number of the task in its topology")
FIRST_TASK = Column("first_task", "int", "", "first task of its executor")
LAST_TASK = Column("last_task", "int", "", "last task of its executor")
DROPPED = Column("dropped", "bigint", "tuples", "taken from the queue and dropped, because more waited than its limit",
                 "the queue has no limit")
FROM = Column("from", "int", "", "task that sent")
TO = Column("to", "int", "", "task that was sent to")
COMPONENT = Column("component", "string", "", "name of the component")
STREAM = Column("stream", "string", "", "name of the stream")
SOURCE = Column("source", "string", "", "component that emits")
TARGET = Column("target", "string", "", "component that receives")
GROUPING = Column("grouping", "string", "", "how the target's tasks are chosen: `shuffle`, `fields`, `all` …")
INTERFACE = Column("interface", "string", "", "`ctl0` (control LAN) or `exp0` (experiment LAN)")
SLOT = Column("slot", "string", "", "`machine:port`")
GROUP = Column("group", "string", "", "group of machines to which it belonged at the run's end", "it has none")
JOINS_AT_SCALE = Column("joins_at_scale", "boolean", "", "whether the machine joins only at an event",
                        "the machine is the master")
SINK = Column("component", "string", "", "the sink; empty for the other scopes")
SCOPE = Column("scope", "string", "",
               "`sink` (one component), `total` (the throughput, by `topologies.throughput`), `spouts` (emitted), "
               "`due` (offered) or `dropped` (where queues have a limit)")
RATE = Column("rate", "double", "tuples/s", "mean over the window; 0 where workers were silent",
              "nobody reported in the window; of `due`: nobody knew all that fell due in it")
COMPLETE = Column("complete", "boolean", "", "whether the window lies wholly inside what was observed")
P50_MS = Column("p50_ms", "double", "ms", "what half of all tuples keep to")
P95_MS = Column("p95_ms", "double", "ms", "what 95 % of all tuples keep to")
P99_MS = Column("p99_ms", "double", "ms", "what 99 % of all tuples keep to")
UTILISATION_MEAN = Column("utilisation_mean", "double", "1", "share of its quota, mean", "no quota is known")
MEMORY_BYTES_MEAN = Column("memory_bytes_mean", "double", "bytes", "memory in use, mean", "not measured")

RECORD_TABLES = (
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
               "the run was not simulated"),
        Column("topology", "string", "",
               "name of the topology; of several the first one's (see `topologies`)", "no record was collected"),
        Column("topology_id", "string", "",
               "its id in Storm, `topology` of its samples; of several topologies the first one's (see `topologies`)",
               "no record was collected; read from other people's logs"),
        Column("workers", "int", "",
               "workers that the topology asked for", "no record was collected; read from other people's logs"),
        Column("git_commit", "string", "", "commit of Barograph that ran it", "not run from a git work tree"),
        Column("git_dirty", "boolean", "", "whether the work tree was changed since that commit", "as git_commit"),
        Column("measurement", "int", "",
               "what its load and its samples mean (docs/contracts.md): runs of different ones are not compared",
               "no readable run.json; read from other people's logs"),
        Column("versions", "string", "JSON", "versions of Storm, Python, Airflow, Ansible, Spark"),
        Column("harness_facts", "string", "JSON",
               "the machine that the harness ran on: CPU, memory, kernel, system, load"),
        Column("spec", "string", "JSON", "the experiment as it was run"),
    )),
    Table("components", "one row a task of the run's topologies", ("run_id", "topology", "component", "task"), (
        RUN_ID, TOPOLOGY_NAME, COMPONENT,
        Column("kind", "string", "", "`spout` or `bolt`"),
        Column("sink", "boolean", "", "whether it emits to nobody"),
        Column("throughput", "boolean", "", "whether its tuples are the throughput, by `topologies.throughput`"),
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
               "it was never submitted; read from other people's logs"),
        Column("position", "int", "", "its place in the plan, from 1"),
        Column("workers", "int", "", "workers that it asked for", "as topology_id"),
        Column("throughput", "string", "",
               "where its throughput is measured: `sinks` or `spouts`, all together, or the name of a component"),
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
        GROUP,
        Column("clock_offset_ms", "double", "ms", "its clock less the harness's, before the run", "not measured"),
        Column("clock_end_offset_ms", "double", "ms", "the same when its files were collected",
               "not measured"),
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
               "not measured: no tuple came to the executor yet"),
        Column("backpressure_ms", "double", "ms",
               "time that its executor waited in the interval because a queue after it was full; tasks of one executor "
               "show an even share each; such time is in no `execute_ms`",
               "the topology has a wait strategy that is not ours"),
        DROPPED,
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
        DROPPED,
    ), "sources"),
    Table("sink_samples",
          "latency at a sink, one row a task, source machine and second in which tuples came; from when a tuple should "
          "have been emitted to the end of its execution, each by the clock of its machine",
          ("run_id", "topology", "machine", "port", "t_s", "task", "source_machine"), (
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY, TASK,
        Column("n", "bigint", "tuples", "tuples that were timed in the interval"),
        Column("sum_ms", "double", "ms", "sum of their latencies"),
        Column("max_ms", "double", "ms", "the largest", "no tuple in the interval"),
        Column("source_machine", "string", "", "machine of the spout's task, by whose clock they were due",
               "a source that is not ours"),
        Column("buckets", "array<int>", "",
               "buckets of latencies that hold a tuple (docs/contracts.md)"),
        Column("counts", "array<bigint>", "tuples", "how many each of them holds"),
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
        RUN_ID, T_S, DT_S, MACHINE, PORT, TOPOLOGY, FROM, TO,
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
               "of the time of all cores of its box, what the hypervisor gave to others", "not measured"),
        Column("runnable", "double", "threads",
               "of the machine that ran or waited for a CPU, mean since the reading before, about every 5 s",
               "no reading ended in the interval, or the kernel counts no waits"),
        Column("memory_bytes", "bigint", "bytes", "memory in use", "not measured"),
        Column("memory_limit_bytes", "bigint", "bytes", "memory that it may use", "no limit is known"),
        Column("worker_memory_bytes", "bigint", "bytes",
               "resident memory of its workers; a page that several of them map counts in each", "not measured"),
    )),
    Table("network_samples",
          "bytes of each interface of a machine, one row a line of its probe",
          ("run_id", "machine", "interface", "t_s"), (
        RUN_ID, T_S, DT_S, MACHINE, INTERFACE,
        Column("rx_bytes", "bigint", "bytes", "received in the interval", "not measured"),
        Column("tx_bytes", "bigint", "bytes", "sent in the interval", "not measured"),
    )),
    Table("readings",
          "what logs of others say of a topology's service, one row a reading",
          ("run_id", "topology", "t_s"), (
        RUN_ID, TOPOLOGY_NAME,
        Column("t_s", "double", "s", "epoch seconds of the reading"),
        Column("dt_s", "double", "s", "time since the reading before", "it repeats that one"),
        Column("juice", "double", "1", "juice since the reading before", "not in the log"),
        Column("average", "double", "1", "average juice, as the log has it", "not in the log"),
        Column("latency_ms", "double", "ms", "average latency", "not in the log"),
        Column("p99_ms", "double", "ms", "what 99 % of all tuples keep to", "not in the log"),
        Column("utility", "double", "", "utility", "not in the log"),
        Column("max_utility", "double", "", "the largest possible one", "not in the log"),
        Column("emitted", "bigint", "tuples", "sent by sources since the reading before; after a rebalance since then",
               "not in the log"),
        Column("executed", "bigint", "tuples", "executed at sinks, as emitted", "not in the log"),
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
               "names of the topologies concerned, of `decision`, `applied`, arrivals and departures",
               "another kind; it does not say"),
    )),
    Table("decisions", "scheduling rounds that decided something", ("run_id", "t_s", "decision_id"), (
        RUN_ID,
        Column("t_s", "double", "s", "epoch seconds of the round"),
        Column("decision_id", "string", "", "id of the decision, as in the events"),
        Column("policy", "string", "", "policy that decided"),
        Column("kind", "string", "",
               "`reconfigure`, `reduce`, `revert`, `move`, `acquire` or `release`", "the record does not say"),
        Column("reason", "string", "", "its one line of reason"),
        Column("duration_ms", "double", "ms", "time from Nimbus' request to the answer, in which the policy decided",
               "the run was simulated"),
    )),
    Table("changes",
          "one row a decision, topology that it changes or moves, and component",
          ("run_id", "decision_id", "topology", "component"), (
        RUN_ID,
        Column("decision_id", "string", "", "id of the decision, as in the events"),
        Column("topology", "string", "", "id of the topology in Storm"),
        COMPONENT,
        Column("executors_before", "int", "", "executors of the component when it was decided"),
        Column("executors_after", "int", "", "executors that it was to have"),
    )),
    Table("rounds", "one row a scheduling round", ("run_id", "t_s"), (
        RUN_ID,
        Column("t_s", "double", "s", "epoch seconds of the round"),
        Column("may_act", "boolean", "", "whether the policy might act by itself"),
    )),
    Table("placements",
          "where each task was, one row a scheduling round and task",
          ("run_id", "t_s", "topology", "component", "task"), (
        RUN_ID,
        Column("t_s", "double", "s", "epoch seconds of the round"),
        Column("topology", "string", "", "id of the topology in Storm"),
        COMPONENT,
        Column("kind", "string", "", "`spout`, `bolt` or `system`"),
        TASK, FIRST_TASK, LAST_TASK,
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
)
# fmt: on
