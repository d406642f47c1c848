"""Raw lines of a run (docs/contracts.md): the fields that are read of each kind, and those that no line may lack."""

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
    "source_machine array<string>, buckets array<array<int>>, counts array<array<bigint>>"
)
SPOUTS = (
    "task array<int>, due array<bigint>, emitted array<bigint>, behind array<bigint>, behind_ms array<double>, "
    "missed array<bigint>, late array<bigint>"
)
GAPS = "task array<int>, from_s array<double>, until_s array<double>, due array<bigint>"
TRAFFIC = "`from` array<int>, `to` array<int>, n array<bigint>"

DAMAGED_COLUMN = "damaged_text"

# The groups of a worker line: group -> (fields of the line, table it becomes).
GROUPS = {
    "tasks": (TASKS, "task_samples"),
    "streams": (STREAMS, "stream_samples"),
    "sources": (SOURCES, "source_samples"),
    "sinks": (SINKS, "sink_samples"),
    "spouts": (SPOUTS, "spout_samples"),
    "gaps": (GAPS, "gap_samples"),
    "traffic": (TRAFFIC, "traffic_samples"),
}

# Fields that lines of older workers lack, by group: null there, and no damage.
LATER = {"sinks": ("source_machine", "buckets", "counts"), "spouts": ("behind", "missed", "late")}

# Fields whose entries are lists of equal length, by group.
PARALLEL = {"sinks": ("buckets", "counts")}

# Of the entries of these lists: the least and the most, by group. A line with another one is damaged.
RANGES = {"sinks": (("buckets", -2048, 2047), ("counts", 0, 2**53))}

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
        "t double, duration_ms double, decision_id string, policy string, withdrawn string, "
        "request struct<topologies array<struct<id string, name string, "
        "components array<struct<name string, kind string, tasks array<int>, executors array<array<int>>>>, "
        "placement map<string, string>, rebalancing boolean>>>, "
        # `decision` has a decision's id and policy in logs that others wrote; ours have them beside it.
        "decision struct<decision_id string, policy string, reason string>"
    ),
}

REQUIRED = {
    "worker": ("t", "dt_s", "machine", "port", "pid", "seq"),
    "machine": ("t", "dt_s", "machine"),
    "event": ("t", "kind"),
    "decision": ("t",),
}


def schema_of(kind: str, groups: Sequence[str]) -> str:
    """The schema of a kind of line; a worker line has the groups asked for."""
    wide = [f"{group} struct<{GROUPS[group][0]}>" for group in groups] if kind == "worker" else []
    return ", ".join([LINES[kind], *wide])
