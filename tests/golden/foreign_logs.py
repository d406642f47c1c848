"""Generated logs in other people's formats, with what must be found in them. Pure but for writing files."""

from collections.abc import Iterator
from pathlib import Path

START = 1_763_700_000
SCALED = 300  # seconds after START
LENGTH = 900


def old_storm_lines(interval: int = 60, workers: int = 2) -> Iterator[str]:
    """Storm before 2.3: maps, counts of the interval. Sinks execute 100/s before SCALED and 160/s after."""
    for second in range(interval, LENGTH + 1, interval):
        n = interval * (100 if second <= SCALED else 160)
        for worker in range(workers):
            share = n // workers
            yield _line(second, worker, 1 + worker, "spout", "__emit-count", _map(f"default={2 * share}, __ack_init=7"))
            yield _line(second, worker, 11 + worker, "bolt", "__execute-count", _map(f"spout:default={2 * share}"))
            yield _line(second, worker, 11 + worker, "bolt", "__emit-count", _map(f"default={share}, __ack_init=7"))
            yield _line(second, worker, 21 + worker, "sink", "__execute-count",
                        _map(f"bolt:default={share}, __acker:__ack_ack=3"))  # fmt: skip
            yield _line(second, worker, 21 + worker, "sink", "__execute-latency", "{bolt:default=0.25}")
            yield _line(second, worker, -1, "__system", "uptimeSecs", "12.5")


def new_storm_lines(interval: int = 10, moved_at: int = SCALED) -> Iterator[str]:
    """Storm since 2.3: cumulative numbers, names cut at 23 characters, rates of the same name. The sink moves to a new
    worker at `moved_at`, is silent for two intervals and counts from 0 again; 100/s before, 160/s after."""
    sink = 0
    for second in range(interval, LENGTH + 1, interval):
        yield _line(second, 0, 1, "spout", "__emit-count-default   ", str(200 * second))
        if moved_at < second <= moved_at + 2 * interval:
            sink = 0
            continue
        sink += interval * (100 if second <= moved_at else 160)
        worker = 0 if second <= moved_at else 1
        yield _line(second, worker, 21, "sink", "__execute-count-bolt:de", "12.5")
        yield _line(second, worker, 21, "sink", "__execute-count-bolt:de", str(sink))
        yield _line(second, worker, 21, "sink", "__emit-count-__metrics ", "9")


def _map(entries: str) -> str:
    return "{" + entries + "}"


def _line(second: int, worker: int, task: int, component: str, metric: str, value: str) -> str:
    prefix = f"2025-11-21 05:{second // 60 % 60:02d}:{second % 60:02d},123 {second * 1000:<8d} "
    slot, name = f"{f'host{worker}':>15}:{6700 + worker:<4}", f"{task:3d}:{component:<11}"
    return f"{prefix}{START + second}\t{slot}\t{name}\t{metric:<23}\t{value}\n"


def stela_lines(schedulers: tuple[str, ...] = ("stela", "defaultscheduler")) -> Iterator[str]:
    """Two sinks, a line every 10 s; after SCALED 30 s at or below 0, then a level of its own; mean over the sinks."""
    levels = {"stela": 800, "defaultscheduler": 500}
    for number, scheduler in enumerate(schedulers, 1):
        topology = f"star-{number}-{START + 2000 * number}"
        for second in range(0, LENGTH + 1, 10):
            level = 500 if second <= SCALED else levels.get(scheduler, 500)
            value = -40 if SCALED < second <= SCALED + 30 else level + (10 if second // 10 % 2 else -10)
            yield f"{second}:{scheduler}:sink_output_1,sink_output_2,:{topology}:{value if second else 0}\n"


def write(path: Path, lines: Iterator[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines)
    return path
