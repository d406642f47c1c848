"""The end of a run: its topology killed, its files collected into the record, also when something broke it; and the
inspection of that record for what the harness could not know while the topology ran.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis.record.files import RunPaths, json_lines, parsed_lines
from barograph.run import clocks
from barograph.run.context import RunContext
from barograph.series.run_record import RunRecord
from playbooks.cluster import NO_SAMPLES


def topologies_of_decisions(folder: Path, names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Of each, by name, what run.json says of it, from the first decision line that shows it; those without such a line
    are not there."""
    found: dict[str, dict[str, Any]] = {}
    for line in json_lines(RunPaths(folder).decisions):
        if found.keys() == set(names):
            break
        for shown in line.get("request", {}).get("topologies", []):
            if shown["name"] in names and shown["name"] not in found:
                found[shown["name"]] = _topology_facts(shown)
    return found


def bridge_fallbacks(folder: Path, since_s: float) -> list[dict[str, Any]]:
    """The bridge's `fallback` events of this run: epoch seconds `t` and `reason`. A damaged line may have been one."""
    events = [event for file in sorted(folder.rglob("bridge.jsonl")) for event in parsed_lines(file)]
    damaged: dict[str, Any] = {
        "t": since_s,
        "kind": "fallback",
        "reason": "a line of bridge.jsonl is damaged and may have said so",
    }
    timed = [event if event and isinstance(event.get("t"), int | float) else damaged for event in events]
    return [event for event in timed if event.get("kind") == "fallback" and float(event["t"]) >= since_s]


def _topology_facts(shown: dict[str, Any]) -> dict[str, Any]:
    components = [each for each in shown["components"] if each["kind"] != "system"]
    sources = {edge["source"] for edge in shown["edges"]}
    return {
        "id": shown["id"],
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


def collect(run: RunContext, names: Sequence[str]) -> None:
    """These workers' files, ahead of the others': the record is not judged yet."""
    collection = run.context.cluster.collect(run.record.folder, names)
    run.machines.on_record.update(names)
    clocks.note_end(run, names)
    _note_missing(run, [name for name in collection.missing if name != NO_SAMPLES])


def stop_and_collect(run: RunContext, *, bring_back: bool) -> None:
    """Kill the topology and fetch what is not in the record yet."""
    try:
        run.context.cluster.stop()
        run.record.event("topology_killed")
    finally:
        _end_disturbances(run)
    if bring_back:
        _restart_crashed(run)
    machines = run.machines
    away = machines.on_record | machines.down | machines.dead | machines.later | machines.away
    known = dict.fromkeys((*run.context.experiment.workers(), *sorted(machines.extra)))
    names = [name for name in known if name not in away]
    collection = run.context.cluster.collect(run.record.folder, ("master", *names))
    down = [f"{name}: all files, it is down" for name in sorted(run.machines.down | run.machines.dead)]
    clocks.note_end(run, ("master", *names))
    _note_missing(run, [*collection.missing, *down])
    _note_inspection(run)
    if bring_back:
        return_booted(run, sorted(run.machines.extra - run.machines.away))


def collect_after_failure(run: RunContext, *, bring_back: bool) -> None:
    """What a broken run has measured; trouble in here must not hide what broke it."""
    try:
        with run.record.phase("collect"):
            stop_and_collect(run, bring_back=bring_back)
    except Exception as error:  # noqa: BLE001 - the first failure is the one to report
        run.context.listener.tell("message", text=f"collecting what was measured failed: {error}")


def fallbacks_of_run(record: RunRecord) -> list[dict[str, Any]]:
    return bridge_fallbacks(record.folder, since_s=float(record.document["started_s"]))


def _end_disturbances(run: RunContext) -> None:
    """Those that last until the run ends, and those of a run that broke; the next run's reset does it again."""
    for disturbed, disturbance in run.machines.disturbed:
        names = tuple(name for name in disturbed if name not in run.machines.down)  # a boot ends it too
        try:
            run.context.cluster.end_disturbance(names, disturbance)
            run.record.event("disturbance_ended", machines=list(names))
        except Exception as error:  # noqa: BLE001 - the run itself is over and measured
            kind = disturbance.kind
            run.context.listener.tell("message", text=f"{', '.join(names)}: {kind} could not be ended: {error}")
    run.machines.disturbed.clear()


def _restart_crashed(run: RunContext) -> None:
    """A machine that the plan crashed holds its part of the record on its disk, and the next run wants it up."""
    for name in sorted(run.machines.down):
        try:
            run.context.cluster.restart(name)
            run.machines.down.discard(name)
        except Exception as error:  # noqa: BLE001 - the run itself is over and measured
            run.context.listener.tell("message", text=f"{name} did not come back after its crash: {error}")


def return_booted(run: RunContext, names: Sequence[str]) -> None:
    """Every run boots its own. What cannot be returned goes before the next boot, or with the lease."""
    if not names:
        return
    try:
        if run.context.cluster.give_back(names):
            run.machines.away.update(names)
            run.record.event("machines_returned", machines=list(names))
    except Exception as error:  # noqa: BLE001 - what is measured does not depend on it
        run.context.listener.tell("message", text=f"{', '.join(names)} could not be given back yet: {error}")


def _note_missing(run: RunContext, missing: Sequence[str]) -> None:
    run.record.add({"missing": [*run.record.document["missing"], *missing]})


def _note_inspection(run: RunContext) -> None:
    """What only the collected files know: task ids as Storm gave them, and whether the bridge fell back."""
    chosen = {each.name: each.service_level for each in run.topologies()}
    known = topologies_of_decisions(run.record.folder, chosen)
    levels = {name: {"service_level": asdict(level)} for name, level in chosen.items() if level is not None}
    shown = [known[name] | levels.get(name, {}) for name in chosen if name in known]
    if shown:
        run.record.add({"topology": shown[0]} | ({"topologies": shown} if run.context.experiment.topologies else {}))
    for fallback in fallbacks_of_run(run.record):
        run.record.event("fallback", t=fallback["t"], reason=fallback.get("reason"))
