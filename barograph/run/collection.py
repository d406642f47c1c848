"""End a run: kill its topology, collect its files into the record, also after a failure; and inspect that record for
facts that the harness could not know while the topology ran.
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
    """Return by name each topology's facts for run.json, from the first decision line with it; those without such a
    line are missing."""
    facts_by_name: dict[str, dict[str, Any]] = {}
    for line in json_lines(RunPaths(folder).decisions):
        if facts_by_name.keys() == set(names):
            break
        for topology in line.get("request", {}).get("topologies", []):
            if topology["name"] in names and topology["name"] not in facts_by_name:
                facts_by_name[topology["name"]] = _topology_facts(topology)
    return facts_by_name


def bridge_fallbacks(folder: Path, since_s: float) -> list[dict[str, Any]]:
    """Return the bridge's `fallback` events of this run: epoch seconds `t`, `reason`. A damaged line counts as one."""
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
    """Collect these workers' files, ahead of the others': the record is not judged yet."""
    collection = run.context.cluster.collect(run.record.folder, names)
    run.machines.on_record.update(names)
    clocks.note_end(run, names)
    _note_missing(run, [name for name in collection.missing if name != NO_SAMPLES])


def stop_and_collect(run: RunContext, *, bring_back: bool) -> None:
    """Kill the topology and fetch the files that are not in the record yet."""
    try:
        run.context.cluster.stop()
        run.record.event("topology_killed")
    finally:
        _end_disturbances(run)
    machines = run.machines
    # Machines that the plan crashed have a part of the record on their disks, and the next run needs them.
    for name in sorted(machines.down) if bring_back else ():
        try:
            run.context.cluster.restart(name)
            machines.down.discard(name)
        except Exception as error:  # noqa: BLE001 - the run itself is over and measured
            run.context.listener.tell("message", text=f"{name} did not come back after its crash: {error}")
    absent = machines.on_record | machines.down | machines.dead | machines.later | machines.away
    names_in_order = dict.fromkeys((*run.context.experiment.workers(), *sorted(machines.extra)))
    names = [name for name in names_in_order if name not in absent]
    collection = run.context.cluster.collect(run.record.folder, ("master", *names))
    down = [f"{name}: all files, it is down" for name in sorted(run.machines.down | run.machines.dead)]
    clocks.note_end(run, ("master", *names))
    _note_missing(run, [*collection.missing, *down])
    _note_inspection(run)
    if bring_back:
        return_booted(run, sorted(run.machines.extra - run.machines.away))


def collect_after_failure(run: RunContext, *, bring_back: bool) -> None:
    """Collect the measurements of a broken run; errors in here must not hide what broke it."""
    try:
        with run.record.phase("collect"):
            stop_and_collect(run, bring_back=bring_back)
    except Exception as error:  # noqa: BLE001 - the first failure is the one to report
        run.context.listener.tell("message", text=f"collecting what was measured failed: {error}")


def fallbacks_of_run(record: RunRecord) -> list[dict[str, Any]]:
    return bridge_fallbacks(record.folder, since_s=float(record.document["started_s"]))


def _end_disturbances(run: RunContext) -> None:
    """End disturbances that last until the run's end, and those of a broken run; the next run's reset repeats it."""
    for disturbed, disturbance in run.machines.disturbed:
        names = tuple(name for name in disturbed if name not in run.machines.down)  # a boot ends it too
        try:
            run.context.cluster.end_disturbance(names, disturbance)
            run.record.event("disturbance_ended", machines=list(names))
        except Exception as error:  # noqa: BLE001 - the run itself is over and measured
            kind = disturbance.kind
            run.context.listener.tell("message", text=f"{', '.join(names)}: {kind} could not be ended: {error}")
    run.machines.disturbed.clear()


def return_booted(run: RunContext, names: Sequence[str]) -> None:
    """Give back booted machines: every run boots its own. A failure is repeated before the next boot, or with the
    lease.
    """
    if not names:
        return
    try:
        if run.context.cluster.give_back(names):
            run.machines.away.update(names)
            run.record.event("machines_returned", machines=list(names))
    except Exception as error:  # noqa: BLE001 - the measurements do not depend on it
        run.context.listener.tell("message", text=f"{', '.join(names)} could not be given back yet: {error}")


def _note_missing(run: RunContext, missing: Sequence[str]) -> None:
    run.record.add({"missing": [*run.record.document["missing"], *missing]})


def _note_inspection(run: RunContext) -> None:
    """Record facts from the collected files: task ids as Storm gave them, and whether the bridge fell back."""
    choices = {each.name: each for each in run.topologies()}
    topologies = []
    for name, facts in topologies_of_decisions(run.record.folder, choices).items():
        level = choices[name].service_level
        levels = {"service_level": asdict(level)} if level is not None else {}
        topologies.append(facts | {"throughput": choices[name].throughput} | levels)
    topologies.sort(key=lambda facts: [*choices].index(facts["name"]))
    if topologies:
        run.record.add(
            {"topology": topologies[0]} | ({"topologies": topologies} if run.context.experiment.topologies else {})
        )
    if groups := run.context.experiment.groups():
        group_of = {name: group for group, names in groups.items() for name in names}
        for line in json_lines(RunPaths(run.record.folder).decisions):
            group_of |= line.get("decision", {}).get("groups", {})
        machines = run.record.document["machines"]
        run.record.add({"machines": {name: {**facts, "group": group_of.get(name)} for name, facts in machines.items()}})
    for fallback in fallbacks_of_run(run.record):
        run.record.event("fallback", t=fallback["t"], reason=fallback.get("reason"))
