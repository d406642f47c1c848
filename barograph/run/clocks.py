"""The machines' clocks beside the run's. Samples and decisions carry the machines' times, events and limits the run's:
the machines are asked before the run and after it, the run's clock follows the median of what they say, and a run whose
clocks are too far apart, or jumped meanwhile, does not count. The offsets of both times and their errors are on record:
the analysis takes what two clocks differ by out of each latency, and says what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from statistics import median

from barograph.errors import BarographError
from barograph.run.context import RunContext
from playbooks.clock import ClockOffset

# Between the machines: any clock that NTP keeps is nearer, and every latency across machines is wrong by it.
APART_MS = 50.0
# Between them all and this box, which the run's clock makes up for: a tenth of a window (10 s) if it comes meanwhile.
BOX_MS = 1000.0

Offsets = Mapping[str, ClockOffset | None]  # a machine's clock minus ours; None: it could not be asked


class ClockWrong(BarographError):
    """A machine's clock is too far from the others', cannot be asked, or was stepped during the run."""

    blame = "infrastructure"


def correction_ms(offsets: Offsets) -> float:
    """How far the machines' clocks are ahead of ours: the median."""
    known = [offset.ms for offset in offsets.values() if offset is not None]
    return median(known) if known else 0.0


def residuals(offsets: Offsets, middle_ms: float) -> dict[str, ClockOffset]:
    """How far each known clock is ahead of the middle."""
    known = {name: offset for name, offset in offsets.items() if offset is not None}
    return {name: ClockOffset(round(offset.ms - middle_ms, 3), offset.error_ms) for name, offset in known.items()}


def require_close(offsets: Offsets, middle_ms: float) -> None:
    """Raises ClockWrong. A clock is too far off where it surely is: whatever the error of the measurement."""
    if silent := [name for name, offset in offsets.items() if offset is None]:
        raise ClockWrong(f"the clock of {', '.join(silent)} could not be asked; see whether ssh and python3 work there")
    far = {name: each.ms for name, each in residuals(offsets, middle_ms).items() if abs(each.ms) > _allowed_ms(each)}
    if far:
        raise ClockWrong(
            f"clocks are too far from the median of the machines': {_seconds(far)}; allowed: {APART_MS / 1000:g} s to"
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
    """The most by which a latency from one machine to another may be wrong; None where fewer than two were asked."""
    pairs = (pair for clocks in measured for pair in permutations(clocks.values(), 2))
    spans = [ahead.ms + ahead.error_ms - (behind.ms - behind.error_ms) for ahead, behind in pairs]
    return round(max(spans), 3) if spans else None


def align(run: RunContext, machines: Sequence[str]) -> None:
    """Note the clocks before the run, and let the run's follow them. Raises ClockWrong, with the offsets on record."""
    offsets = run.context.cluster.clock_offsets_ms(machines, run.now)
    middle_ms = correction_ms(offsets)
    run.record.add({"clock_offset_ms": _numbers(offsets)})
    _note_offset_errors(run, offsets)
    require_close(offsets, middle_ms)
    run.record.add({"clock_correction_ms": middle_ms})
    _note_error(run, residuals(offsets, middle_ms))
    run.context.clock.shift(middle_ms / 1000)


def note_joined(run: RunContext, machines: Sequence[str]) -> None:
    """The same for machines that booted during the run, whose clock stays as it is. Raises ClockWrong."""
    everybody = _measured(run, ("master", *run.machines.expected(), *machines))
    offsets = {name: everybody[name] for name in machines}
    moved_ms = _moved_ms(run, {name: offset for name, offset in everybody.items() if name not in offsets})
    run.record.add({"clock_offset_ms": {**run.record.document["clock_offset_ms"], **_numbers(offsets)}})
    _note_offset_errors(run, offsets)
    middle_ms = float(run.record.document.get("clock_correction_ms", 0.0)) + moved_ms
    require_close(offsets, middle_ms)
    _note_error(run, residuals(everybody, middle_ms), machines)


def note_end(run: RunContext, machines: Sequence[str]) -> None:
    """The clocks as they are when the machines' files are collected, beside those of before.

    All that work are asked, also where only some are collected: how much the box's clock moved is not said by two.
    """
    everybody = _measured(run, tuple(dict.fromkeys(("master", *machines, *run.machines.expected()))))
    offsets = {name: everybody[name] for name in ("master", *machines)}
    document = run.record.document
    run.record.add({"clock_end_offset_ms": {**document.get("clock_end_offset_ms", {}), **_numbers(offsets)}})
    _note_offset_errors(run, offsets)
    if silent := [name for name, offset in offsets.items() if offset is None]:
        run.record.event("clock_unknown", machines=silent)
        run.context.listener.tell("message", text=f"the clock of {', '.join(silent)} could not be asked after the run")
    moved_ms = _moved_ms(run, everybody)
    if steps := _steps_ms(run, offsets, moved_ms):
        run.record.event("clock_stepped", machines=sorted(steps), step_ms=steps)
    run.record.add({"clock_step_ms": {**document.get("clock_step_ms", {}), **steps}})
    _note_error(run, residuals(everybody, float(document.get("clock_correction_ms", 0.0)) + moved_ms))


def require_steady(run: RunContext) -> None:
    """Raises ClockWrong where a clock was stepped during the run, or went away from the others."""
    if steps := run.record.document.get("clock_step_ms"):
        raise ClockWrong(
            f"clocks were stepped during the run: {_seconds(steps)}; what these machines measured is of other times "
            "than the events, or than the other machines; see what sets their clocks"
        )


def _moves_ms(run: RunContext, offsets: Offsets) -> dict[str, ClockOffset]:
    """By machine, how much its clock moved against ours since before the run."""
    before = run.record.document["clock_offset_ms"]
    known = {name: offset for name, offset in offsets.items() if offset and before.get(name) is not None}
    return {name: ClockOffset(offset.ms - before[name], offset.error_ms) for name, offset in known.items()}


def _moved_ms(run: RunContext, offsets: Offsets) -> float:
    """Of all these together: this box's clock may go at another pace than theirs."""
    return correction_ms(_moves_ms(run, offsets))


def _steps_ms(run: RunContext, offsets: Offsets, moved_ms: float) -> dict[str, float]:
    """The moves that are too much: against ours, or in the end too far from the others', which moved by `moved_ms`."""
    moves, correction = _moves_ms(run, offsets), run.record.document.get("clock_correction_ms")
    if correction is None:
        return {}  # they were refused before the run
    ends = residuals({name: offsets[name] for name in moves}, correction + moved_ms)
    return {
        name: round(move.ms, 3)
        for name, move in moves.items()
        if abs(move.ms) > BOX_MS or abs(ends[name].ms) > _allowed_ms(ends[name]) + move.error_ms
    }


def _measured(run: RunContext, machines: Sequence[str]) -> dict[str, ClockOffset | None]:
    """Against this box's clock as the run began with it, whatever the run's follows since."""
    shift_ms = float(run.record.document.get("clock_correction_ms", 0.0))
    offsets = run.context.cluster.clock_offsets_ms(machines, run.now)
    return {
        name: None if offset is None else ClockOffset(round(offset.ms + shift_ms, 3), offset.error_ms)
        for name, offset in offsets.items()
    }


def _note_error(run: RunContext, measured: Mapping[str, ClockOffset], joining: Sequence[str] = ()) -> None:
    """The largest so far, of machines that run workers: no tuple is timed elsewhere."""
    working = {*run.machines.present, *run.machines.exempt, *joining}
    timed = {name: offset for name, offset in measured.items() if name in working}
    errors = (run.record.document.get("clock_error_ms"), latency_error_ms(timed))
    run.record.add({"clock_error_ms": max((error for error in errors if error is not None), default=None)})


def _note_offset_errors(run: RunContext, measured: Offsets) -> None:
    """By machine, the largest error of its offsets so far."""
    errors = dict(run.record.document.get("clock_offset_error_ms", {}))
    for name, offset in measured.items():
        if offset is not None:
            errors[name] = max(offset.error_ms, errors.get(name, 0.0))
    run.record.add({"clock_offset_error_ms": errors})


def _numbers(offsets: Offsets) -> dict[str, float | None]:
    return {name: None if offset is None else offset.ms for name, offset in offsets.items()}


def _seconds(offsets: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {offset / 1000:+.3f} s" for name, offset in sorted(offsets.items()))
