"""Tables of metrics, which the analysis makes from the records of runs; and every table by its name, `worker_lines`
too, the source of the views of workers' samples. Parquet, Spark's schemas and `barograph sql --describe` are made
from this. Null: not measured.

Times relative to a zero end in `_s` too and are negative before it. `zeros`, `throughput`: the run's own axis, whose
zero is its first event. Rows with an `event_id` are relative to that event (see scale_events).
"""

from dataclasses import replace

from analysis.record import record_tables as c
from analysis.record.record_tables import LINE, RECORD_TABLES, Column, Table

OF_UNIT = (c.RUN_ID, c.TOPOLOGY_NAME)
OF_EVENT = (*OF_UNIT, c.EVENT_ID)
OF_SIDE, OF_WINDOW = (*OF_EVENT, c.PHASE), (*OF_EVENT, c.WINDOW_S)

# fmt: off
METRIC_TABLES = (
    Table("zeros", "time axis of each run as a whole", ("run_id", "topology"), (
        *OF_UNIT,
        Column("zero_s", "double", "s",
               "epoch seconds of the run's first event; of its first sample where it has none"),
        Column("scaled", "boolean", "", "whether there was an event"),
        Column("first_s", "double", "s", "epoch seconds from which on it was observed"),
        Column("last_s", "double", "s", "epoch seconds until which it was observed"),
    )),
    Table("throughput",
          "rates of each run as a whole in windows of 10 s, relative to its first event",
          ("run_id", "topology", "window_s", "scope", "component"), (
        *OF_UNIT,
        Column("window_s", "double", "s", "start of the window relative to the run's first event; negative before it"),
        c.SCOPE, c.SINK, c.RATE, c.COMPLETE,
    )),
    Table("scale_events",
          "the events of each run's plan on its clock, and what became of them",
          ("run_id", "topology", "event_id"), (
        *OF_EVENT,
        Column("kind", "string", "",
               "`scale_out`, `scale_in`, `rate`, `crash` … (docs/experiments.md); `none` of a run without events"),
        Column("zero_s", "double", "s",
               "epoch seconds at which it was requested: all times after the event count from here"),
        Column("from_s", "double", "s", "zero of the event before", "it is the first"),
        Column("until_s", "double", "s", "zero of the next event", "it is the last"),
        Column("ended_s", "double", "s",
               "epoch seconds at which what it had begun was over: what is measured after it begins then",
               "it begins nothing, or that lasted until the next event or the end"),
        Column("first_s", "double", "s", "epoch seconds from which on *before* was observed"),
        Column("last_s", "double", "s", "epoch seconds until which *after* was observed"),
        Column("machines_before", "int", "", "living machines of workers before it", "other people's logs do not say"),
        Column("joined", "array<string>", "",
               "machines that joined and lived; those that a policy had by itself: if they stayed until the next event",
               "other people's logs do not say"),
        Column("released", "array<string>", "", "machines that left, and did not come back before the next event",
               "other people's logs do not say"),
        Column("given_back", "int", "", "how many of them the testbed has back", "as joined; a run without events"),
        Column("attempts", "int", "", "how often it was asked for until it was carried out", "as given_back"),
        Column("decided_s", "double", "s", "epoch seconds of the decision that was carried out", "none was"),
        Column("applied_s", "double", "s", "epoch seconds at which Storm had applied it", "none was"),
    )),
    # The activity of each component in a window; a row without a component: there were reports at all.
    Table("activity",
          "what each component did in a window, and (without a component) that anything was reported of it at all",
          ("run_id", "topology", "event_id", "window_s", "component"), (
        *OF_WINDOW,
        Column("component", "string", "", "name of the component", "the row only says that somebody reported"),
        Column("executed", "bigint", "tuples", "executed in the window", "not measured"),
        c.DROPPED,
        Column("queue", "double", "tuples", "waiting, mean over the window; at a spout those due and not emitted",
               "not measured"),
        Column("emitted", "bigint", "tuples", "emitted by spouts in the window", "no spout"),
        Column("due", "bigint", "tuples", "that spouts were to emit in the window, also without a process",
               "no spout; `due_unknown`"),
        Column("due_unknown", "boolean", "",
               "whether nobody knows all that fell due: a spout began anew without an answer, or never came back"),
    )),
    Table("event_throughput",
          "as `throughput`, for each event and relative to it",
          ("run_id", "topology", "event_id", "window_s", "scope", "component"), (
        *OF_WINDOW, c.SCOPE, c.SINK, c.RATE, c.COMPLETE,
    )),
    Table("intervals",
          "the part of each side of an event that counts, the steady tail or what stands for it",
          ("run_id", "topology", "event_id", "phase"), (
        *OF_SIDE,
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
        *OF_EVENT,
        Column("definition", "string", "", "`sp`, `st` or `script` (docs/glossary.md)"),
        Column("time_s", "double", "s",
               "from the event until throughput is stable", "it never was: the time is longer than `horizon_s`"),
        Column("censored", "boolean", "", "whether it never was"),
        Column("horizon_s", "double", "s",
               "how long after the event was watched (`script`: the last start that it may answer); no time"),
    )),
    Table("downtime", "time at zero throughput after an event", ("run_id", "topology", "event_id"), (
        *OF_EVENT,
        Column("downtime_s", "double", "s",
               "seconds without throughput, all together, in stretches over twice as long as any in the "
               "later half before the event; of lines of several seconds, those of silent lines and between lines",
               "stretches before it had 10 s or more, and none is so long: not measurable at this rate"),
        Column("longest_s", "double", "s", "the longest stretch of them", "as `downtime_s`"),
        Column("windows_at_zero_s", "double", "s", "the same counted in whole windows of 10 s", "as `downtime_s`"),
        Column("lasts", "boolean", "", "whether 10 s or more of them reach the end of the watch: bounds, then"),
    )),
    Table("losses",
          "tuples lost on each edge on each side of an event",
          ("run_id", "topology", "event_id", "phase", "source", "stream", "target"), (
        *OF_EVENT, c.PART, c.SOURCE, c.STREAM, c.TARGET, c.GROUPING,
        Column("sent", "double", "tuples", "emitted × fan-out"),
        Column("executed", "double", "tuples", "executed at the target"),
        replace(c.DROPPED, type="double"),
        Column("queued", "double", "tuples", "growth of the target's queues, by the edge's share"),
        Column("difference", "double", "tuples",
               "sent − executed − dropped − queued; negative where more was executed"),
        Column("lost", "double", "tuples",
               "what of the difference neither the target's other edges nor the other side of a zero explain; 0 within "
               "the uncertainty"),
        Column("uncertainty", "double", "tuples",
               "what one line, of a second or longer, moves at the edge's rate: by so much `lost` may be wrong",
               "as difference"),
    )),
    Table("service",
          "what a topology with a service level, and the cluster of several, attained in windows of 10 s; none in "
          "which nothing was due and nothing came",
          ("run_id", "topology", "window_s"), (
        *OF_UNIT,
        Column("window_s", "double", "s",
               "start of the window relative to the run's first event; negative before it"),
        Column("latency_ms", "double", "ms", "mean latency at the sinks", "no tuple was timed; the cluster"),
        Column("p95_ms", "double", "ms", "what 95 % of all tuples keep to", "as latency_ms"),
        Column("juice", "double", "1",
               "Henge's juice of the minute up to its end; 0 where no tuple came for longer than usual",
               "no level of juice; not known what was due or sent; a usual silence; the cluster"),
        Column("utility", "double", "",
               "what that is worth to its owner; 0 where something was due and nothing came; of the cluster the sum",
               "nobody reported in the window; one of its levels is not measured"),
        Column("share", "double", "1", "utility, of the largest possible one", "as utility"),
        Column("met", "boolean", "", "whether the level was met; of the cluster: all", "as utility"),
        Column("reported", "boolean", "", "whether anything was reported; of the cluster: of all topologies"),
    )),
    Table("attainment",
          "what became of service levels on each side of an event; `after` of `e0`: from when a policy may first act "
          "to the end of the run",
          ("run_id", "topology", "event_id", "phase"), (
        *OF_SIDE,
        Column("windows", "int", "", "windows whose utility is known"),
        Column("unknown", "bigint", "", "windows with reports whose utility is not"),
        Column("watched_s", "double", "s", "from its begin to the end of its last window"),
        Column("utility", "double", "", "mean utility"),
        Column("met", "double", "1",
               "share of the windows in which the level was met; of the cluster: of the windows of all topologies"),
        Column("attained_mean", "double", "1", "mean attained share, as met"),
        Column("attained_p5", "double", "1", "attained share that 95 % of the windows exceed, as met"),
        Column("attained_p15", "double", "1", "attained share that 85 % of the windows exceed, as met"),
        Column("attained_p50", "double", "1", "median attained share, as met"),
        Column("attained_p90", "double", "1", "attained share that 10 % of the windows exceed, as met"),
        Column("quantiles", "array<double>", "1", "attained share at each 2.5 % of the windows, as met: 41 numbers"),
        Column("time_to_max_s", "double", "s",
               "until the end of the first window in which the level is met; of the cluster: all", "it never was"),
        Column("settling_s", "double", "s",
               "until the attained share stays within 0.05 of its mean over the last minute",
               "it does not; less than two minutes"),
        Column("restless", "boolean", "", "whether it does not", "less than two minutes"),
        Column("overshoot", "double", "1", "attained share of the best minute less that of the last one",
               "less than two minutes"),
    )),
    Table("actions",
          "what policies did, one row an action, topology and component that it changed or moved; without a component "
          "the action as a whole",
          ("run_id", "t_s", "decision_id", "topology", "component"), (
        *OF_UNIT,
        Column("t_s", "double", "s", "epoch seconds of the decision"),
        Column("decision_id", "string", "", "id of the decision, as in the events"),
        Column("kind", "string", "",
               "`reconfigure`, `reduce`, `revert`, `move`, or of the cluster `acquire`, `release`",
               "the record does not say"),
        Column("component", "string", "", "name of the component; empty for the action as a whole"),
        Column("executors_before", "int", "", "its executors before", "not known; an action about machines"),
        Column("executors_after", "int", "", "its executors after", "as executors_before"),
        Column("tasks_moved", "int", "", "its tasks whose machine changed", "no round before or after it is on record"),
        Column("workers_restarted", "int", "", "workers that began again before the next action or event",
               "a component; no worker reported"),
        Column("tuples_lost", "double", "tuples", "lost on all edges before the next action or event",
               "a component; not measured"),
    )),
    Table("costs",
          "what a policy's work cost on each side of an event; `after` of `e0`: from when it may first act to the end",
          ("run_id", "topology", "event_id", "phase"), (
        *OF_SIDE,
        Column("rounds", "int", "", "rounds in which the policy might act by itself"),
        Column("actions", "int", "", "actions about the topology; of the cluster: about any"),
        Column("executor_s", "double", "s", "placed executors × seconds", "no round is on record"),
    )),
    Table("attained_over_time",
          "`service` in at most 240 parts of a run, for pages",
          ("run_id", "topology", "begin_s"), (
        *OF_UNIT,
        Column("begin_s", "double", "s", "begin of the part, as window_s of `service`"),
        Column("part_s", "double", "s", "length of each part of the series"),
        Column("share", "double", "1", "mean attained share", "unknown in all of its windows"),
        Column("utility", "double", "", "mean utility", "as share"),
    )),
    Table("emissions",
          "what each source was to emit, and what became of it, on each side of an event",
          ("run_id", "topology", "event_id", "phase", "component"), (
        *OF_EVENT, c.PART,
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
        *OF_WINDOW,
        Column("n", "double", "tuples",
               "tuples that were timed: the sum of `counts`, so parts of one where a line of several seconds is in two "
               "windows"),
        Column("corrected", "double", "tuples",
               "of them those whose machines' clocks are known: what they differ by is taken out"),
        Column("mean_ms", "double", "ms", "their mean"),
        c.P50_MS, c.P95_MS, c.P99_MS,
        Column("max_ms", "double", "ms", "the largest", "no line says one"),
        Column("buckets", "array<int>", "", "buckets of latencies that hold a tuple (docs/contracts.md)"),
        Column("counts", "array<double>", "tuples",
               "how many each of them holds; parts of one where a line of several seconds is in two windows"),
    )),
    Table("interval_latency",
          "latency at the sinks of all tuples of the part of each side of an event that counts",
          ("run_id", "topology", "event_id", "phase"), (
        *OF_SIDE,
        Column("n", "double", "tuples", "tuples that were timed"),
        c.P50_MS, c.P95_MS, c.P99_MS,
    )),
    Table("cpu", "CPU and memory of each machine in the part that counts",
          ("run_id", "topology", "event_id", "phase", "machine"), (
        *OF_SIDE, c.MACHINE, c.JOINS_AT_SCALE,
        Column("cores_mean", "double", "cores", "CPU seconds used per second, mean", "not measured"),
        c.UTILISATION_MEAN,
        Column("utilisation_p10", "double", "1", "10th percentile over the seconds", "no quota is known"),
        Column("utilisation_p50", "double", "1", "median over the seconds", "no quota is known"),
        Column("utilisation_p90", "double", "1", "90th percentile over the seconds", "no quota is known"),
        Column("throttled_ms_per_s", "double", "ms/s",
               "core time in which its quota was used up, added up over the cores of the box that it wanted",
               "not measured"),
        Column("steal_percent_mean", "double", "percent",
               "of the time of all cores of its box, what the hypervisor gave to others, mean", "not measured"),
        c.MEMORY_BYTES_MEAN,
        Column("memory_share_mean", "double", "1", "memory in use of what it may use, mean", "no limit is known"),
        Column("worker_memory_bytes_mean", "double", "bytes", "resident memory of its workers, mean", "not measured"),
        Column("samples", "bigint", "", "seconds that it is made of"),
    )),
    Table("cpu_windows", "CPU and memory of each machine over the whole run",
          ("run_id", "topology", "window_s", "machine"), (
        *OF_UNIT,
        Column("window_s", "double", "s",
               "start of a window of 10 s, relative to the run's first event; negative before it"),
        c.MACHINE, c.UTILISATION_MEAN,
        Column("runnable_mean", "double", "threads", "that ran or waited for a CPU, mean", "not measured"),
        c.MEMORY_BYTES_MEAN,
    )),
    Table("group_windows", "CPU of each group of machines over the whole run",
          ("run_id", "topology", "window_s", "group"), (
        *OF_UNIT,
        Column("window_s", "double", "s",
               "start of a window of 10 s, relative to the run's first event; negative before it"),
        Column("group", "string", "", "name of the group, as in the experiment"),
        Column("machines", "bigint", "", "machines of it that were measured in the window"),
        c.UTILISATION_MEAN,
    )),
    Table("network",
          "bytes per second of each machine in the part that counts",
          ("run_id", "topology", "event_id", "phase", "machine", "interface"), (
        *OF_SIDE, c.MACHINE, c.INTERFACE,
        Column("rx_bytes_per_s", "double", "bytes/s", "received", "not measured"),
        Column("tx_bytes_per_s", "double", "bytes/s", "sent", "not measured"),
    )),
    Table("network_windows",
          "bytes of all workers' machines together on the experiment LAN in windows of 10 s",
          ("run_id", "topology", "event_id", "window_s"), (
        *OF_WINDOW,
        Column("machines", "int", "", "machines of which bytes were measured throughout the window, but for a second"),
        Column("silent", "array<string>", "", "the run's others, those too that are not in the cluster then"),
        Column("rx_bytes", "bigint", "bytes", "received in the window", "not measured"),
        Column("tx_bytes", "bigint", "bytes", "sent in the window", "not measured"),
    )),
    Table("task_traffic",
          "tuples from task to task in the part of each side of an event that counts, by where both were; of "
          "topologies with `barograph.traffic: true`",
          ("run_id", "topology", "event_id", "phase", "from", "to", "from_slot", "to_slot"), (
        *OF_SIDE, c.FROM, c.TO,
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
        *OF_SIDE,
        Column("traffic_per_s", "double", "tuples/s", "sent from task to task", "the topology counts no traffic"),
        Column("between_workers_per_s", "double", "tuples/s", "of them to another worker", "as traffic_per_s"),
        Column("between_machines_per_s", "double", "tuples/s", "of them to another machine", "as traffic_per_s"),
        Column("unplaced_per_s", "double", "tuples/s", "of them to a task that no process had", "as traffic_per_s"),
        Column("executed_per_s", "double", "tuples/s", "executed by the topology's bolts", "not measured"),
        Column("ackers_executed_per_s", "double", "tuples/s",
               "executed by Storm's ackers; 0 where the topology has none",
               "it has some, and no line counts what they execute; no placement was recorded"),
    )),
    Table("settled",
          "where every task was before and after an event: the last scheduling round on that side in which all were "
          "placed",
          ("run_id", "topology", "event_id", "phase", "task"), (
        *OF_SIDE, c.COMPONENT, c.TASK, c.FIRST_TASK, c.LAST_TASK, c.SLOT, c.MACHINE,
    )),
    Table("slots", "each slot's worker before and after an event", ("run_id", "topology", "event_id", "slot"), (
        *OF_EVENT, c.SLOT, c.MACHINE, c.JOINS_AT_SCALE,
        Column("executors_before", "int", "", "executors on it before"),
        Column("executors_after", "int", "", "executors on it after"),
        Column("changed", "boolean", "", "whether its set of executors changed"),
        Column("seen_before", "boolean", "", "whether it reported before"),
        Column("seen_after", "boolean", "", "whether it reported after"),
        Column("restarts", "int", "", "how often its worker began anew after the event"),
    )),
    Table("moves", "what an event moved", ("run_id", "topology", "event_id"), (
        *OF_EVENT,
        Column("executors_before", "bigint", "", "executors before"),
        Column("executors_after", "bigint", "", "executors after"),
        Column("executors_moved", "bigint", "", "executors whose slot or range of tasks changed"),
        Column("tasks_moved", "bigint", "", "tasks whose machine changed"),
        Column("tasks_moved_to_old_machines", "bigint", "",
               "of them those that went to a machine that was there before"),
        Column("instances_on_joined", "bigint", "", "executors on machines that joined"),
        Column("joined_machines", "bigint", "", "machines that joined", "other people's logs do not say"),
        Column("old_machines", "bigint", "", "living machines before", "other people's logs do not say"),
    )),
    Table("running", "how long an event took until its last executor ran", ("run_id", "topology", "event_id"), (
        *OF_EVENT,
        Column("request_to_decision_s", "double", "s", "from the request to the decision", "none was carried out"),
        Column("request_to_applied_s", "double", "s",
               "from the request until Storm had applied it", "none was carried out"),
        Column("request_to_running_s", "double", "s",
               "until every executor of the changed workers has reported; the horizon where censored"),
        Column("rebalance_s", "double", "s", "of it the part from the decision on", "none was carried out"),
        Column("censored", "boolean", "", "whether an executor had not reported when the next event or the end came"),
    )),
    Table("loading", "how long a topology took to load", ("run_id", "topology"), (
        *OF_UNIT,
        Column("submit_to_loaded_s", "double", "s",
               "from the submission until every task has reported", "one never did"),
        Column("tasks", "int", "", "tasks of the topology"),
        Column("tasks_reporting", "int", "", "of them those that have reported"),
    )),
    Table("measurements",
          "one number a run, event and metric, in long form; what claims and comparisons are made of",
          ("run_id", "topology", "event_id", "metric"), (
        *OF_EVENT,
        Column("metric", "string", "",
               "name of the metric; docs/metrics.md has its definition and unit"),
        Column("value", "double", "", "the number; a metric that was not measured has no row"),
        Column("censored", "boolean", "",
               "whether the value is no time but the horizon: the run never got there while watched"),
        Column("steady", "boolean", "",
               "whether every side of the event that the value rests on was steady; else it is of what stood for that",
               "it rests on no side's steady part"),
    )),
)
# fmt: on

DECLARED = (*RECORD_TABLES, *METRIC_TABLES)
IN_EVERY_LINE = ("run_id", "t_s", "dt_s", "machine", "port", "topology")


def group_fields(view: Table) -> list[str]:
    """Return the columns of a view that belong to its group."""
    return [column.name for column in view.columns if column.name not in IN_EVERY_LINE]


def _group(table: Table) -> Column:
    names = group_fields(table)
    fields = [f"`{column.name}`:array<{column.type}>" for column in table.columns if column.name in names]
    null_text = "the line has none of them; damaged lines"
    return Column(table.group, f"struct<{','.join(fields)}>", "", f"columns of `{table.name}`, equally long", null_text)


WORKER_LINES = Table(
    "worker_lines",
    "one row a line of a worker, damaged ones too, as it was written; what the other tables of workers are of",
    ("run_id", "file", "t_s", "pid", "seq", "damaged_text"),
    (
        c.RUN_ID,
        Column("file", "string", "", "path below the run's folder"),
        *(
            replace(column, null_when=column.null_when or "damaged lines")
            for table in DECLARED if table.group == LINE for column in table.columns[1:]
        ),
        *(_group(table) for table in DECLARED if table.group not in ("", LINE)),
        Column("damaged_text", "string", "", "beginning of a damaged line", "the line is not damaged"),
    ),
)  # fmt: skip
TABLES = {table.name: table for table in (WORKER_LINES, *DECLARED)}
# A row a line or sample: only Spark reads them.
LARGE_TABLES = {"worker_lines", "machine_samples", "network_samples", "placements"}
STORED = tuple(name for name, table in TABLES.items() if not table.group)
GROUPS = {table.group: name for name, table in TABLES.items() if table.group not in ("", LINE)}
