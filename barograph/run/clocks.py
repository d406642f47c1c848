"""The machines' clocks beside the run's. Samples and decisions carry the machines' times, events and limits the run's:
offsets are measured before the run and after it, the run's clock follows their median, and a run whose clocks are too
far apart, or jumped meanwhile, does not count. The offsets of both times and their errors are on record: the analysis
subtracts the difference of two clocks from each latency, and states the remaining error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from statistics import median

from barograph.errors import BarographError
from barograph.run.context import RunContext
from playbooks.clock import ClockOffset

# Between the machines: clocks with NTP are closer, and every latency across machines is wrong by it.
APART_MS = 50.0
# Between them all and this box, which the run's clock corrects: a tenth of a window (10 s) if it comes meanwhile.
BOX_MS = 1000.0

Offsets = Mapping[str, ClockOffset | None]  # a machine's clock minus ours; None: it did not answer


class ClockWrong(BarographError):
    """A machine's clock is too far from the others', does not answer, or was stepped during the run."""

    blame = "infrastructure"


def correction_ms(offsets: Offsets) -> float:
    """Return how far the machines' clocks are ahead of ours: the median."""
    offsets_ms = [offset.ms for offset in offsets.values() if offset is not None]
    return median(offsets_ms) if offsets_ms else 0.0


def residuals(offsets: Offsets, middle_ms: float) -> dict[str, ClockOffset]:
    """Return how far each known clock is ahead of the middle."""
    measurements = {name: offset for name, offset in offsets.items() if offset is not None}
    return {
        name: ClockOffset(round(offset.ms - middle_ms, 3), offset.error_ms) for name, offset in measurements.items()
    }


def require_close(offsets: Offsets, middle_ms: float) -> None:
    """Raise ClockWrong where a clock is surely too far off, whatever the error of the measurement."""
    if missing := [name for name, offset in offsets.items() if offset is None]:
        raise ClockWrong(
            f"the clock of {', '.join(missing)} could not be asked; see whether ssh and python3 work there"
        )
    gaps = {name: each.ms for name, each in residuals(offsets, middle_ms).items() if abs(each.ms) > _allowed_ms(each)}
    if gaps:
        raise ClockWrong(
            f"clocks are too far from the median of the machines': {_seconds(gaps)}; allowed: {APART_MS / 1000:g} s to"
            " either side; synchronise the machines by NTP (apt-get install chrony), then run again"
        )
    if abs(middle_ms) > BOX_MS:
        raise ClockWrong(
            f"this box's clock is too far from the machines', whose median is {middle_ms / 1000:+.1f} s; allowed:"
            f" {BOX_MS / 1000:g} s; synchronise it by NTP (apt-get install chrony), then run again"
        )


def _allowed_ms(offset: ClockOffset) -> float:
    return APART_MS + offset.error_ms


def latency_error_ms(*measured: Mapping[str, ClockOffset]) -> float | None:
    """Return the largest possible error of a latency between two machines; None where fewer than two answered."""
    pairs = (pair for clocks in measured for pair in permutations(clocks.values(), 2))
    spans = [fast.ms + fast.error_ms - (slow.ms - slow.error_ms) for fast, slow in pairs]
    return round(max(spans), 3) if spans else None


def align(run: RunContext, machines: Sequence[str]) -> None:
    """Record the clocks before the run, and let the run's follow them. ClockWrong, with the offsets on record."""
    offsets = run.context.cluster.clock_offsets_ms(machines, run.now)
    middle_ms = correction_ms(offsets)
    run.record.add({"clock_offset_ms": _numbers(offsets)})
    _note_offset_errors(run, offsets)
    require_close(offsets, middle_ms)
    run.record.add({"clock_correction_ms": middle_ms})
    _note_error(run, residuals(offsets, middle_ms))
    run.context.clock.shift(middle_ms / 1000)


def note_joined(run: RunContext, machines: Sequence[str]) -> None:
    """Do the same for machines that booted during the run, whose clock is not changed. Raises ClockWrong."""
    everybody = _measured(run, ("master", *run.machines.expected(), *machines))
    offsets = {name: everybody[name] for name in machines}
    moved_ms = _moved_ms(run, {name: offset for name, offset in everybody.items() if name not in offsets})
    run.record.add({"clock_offset_ms": {**run.record.document["clock_offset_ms"], **_numbers(offsets)}})
    _note_offset_errors(run, offsets)
    middle_ms = float(run.record.document.get("clock_correction_ms", 0.0)) + moved_ms
    require_close(offsets, middle_ms)
    _note_error(run, residuals(everybody, middle_ms), machines)


def note_end(run: RunContext, machines: Sequence[str]) -> None:
    """Record the clocks when the machines' files are collected, beside the earlier ones.

    All working machines are asked, also where only some are collected: two do not show how much the box's clock moved.
    """
    everybody = _measured(run, tuple(dict.fromkeys(("master", *machines, *run.machines.expected()))))
    offsets = {name: everybody[name] for name in ("master", *machines)}
    document = run.record.document
    run.record.add({"clock_end_offset_ms": {**document.get("clock_end_offset_ms", {}), **_numbers(offsets)}})
    _note_offset_errors(run, offsets)
    if missing := [name for name, offset in offsets.items() if offset is None]:
        run.record.event("clock_unknown", machines=missing)
        run.context.listener.tell("message", text=f"the clock of {', '.join(missing)} could not be asked after the run")
    moved_ms = _moved_ms(run, everybody)
    if steps := _steps_ms(run, offsets, moved_ms):
        run.record.event("clock_stepped", machines=sorted(steps), step_ms=steps)
    run.record.add({"clock_step_ms": {**document.get("clock_step_ms", {}), **steps}})
    _note_error(run, residuals(everybody, float(document.get("clock_correction_ms", 0.0)) + moved_ms))


def require_steady(run: RunContext) -> None:
    """Raise ClockWrong where a clock was stepped during the run, or drifted away from the others."""
    if steps := run.record.document.get("clock_step_ms"):
        raise ClockWrong(
            f"clocks were stepped during the run: {_seconds(steps)}; what these machines measured is of other times "
            "than the events, or than the other machines; see what sets their clocks"
        )


def _moves_ms(run: RunContext, offsets: Offsets) -> dict[str, ClockOffset]:
    """Return by machine how much its clock moved against ours since before the run."""
    start_ms = run.record.document["clock_offset_ms"]
    measurements = {name: offset for name, offset in offsets.items() if offset and start_ms.get(name) is not None}
    return {name: ClockOffset(offset.ms - start_ms[name], offset.error_ms) for name, offset in measurements.items()}


def _moved_ms(run: RunContext, offsets: Offsets) -> float:
    """Return how far all these moved together: this box's clock may run at another pace than theirs."""
    return correction_ms(_moves_ms(run, offsets))


def _steps_ms(run: RunContext, offsets: Offsets, moved_ms: float) -> dict[str, float]:
    """Return excessive moves: against ours, or in the end too far from the others', which moved by `moved_ms`."""
    moves, correction = _moves_ms(run, offsets), run.record.document.get("clock_correction_ms")
    if correction is None:
        return {}  # refused before the run
    ends = residuals({name: offsets[name] for name in moves}, correction + moved_ms)
    return {
        name: round(move.ms, 3)
        for name, move in moves.items()
        if abs(move.ms) > BOX_MS or abs(ends[name].ms) > _allowed_ms(ends[name]) + move.error_ms
    }


def _measured(run: RunContext, machines: Sequence[str]) -> dict[str, ClockOffset | None]:
    """Measure against this box's clock as at the run's begin, whatever the run's clock follows since."""
    shift_ms = float(run.record.document.get("clock_correction_ms", 0.0))
    offsets = run.context.cluster.clock_offsets_ms(machines, run.now)
    return {
        name: None if offset is None else ClockOffset(round(offset.ms + shift_ms, 3), offset.error_ms)
        for name, offset in offsets.items()
    }


def _note_error(run: RunContext, measured: Mapping[str, ClockOffset], joining: Sequence[str] = ()) -> None:
    """Record the largest error so far, of machines that run workers: no tuple is timed elsewhere."""
    workers = {*run.machines.present, *run.machines.exempt, *joining}
    timed = {name: offset for name, offset in measured.items() if name in workers}
    errors = (run.record.document.get("clock_error_ms"), latency_error_ms(timed))
    run.record.add({"clock_error_ms": max((error for error in errors if error is not None), default=None)})


def _note_offset_errors(run: RunContext, measured: Offsets) -> None:
    """Record by machine the largest error of its offsets so far."""
    errors = dict(run.record.document.get("clock_offset_error_ms", {}))
    for name, offset in measured.items():
        if offset is not None:
            errors[name] = max(offset.error_ms, errors.get(name, 0.0))
    run.record.add({"clock_offset_error_ms": errors})


def _numbers(offsets: Offsets) -> dict[str, float | None]:
    return {name: None if offset is None else offset.ms for name, offset in offsets.items()}


def _seconds(offsets: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {offset / 1000:+.3f} s" for name, offset in sorted(offsets.items()))
