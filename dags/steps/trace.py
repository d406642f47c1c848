"""What the collected files say about a run that the harness could not know while it ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.record import RunPaths, json_lines


def topology_as_run(folder: Path, name: str) -> dict[str, Any] | None:
    """`topology` of run.json from the first decision line that shows it; None without such a line."""
    for line in json_lines(RunPaths(folder).decisions):
        shown = next((each for each in line.get("request", {}).get("topologies", []) if each["name"] == name), None)
        if shown is not None:
            return _of_request(shown)
    return None


def bridge_fallbacks(folder: Path, since_s: float) -> list[dict[str, Any]]:
    """The bridge's `fallback` events of this run: epoch seconds `t` and `reason`."""
    files = sorted(folder.rglob("bridge.jsonl"))
    events = (event for file in files for event in json_lines(file))
    return [event for event in events if event.get("kind") == "fallback" and float(event["t"]) >= since_s]


def _of_request(shown: dict[str, Any]) -> dict[str, Any]:
    components = [each for each in shown["components"] if each["kind"] != "system"]
    sources = {edge["source"] for edge in shown["edges"]}
    return {
        "name": shown["name"],
        "workers": shown["workers"],
        "components": [
            {
                "name": each["name"],
                "kind": each["kind"],
                "tasks": each["tasks"],
                "executors": len(each["executors"]),
                "sink": each["name"] not in sources,
            }
            for each in components
        ],
        "edges": shown["edges"],
    }
