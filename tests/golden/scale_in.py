"""A golden run with two events: star is scaled out as in `records`, and 100 s later m5 leaves again.

For six seconds nobody reports; then m5's two executors run on free slots of m4. Nothing else changes.
"""

import json
from pathlib import Path
from typing import Any

from analysis.record import worker_files
from tests.golden import records
from tests.support import worker_lines

AT_S = 100  # after the first event
SILENT_S = 6
HEIRS = {"m5:6700": "m4:6702", "m5:6701": "m4:6703"}
RUN = records.Run("stela", 1)
ZERO_S = RUN.zero + AT_S


def write_series(root: Path) -> None:
    records.write_run(root, RUN, 0, "stela/mixed")
    folder = root / "runs" / RUN.run_id
    for path in sorted((folder / "workers").iterdir()):
        shrink(path)
    more = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()] + events()
    records.write_lines(folder / "events.jsonl", sorted(more, key=lambda event: float(event["t"])))
    records.write_lines(folder / "decisions.jsonl", [line for line in map(moved, records.decisions(RUN)) if line])


def events() -> list[dict[str, Any]]:
    """The second attempt is carried out: the zero is the first one's."""
    request = {"kind": "scale_requested", "event": "scale_in", "joined": [], "leave": 1}
    return [
        {"t": ZERO_S - 1, "kind": "steady", "event_id": "e1", "phase": "after", "steady": True, "reason": "level"},
        {"t": ZERO_S, "event_id": "e2", **request},
        {"t": ZERO_S + 0.2, "kind": "scale_aborted", "event_id": "e2", "reason": "a machine died"},
        {"t": ZERO_S + 0.5, "event_id": "e2.2", **request},
        {"t": ZERO_S + 1.0, "kind": "decision", "decision_id": "d2", "reason": "scale in"},
        {"t": ZERO_S + 1.5, "kind": "applied", "decision_id": "d2", "ok": True},
        {"t": ZERO_S + 20, "kind": "machines_left", "machines": ["m5"], "given_back": True},
    ]


def shrink(path: Path) -> None:
    """Leave out the silence, and hand what m5's workers would have said later to their heirs."""
    lines = worker_lines.of_file(path)
    before = [line for line in lines if line["t"] <= ZERO_S + 0.5]
    after = [line for line in lines if line["t"] > ZERO_S + SILENT_S + 0.5]
    slot = f"{lines[0]['machine']}:{lines[0]['port']}"
    if slot in HEIRS and after:
        machine, port = HEIRS[slot].split(":")
        heir = {"machine": machine, "port": int(port), "pid": 9000 + int(port)}
        records.write_worker(path.parent, f"{machine}-{port}", [line | heir for line in after])
        after = []
    worker_files.write(path, [*before, *after])


def moved(line: dict[str, Any]) -> dict[str, Any] | None:
    """The rounds as they were until the second event; none for 5 s; then with m5's tasks elsewhere."""
    if line["t"] <= ZERO_S:
        return line
    if line["t"] < ZERO_S + 5:
        return None
    topology = line["request"]["topologies"][0]
    placement = {task: HEIRS.get(slot, slot) for task, slot in topology["placement"].items()}
    return line | {"request": line["request"] | {"topologies": [topology | {"placement": placement}]}}
