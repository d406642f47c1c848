"""The machines' clocks beside the run's. Samples and decisions carry the machines' times, events and limits the run's:
the machines are asked before the run and after it, the run's clock follows the median of what they say, and a run whose
clocks are too far apart, or jumped meanwhile, does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from barograph.errors import BarographError
from barograph.run.context import RunContext

# A tenth of a window (10 s): beyond that what happens on one machine is counted in the window of another moment.
BOUND_MS = 1000.0

Offsets = Mapping[str, float | None]  # a machine's clock minus ours, in ms; None: it could not be asked


class ClockWrong(BarographError):
    """A machine's clock is too far from the others', cannot be asked, or was stepped during the run."""

    blame = "infrastructure"


def require_close(offsets: Offsets, bound_ms: float = BOUND_MS) -> None:
    """Raises ClockWrong."""
    if silent := [name for name, offset in offsets.items() if offset is None]:
        raise ClockWrong(f"the clock of {', '.join(silent)} could not be asked; see whether ssh and python3 work there")
    far = {name: offset for name, offset in offsets.items() if offset is not None and abs(offset) > bound_ms}
    if far:
        raise ClockWrong(
            f"clocks are too far from this box's: {_seconds(far)}; allowed: {bound_ms / 1000:g} s to either side; "
            "synchronise the machines and this box by NTP (apt-get install chrony), then run again"
        )


def correction_ms(offsets: Offsets) -> float:
    """How far the machines' clocks are ahead of ours."""
    known = [offset for offset in offsets.values() if offset is not None]
    return median(known) if known else 0.0


def steps_ms(before: Offsets, after: Offsets, bound_ms: float = BOUND_MS) -> dict[str, float]:
    """By machine, by how much its clock moved against ours between two measurements, where that is too much."""
    moved = {
        name: later - earlier
        for name, later in after.items()
        if later is not None and (earlier := before.get(name)) is not None
    }
    return {name: step for name, step in moved.items() if abs(step) > bound_ms}


def align(run: RunContext, machines: Sequence[str]) -> None:
    """Note the clocks before the run, and let the run's follow them. Raises ClockWrong, with the offsets on record."""
    offsets = run.context.cluster.clock_offsets_ms(machines, run.now)
    shift_ms = correction_ms(offsets)
    run.record.add({"clock_offset_ms": dict(offsets)})
    require_close(offsets)
    run.record.add({"clock_correction_ms": shift_ms})
    run.context.clock.shift(shift_ms / 1000)


def note_joined(run: RunContext, machines: Sequence[str]) -> None:
    """The same for machines that booted during the run, whose clock stays as it is. Raises ClockWrong."""
    offsets = _measured(run, machines)
    run.record.add({"clock_offset_ms": {**run.record.document["clock_offset_ms"], **offsets}})
    require_close(offsets)


def note_end(run: RunContext, machines: Sequence[str]) -> None:
    """The clocks as they are when the machines' files are collected, beside those of before."""
    offsets = _measured(run, machines)
    run.record.add({"clock_end_offset_ms": {**run.record.document.get("clock_end_offset_ms", {}), **offsets}})
    if steps := steps_ms(run.record.document["clock_offset_ms"], offsets):
        run.record.event("clock_stepped", machines=sorted(steps), step_ms=steps)


def require_steady(run: RunContext) -> None:
    """Raises ClockWrong where a clock was stepped during the run."""
    document = run.record.document
    if steps := steps_ms(document["clock_offset_ms"], document.get("clock_end_offset_ms", {})):
        raise ClockWrong(
            f"clocks were stepped during the run: {_seconds(steps)}; what these machines measured is of other times "
            "than the events; see what sets their clocks"
        )


def _measured(run: RunContext, machines: Sequence[str]) -> dict[str, float | None]:
    """Against this box's clock as the run began with it, whatever the run's follows since."""
    shift_ms = float(run.record.document.get("clock_correction_ms", 0.0))
    offsets = run.context.cluster.clock_offsets_ms(machines, run.now)
    return {name: None if offset is None else round(offset + shift_ms, 3) for name, offset in offsets.items()}


def _seconds(offsets: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {offset / 1000:+.1f} s" for name, offset in sorted(offsets.items()))
