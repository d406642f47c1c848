"""Two golden runs; beside one a topology with the same task numbers and component names, the other names none."""

import copy
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.golden import records
from tests.support import worker_lines

RUN = "even_rebalance-r1"
UNNAMED = "even_rebalance-r2"  # an older record, which does not name its topology
OTHER = "page_load-2-1763700001"


def write_series(root: Path, golden: Path) -> None:
    for run in (RUN, UNNAMED):
        shutil.copytree(golden / "runs" / run, root / "runs" / run)
    add_other(root / "runs" / RUN)
    document = json.loads((root / "runs" / UNNAMED / "run.json").read_text())
    del document["topology"]["id"]
    (root / "runs" / UNNAMED / "run.json").write_text(json.dumps(document))


def add_other(folder: Path) -> None:
    """It has ports of its own and three times the tuples, begins earlier, restarts elsewhere and goes on longer."""
    slots: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for line in worker_lines.of_run(folder):
        slots[line["machine"], line["port"] + 10].append(line)
    for (machine, port), lines in slots.items():
        lines.sort(key=lambda line: line["t"])
        both = [
            *(line | {"t": line["t"] - 20} for line in lines[:20]),
            *(line | {"t": line["t"] + 25} for line in lines),
        ]
        others = [_line_of_other(line, port, seq) for seq, line in enumerate(both)]
        records.write_worker(folder / "workers", f"{machine}-{port}", others)
    decisions = folder / "decisions.jsonl"
    rounds = [json.loads(line) for line in decisions.read_text().splitlines()]
    for number, each in enumerate(rounds):
        (own,) = each["request"]["topologies"]
        placement = {task: f"m{1 + (int(task) + number) % 4}:6710" for task in list(own["placement"])[number % 3 :]}
        other = own | {"id": OTHER, "name": "page_load", "placement": placement, "rebalancing": number % 2 == 0}
        each["request"]["topologies"] = [other, own]
    records.write_lines(decisions, rounds)


def _line_of_other(line: dict[str, Any], port: int, seq: int) -> dict[str, Any]:
    again = line["t"] > records.START + 1000 + 85
    line = copy.deepcopy(line) | {"topology": OTHER, "port": port, "pid": 9000 + again, "seq": seq}
    for group in ("tasks", "streams", "sources", "sinks", "spouts"):
        for name in ("emitted", "executed", "queue", "n", "sum_ms", "due"):
            if name in (line.get(group) or {}):
                line[group][name] = [3 * n for n in line[group][name]]
    if line.get("sinks"):
        line["sinks"]["counts"] = [[3 * n for n in counts] for counts in line["sinks"]["counts"]]
    return line
