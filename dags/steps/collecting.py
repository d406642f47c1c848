"""The end of a run: its topology killed, its files in the record, also when something broke it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dags.run_record import Diary
from dags.steps.trace import bridge_fallbacks, topology_as_run
from dags.steps.under_way import UnderWay

NO_SAMPLES = "workers/*.jsonl"  # as the collection names it


def collect(run: UnderWay, names: Sequence[str]) -> None:
    """These workers' files, ahead of the others': the record is not judged yet."""
    got = run.bench.cluster.collect(run.diary.folder, names)
    run.machines.collected.update(names)
    _note(run, [name for name in got.missing if name != NO_SAMPLES], got.clock_offset_ms)


def stop_and_collect(run: UnderWay, *, bring_back: bool) -> None:
    """Kill the topology and fetch what is not in the record yet."""
    run.bench.cluster.stop()
    run.diary.event("topology_killed")
    if bring_back:
        _bring_back(run)
    away = run.machines.collected | run.machines.crashed | run.machines.dead | run.machines.awaited
    names = [name for name in run.bench.experiment.workers() if name not in away]
    got = run.bench.cluster.collect(run.diary.folder, ("master", *names))
    down = [f"{name}: all files, it is down" for name in sorted(run.machines.crashed | run.machines.dead)]
    _note(run, [*got.missing, *down], got.clock_offset_ms)
    _note_trace(run)
    if bring_back:
        _return_booted(run)


def gather(run: UnderWay, *, bring_back: bool) -> None:
    """What a broken run has measured; trouble in here must not hide what broke it."""
    try:
        with run.diary.phase("collect"):
            stop_and_collect(run, bring_back=bring_back)
    except Exception as error:  # noqa: BLE001 - the first failure is the one to report
        run.bench.listener.tell("message", text=f"collecting what was measured failed: {error}")
    with suppress(OSError):
        run.diary.event("run_ended", status=run.diary.document["status"])


def fallbacks(diary: Diary) -> list[dict[str, Any]]:
    return bridge_fallbacks(diary.folder, since_s=float(diary.document["started_s"]))


def _bring_back(run: UnderWay) -> None:
    """A machine that the plan crashed holds its part of the record on its disk, and the next run wants it up."""
    for name in sorted(run.machines.crashed):
        try:
            run.bench.cluster.restart(name)
            run.machines.crashed.discard(name)
        except Exception as error:  # noqa: BLE001 - the run itself is over and measured
            run.bench.listener.tell("message", text=f"{name} did not come back after its crash: {error}")


def _return_booted(run: UnderWay) -> None:
    """Every run boots its own. What cannot be returned goes before the next boot, or with the lease."""
    names = sorted(run.machines.booted - run.machines.given_back)
    if not names:
        return
    try:
        run.bench.cluster.give_back(names)
        run.machines.given_back.update(names)
        run.diary.event("machines_returned", machines=names)
    except Exception as error:  # noqa: BLE001 - the run itself is over and measured
        run.bench.listener.tell("message", text=f"{', '.join(names)} could not be given back yet: {error}")


def _note(run: UnderWay, missing: Sequence[str], offsets: Any) -> None:
    document = run.diary.document
    run.diary.add({
        "clock_offset_ms": {**document["clock_offset_ms"], **offsets},
        "missing": [*document["missing"], *missing],
    })  # fmt: skip


def _note_trace(run: UnderWay) -> None:
    """What only the collected files know: task ids as Storm gave them, and whether the bridge fell back."""
    topology = topology_as_run(run.diary.folder, run.bench.experiment.topology.name)
    if topology is not None:
        run.diary.add({"topology": topology})
    for fallback in fallbacks(run.diary):
        run.diary.event("fallback", t=fallback["t"], reason=fallback.get("reason"))
