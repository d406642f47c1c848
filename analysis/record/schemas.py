"""Every schema, declared once: raw lines and tables. Units: `_s` seconds, `_ms` milliseconds.

`t_s` is epoch seconds at the end of the sampled interval `dt_s`; counts are of that interval. Null: not measured.
"""

from collections.abc import Sequence

TASKS = (
    "task array<int>, component array<string>, emitted array<bigint>, transferred array<bigint>, "
    "executed array<bigint>, execute_ms array<double>, process_ms array<double>, queue array<bigint>"
)
STREAMS = "task array<int>, stream array<string>, emitted array<bigint>"
SOURCES = (
    "task array<int>, component array<string>, stream array<string>, executed array<bigint>, execute_ms array<double>"
)
SINKS = (
    "task array<int>, n array<bigint>, sum_ms array<double>, max_ms array<double>, "
    "p50_ms array<double>, p95_ms array<double>, p99_ms array<double>"
)
SPOUTS = "task array<int>, due array<bigint>, emitted array<bigint>, behind_ms array<double>"
TRAFFIC = "`from` array<int>, `to` array<int>, n array<bigint>"

DAMAGED_COLUMN = "damaged_text"

# The groups of a worker line: group -> (fields of the line, table it becomes).
GROUPS = {
    "tasks": (TASKS, "task_samples"),
    "streams": (STREAMS, "stream_samples"),
    "sources": (SOURCES, "source_samples"),
    "sinks": (SINKS, "sink_samples"),
    "spouts": (SPOUTS, "spout_samples"),
    "traffic": (TRAFFIC, "traffic_samples"),
}

LINES = {
    "worker": "v int, t double, dt_s double, machine string, port int, pid bigint, topology string, seq bigint",
    "machine": (
        "v int, t double, dt_s double, machine string, cpu_cores double, cpu_quota_cores double, throttled_ms double, "
        "memory_bytes bigint, memory_limit_bytes bigint, "
        "interfaces struct<name array<string>, rx_bytes array<bigint>, tx_bytes array<bigint>>"
    ),
    "event": (
        "t double, kind string, phase string, steady boolean, reason string, machines array<string>, event_id string, "
        "event string, joined array<string>, leave int, decision_id string, ok boolean, factor double, machine string, "
        "given_back boolean"
    ),
    "decision": (
        "t double, duration_ms double, "
        "request struct<topologies array<struct<id string, name string, "
        "components array<struct<name string, kind string, tasks array<int>, executors array<array<int>>>>, "
        "placement map<string, string>, rebalancing boolean>>>, "
        "decision struct<decision_id string, policy string, reason string>"
    ),
}

REQUIRED = {
    "worker": ("t", "dt_s", "machine", "port", "pid", "seq"),
    "machine": ("t", "dt_s", "machine"),
    "event": ("t", "kind"),
    "decision": ("t",),
}

EVENT = "run_id string, event_id string"
SAMPLE = "run_id string, t_s double, dt_s double, machine string, port int"

TABLES = {
    "runs": (
        "run_id string, series_id string, experiment string, block int, repetition int, `order` int, seed bigint, "
        "variant string, policy string, parameters string, status string, failure_blame string, "
        "failure_message string, failure_where string, started_s double, ended_s double, topology string, workers int, "
        "git_commit string, git_dirty boolean, versions string, harness_facts string, spec string"
    ),
    "components": "run_id string, component string, kind string, sink boolean, executors int, task int",
    "edges": "run_id string, source string, stream string, target string, `grouping` string",
    "phases": "run_id string, phase string, start_s double, end_s double, planned_s double",
    "machines": (
        "run_id string, machine string, type string, cores double, memory_mb double, bandwidth_mbit double, slots int, "
        "joins_at_scale boolean, clock_offset_ms double"
    ),
    "worker_samples": f"{SAMPLE}, pid bigint, topology string, seq bigint",
    "task_samples": (
        f"{SAMPLE}, task int, component string, emitted bigint, transferred bigint, executed bigint, "
        "execute_ms double, process_ms double, queue bigint"
    ),
    "stream_samples": f"{SAMPLE}, task int, stream string, emitted bigint",
    "source_samples": (f"{SAMPLE}, task int, component string, stream string, executed bigint, execute_ms double"),
    "sink_samples": (
        f"{SAMPLE}, task int, n bigint, sum_ms double, max_ms double, p50_ms double, p95_ms double, p99_ms double"
    ),
    "spout_samples": f"{SAMPLE}, task int, due bigint, emitted bigint, behind_ms double",
    "traffic_samples": f"{SAMPLE}, `from` int, `to` int, n bigint",
    "machine_samples": (
        "run_id string, t_s double, dt_s double, machine string, cpu_cores double, cpu_quota_cores double, "
        "throttled_ms double, memory_bytes bigint, memory_limit_bytes bigint"
    ),
    "network_samples": (
        "run_id string, t_s double, dt_s double, machine string, interface string, rx_bytes bigint, tx_bytes bigint"
    ),
    "events": (
        "run_id string, t_s double, kind string, phase string, steady boolean, reason string, machines array<string>, "
        "event_id string, event string, joined array<string>, `leave` int, decision_id string, ok boolean, "
        "factor double, machine string, given_back boolean"
    ),
    "decisions": ("run_id string, t_s double, decision_id string, policy string, reason string, duration_ms double"),
    "placements": (
        "run_id string, t_s double, topology string, component string, kind string, task int, first_task int, "
        "last_task int, slot string, machine string, rebalancing boolean"
    ),
    "damaged": "run_id string, file string, kind string, lines bigint, damaged bigint, first_damaged string",
    # Metrics. Times relative to a zero end in `_s` too and are negative before it. `zeros`, `throughput`: the run's own
    # axis, whose zero is its first event. What has an `event_id` is relative to that event (see scale_events).
    "zeros": "run_id string, zero_s double, scaled boolean, first_s double, last_s double",
    "throughput": "run_id string, window_s double, scope string, component string, rate double, complete boolean",
    "scale_events": (
        f"{EVENT}, kind string, zero_s double, from_s double, until_s double, first_s double, "
        "last_s double, machines_before int, joined array<string>, released array<string>, given_back int, "
        "attempts int, decided_s double, applied_s double"
    ),
    # What each component did in a window; a row without a component: something was reported of it at all.
    "activity": (
        f"{EVENT}, window_s double, component string, executed bigint, queue double, emitted bigint, due bigint"
    ),
    "event_throughput": (f"{EVENT}, window_s double, scope string, component string, rate double, complete boolean"),
    "intervals": (
        f"{EVENT}, phase string, start_s double, end_s double, mean double, deviation double, windows int, "
        "steady boolean, reason string, live_steady boolean, live_reason string"
    ),
    "convergence": f"{EVENT}, definition string, time_s double, censored boolean, horizon_s double",
    "downtime": f"{EVENT}, downtime_s double, longest_s double, windows_at_zero_s double",
    "losses": (
        f"{EVENT}, phase string, source string, stream string, target string, `grouping` string, sent double, "
        "executed double, queued double, lost double"
    ),
    "latency": (
        f"{EVENT}, window_s double, n bigint, mean_ms double, p50_ms double, p95_ms double, p99_ms double, "
        "max_ms double"
    ),
    "cpu": (
        f"{EVENT}, phase string, machine string, joins_at_scale boolean, cores_mean double, "
        "utilisation_mean double, "
        "utilisation_p10 double, utilisation_p50 double, utilisation_p90 double, throttled_ms_per_s double, "
        "memory_bytes_mean double, samples bigint"
    ),
    "cpu_windows": "run_id string, window_s double, machine string, utilisation_mean double, memory_bytes_mean double",
    "network": (
        f"{EVENT}, phase string, machine string, interface string, rx_bytes_per_s double, tx_bytes_per_s double"
    ),
    "settled": (
        f"{EVENT}, phase string, component string, task int, first_task int, last_task int, slot string, machine string"
    ),
    "slots": (
        f"{EVENT}, slot string, machine string, joins_at_scale boolean, executors_before int, "
        "executors_after int, changed boolean, "
        "seen_before boolean, seen_after boolean, restarts int"
    ),
    "moves": (
        f"{EVENT}, executors_before bigint, executors_after bigint, executors_moved bigint, tasks_moved bigint, "
        "tasks_moved_to_old_machines bigint, instances_on_joined bigint, joined_machines bigint, old_machines bigint"
    ),
    "running": (
        f"{EVENT}, request_to_decision_s double, request_to_applied_s double, "
        "request_to_running_s double, rebalance_s double, censored boolean"
    ),
    "loading": "run_id string, submit_to_loaded_s double, tasks int, tasks_reporting int",
    "measurements": f"{EVENT}, metric string, value double, censored boolean",
}


def schema_of(kind: str, groups: Sequence[str]) -> str:
    """The schema of a kind of line; a worker line has the groups asked for."""
    wide = [f"{group} struct<{GROUPS[group][0]}>" for group in groups] if kind == "worker" else []
    return ", ".join([LINES[kind], *wide])
