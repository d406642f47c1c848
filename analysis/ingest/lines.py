"""Raw lines of a run (docs/contracts.md): the fields read from each kind, and those that are required."""

from analysis.record.schemas import GROUPS, TABLES, WORKER_LINES, group_fields

DAMAGED_COLUMN = "damaged_text"

# Fields whose entries are lists of equal length, by group.
PARALLEL = {"sinks": ("buckets", "counts")}

# Least and greatest entries of these lists, by group. A line with an entry outside is damaged.
RANGES = {"sinks": (("buckets", -2048, 2047), ("counts", 0, 2**53))}

LINES = {
    "worker": "v int, t double, dt_s double, machine string, port int, pid bigint, topology string, seq bigint",
    "machine": (
        "v int, t double, dt_s double, machine string, cpu_cores double, cpu_quota_cores double, throttled_ms double, "
        "steal_percent double, "
        "memory_bytes bigint, memory_limit_bytes bigint, "
        "interfaces struct<name array<string>, rx_bytes array<bigint>, tx_bytes array<bigint>>"
    ),
    "event": (
        "t double, kind string, phase string, steady boolean, reason string, machines array<string>, event_id string, "
        "event string, joined array<string>, leave int, decision_id string, ok boolean, own boolean, "
        "factor double, machine string, given_back boolean, topology string, topologies array<string>"
    ),
    "decision": (
        "t double, duration_ms double, decision_id string, policy string, withdrawn string, "
        "request struct<topologies array<struct<id string, name string, "
        "components array<struct<name string, kind string, tasks array<int>, executors array<array<int>>>>, "
        "placement map<string, string>, rebalancing boolean>>>, "
        # `decision` contains the id and the policy in logs of others; in ours they are beside it.
        "decision struct<decision_id string, policy string, reason string>"
    ),
}

REQUIRED = {
    "worker": ("t", "dt_s", "machine", "port", "pid", "seq"),
    "machine": ("t", "dt_s", "machine"),
    "event": ("t", "kind"),
    "decision": ("t",),
}


def schema_of(kind: str) -> str:
    """Return the schema of a kind of line; a worker's line has groups of columns."""
    columns = [f"`{column.name}` {column.type}" for column in WORKER_LINES.columns if column.name in GROUPS]
    return ", ".join([LINES[kind], *(columns if kind == "worker" else ())])


def array_groups(kind: str) -> dict[str, list[str]]:
    """Return groups of parallel columns in a line -> their fields."""
    if kind == "machine":
        return {"interfaces": ["name", "rx_bytes", "tx_bytes"]}
    return {group: group_fields(TABLES[view]) for group, view in GROUPS.items()} if kind == "worker" else {}
