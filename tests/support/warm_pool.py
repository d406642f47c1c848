"""Processes that simulate, kept for the tests after: each is a Python that imports the harness for two seconds.

A run is simulated in a copy of its process, so nothing of it stays there. What a test puts into its environment comes
with each job. Where a test replaces what a process does it has processes of its own; where it replaces what they
import it has `ProcessPool` put back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.campaign import simulation
from barograph.campaign.simulation import Job, SimulationFailure, SimulationPool
from barograph.pool import ONE_THREAD, Death, ProcessPool

DO = simulation._do
IDLE: list[Any] = []


@dataclass(frozen=True)
class JobOfTest:
    job: Job
    environment: dict[str, str]


def do(each: JobOfTest) -> SimulationFailure | None:
    os.environ.clear()
    os.environ.update(each.environment)
    return each.job.do()


class WarmPool(ProcessPool[JobOfTest, SimulationFailure | None]):
    def __init__(self, number: int) -> None:
        super().__init__(do, number)
        while IDLE and len(self._workers) < number:
            self._workers.append(IDLE.pop())

    def end(self) -> None:
        if all(worker.job is None for worker in self._workers):
            IDLE.extend(self._workers)
            self._workers.clear()
        super().end()

    def answers(  # type: ignore[override]  # jobs as the harness has them
        self, jobs: Sequence[Job], limit_s: float | None = None
    ) -> Iterator[tuple[Job, SimulationFailure | Death | None] | None]:
        environment = ONE_THREAD | os.environ
        for each in super().answers([JobOfTest(job, environment) for job in jobs], limit_s):
            yield each and (each[0].job, each[1])


def pool(work: Callable[[Job], SimulationFailure | None], number: int) -> SimulationPool:
    return WarmPool(number) if work is DO else ProcessPool(work, number)  # type: ignore[return-value]
