"""The status of a series, added up from its progress lines: phase, run, throughput, time left. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from barograph.plan.durations import DEFAULT_OVERHEAD, run_s
from barograph.plan.events import KINDS
from barograph.plan.experiment import Experiment
from barograph.testbeds.costs import usd

SERIES_PHASES = ("start", "provision", "deploy", "between_blocks", "release", "analyse")
THROUGHPUT_SAMPLES = 60


@dataclass(frozen=True)
class SeriesStatus:
    """The status of a series. `runs` is the number of this execution's runs; times are epoch seconds."""

    runs: int
    run_s: float  # a run's expected length
    phase: str = "start"
    phase_since_s: float | None = None
    phase_expected_s: float = 0.0
    run_id: str | None = None
    run_since_s: float | None = None
    done: tuple[tuple[str, str], ...] = ()  # run id, status
    lengths_s: tuple[float, ...] = ()
    throughput: tuple[float | None, ...] = ()  # of all topologies
    by_topology: Mapping[str, float] = field(default_factory=dict)  # the newest, where there are several
    notes: tuple[str, ...] = ()
    money: tuple[float, float] | None = None  # used, budget (US dollars)
    report: str | None = None
    failure: tuple[str, str] | None = None  # blame, message
    interrupted: bool = False

    def throughput_words(self) -> str:
        """Return a text such as `310 tuples/s (star 240, other 70)`; empty where nothing has been measured."""
        if not self.throughput or self.throughput[-1] is None:
            return ""
        parts = ", ".join(f"{name} {rate:.0f}" for name, rate in self.by_topology.items())
        return f"{self.throughput[-1]:.0f} tuples/s{f' ({parts})' if parts else ''}"

    def time_left_s(self, now_s: float) -> float:
        """Return the expected seconds left, from the lengths of the runs so far."""
        each = sum(self.lengths_s) / len(self.lengths_s) if self.lengths_s else self.run_s
        current = max(0.0, each - (now_s - self.run_since_s)) if self.run_since_s is not None else 0.0
        number = self.runs - len(self.done) - (1 if self.run_since_s is not None else 0)
        rest = max(0.0, self.phase_expected_s - self.phase_s(now_s)) if self.run_since_s is None else 0.0
        closing = 0.0 if self.phase in ("release", "analyse") else DEFAULT_OVERHEAD.closing_s
        opening = DEFAULT_OVERHEAD.opening_s if self.phase in ("start", "provision") else 0.0
        return max(0, number) * each + current + rest + closing + opening

    def phase_s(self, now_s: float) -> float:
        """Return the seconds since the phase began; 0 where the clock was set back since."""
        return 0.0 if self.phase_since_s is None else max(0.0, now_s - self.phase_since_s)


def initial_status(runs: int, experiment: Experiment) -> SeriesStatus:
    return SeriesStatus(runs, run_s(experiment))


def fact_rows(status: SeriesStatus, now_s: float) -> tuple[tuple[str, str], ...]:
    """Return names and values that interest a waiting person, for the terminal and for the page of a DAG run."""
    rows = (
        ("phase", f"{PHASE_WORDS.get(status.phase, status.phase)}, for {minutes(status.phase_s(now_s))}"),
        ("run", status.run_id or "–"),
        ("throughput", status.throughput_words() or "–"),
        ("runs", f"{len(status.done)} of {status.runs} done, about {time_words(status.time_left_s(now_s))} left"),
    )
    if status.money is None:
        return rows
    return (*rows, ("money", f"{usd(status.money[0])} of {usd(status.money[1])}"))


def update_status(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    """Return the status after one more line; unknown kinds change nothing."""
    update = _UPDATES.get(str(line.get("kind")))
    return update(status, line) if update else status


def _phase(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    facts = {"phase": line["phase"], "phase_since_s": line["t"], "phase_expected_s": line.get("expected_s", 0.0)}
    if line["phase"] in SERIES_PHASES:
        facts |= {"run_id": None, "run_since_s": None, "throughput": ()}
    return replace(status, **facts)


def _run_started(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    return replace(status, run_id=line["run_id"], run_since_s=line["t"], throughput=())


def _run_ended(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    outcomes = (*status.done, (line["run_id"], line["status"]))
    length = () if status.run_since_s is None else (line["t"] - status.run_since_s,)
    is_complete = line["status"] == "complete"
    lengths = (*status.lengths_s, *length) if is_complete else status.lengths_s
    return replace(status, done=outcomes, lengths_s=lengths, run_id=None, run_since_s=None)


def _run_failed(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    word = "repeated" if line["again"] else "failed"
    note = f"{line['run_id']} {word}: {line['blame']}: {line['message']}"
    status = replace(status, notes=(*status.notes, note), run_id=None, run_since_s=None)
    return status if line["again"] else replace(status, done=(*status.done, (line["run_id"], "failed")))


def _throughput(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    rates = (*status.throughput, line["per_s"])[-THROUGHPUT_SAMPLES:]
    return replace(status, throughput=rates, by_topology=line.get("by_topology", {}))


def _message(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    return replace(status, notes=(*status.notes, line["text"]))


def _money(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    return replace(status, money=(line["used_usd"], line["budget_usd"])) if "used_usd" in line else status


_UPDATES: Mapping[str, Callable[[SeriesStatus, Mapping[str, Any]], SeriesStatus]] = {
    "phase": _phase,
    "run_started": _run_started,
    "run_ended": _run_ended,
    "run_failed": _run_failed,
    "throughput": _throughput,
    "message": _message,
    "money": _money,
    "report": lambda status, line: replace(status, report=line["path"]),
    "failed": lambda status, line: replace(status, failure=(line["blame"], line["message"])),
    "interrupted": lambda status, _line: replace(status, interrupted=True),
}

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """Return a bar for each of the last values, scaled from 0 to the largest; a gap where nothing was measured."""
    window = values[-width:]
    top = max((value for value in window if value is not None), default=0.0)
    if top <= 0:
        return "".join(" " if value is None else _BARS[0] for value in window)
    return "".join(" " if value is None else _BARS[round(value / top * (len(_BARS) - 1))] for value in window)


def minutes(seconds: float) -> str:
    """Return a text such as `3:07`."""
    total_s = round(seconds)
    return f"{total_s // 60}:{total_s % 60:02d}"


def time_words(seconds: float) -> str:
    """Return a text such as `3:07`, or `1 h 07 min`."""
    return minutes(seconds) if seconds < 3600 else hours(seconds)


def hours(seconds: float) -> str:
    """Return a text such as `1 h 07 min`, or `12 min`."""
    total_min = round(seconds / 60)
    return f"{total_min // 60} h {total_min % 60:02d} min" if total_min >= 60 else f"{total_min} min"


PHASE_WORDS = {
    "start": "starting",
    "provision": "acquiring machines",
    "deploy": "deploying Storm",
    "reset": "cleaning the cluster",
    "configure": "setting the policy",
    "submit": "submitting the topology",
    "first_tuple": "waiting for the first tuple",
    "warm_up": "warming up until steady",
    "after": "watching until steady again",
    "collect": "collecting the record",
    "between_blocks": "comparing what is there so far",
    "release": "releasing machines",
    "analyse": "analysing with Spark",
    **{phase: words for kind in KINDS.values() for phase, words in kind.phases.items()},
}
