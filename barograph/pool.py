"""Processes that do jobs of one kind in parallel. They end with their parent process, however that ends.

A process that dies (the kernel ends the largest one where memory is short) costs only its own job: it is replaced. Jobs
are started in their order; answers come as they are ready.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Generic, NoReturn, Self, TypeVar, cast

from barograph.child_processes import die_with_parent, keep_exit_codes
from barograph.settings import environment_of_children

Job = TypeVar("Job")
Answer = TypeVar("Answer")
LAST_WAIT_S = 10.0  # for a process that was killed
# Each process has a core of its own: threads of numerical libraries would only compete.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Death:
    """The end of a process in place of its answer. `exit_code`: -N where signal N ended it. `limit_s`: the limit for
    which it was killed."""

    exit_code: int | None
    limit_s: float | None = None

    @property
    def blame(self) -> str:
        """Return the blame: only policies are foreign code in there, and may hang."""
        return "infrastructure" if self.limit_s is None else "system_under_test"

    def words(self) -> str:
        if self.limit_s is not None:
            return f"its process was still busy after {self.limit_s:g} s, which is its limit, and was killed"
        memory = "the kernel kills the largest one where memory is short (`dmesg` says so)"
        return f"its process ended with {self.exit_code}; {memory}"


@dataclass
class _Worker(Generic[Job]):
    process: SpawnProcess
    connection: Connection
    job: Job | None = None


class ProcessPool(Generic[Job, Answer]):
    """`do` is a function of a module, called in another process; its job and its answer are pickled."""

    def __init__(self, do: Callable[[Job], Answer], number: int) -> None:
        """Set the maximum `number` of processes; none is started before there is a job for it."""
        keep_exit_codes()
        # Not by fork: a copy would contain locks held by threads of this process.
        self._context = multiprocessing.get_context("spawn")
        self._do, self._number = do, number
        self._workers: list[_Worker[Job]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End every process at once; others are started when there are jobs again."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join(LAST_WAIT_S)
            worker.connection.close()
        self._workers.clear()

    def answers(self, jobs: Sequence[Job], limit_s: float | None = None) -> Iterator[tuple[Job, Answer | Death] | None]:
        """Yield each job with its answer, and None where none came for `limit_s`, so that others can have a turn."""
        queue = list(reversed(jobs))
        while queue or any(worker.job is not None for worker in self._workers):
            while queue and (free := self._free_worker()) is not None:
                free.job = queue.pop()
                with suppress(ConnectionError):  # it has died meanwhile: its pipe says so later
                    free.connection.send(free.job)
            busy_workers = {worker.connection: worker for worker in self._workers if worker.job is not None}
            ready = wait(list(busy_workers), limit_s)
            if not ready:
                yield None
            for connection in ready:
                worker = busy_workers[connection]  # type: ignore[index]  # wait() says what it may return in general
                job, worker.job = worker.job, None
                assert job is not None, "only busy ones are asked"
                answer: Answer | Death
                try:
                    answer = worker.connection.recv()
                except (EOFError, OSError):  # also within an answer
                    self._remove(worker)
                    answer = Death(worker.process.exitcode)
                yield job, answer

    def _free_worker(self) -> _Worker[Job] | None:
        for worker in [each for each in self._workers if each.job is None and not each.process.is_alive()]:
            self._remove(worker)  # it has died without a job: no job is to be lost with it
        free = next((worker for worker in self._workers if worker.job is None), None)
        if free is not None or len(self._workers) >= self._number:
            return free
        connection, child_end = self._context.Pipe()
        process = self._context.Process(target=_work, args=(child_end, os.getpid(), self._do), daemon=True)
        with environment_of_children(ONE_THREAD):
            process.start()
        child_end.close()
        self._workers.append(_Worker(process, connection))
        return self._workers[-1]

    def _remove(self, worker: _Worker[Job]) -> None:
        worker.process.join(LAST_WAIT_S)
        worker.connection.close()
        self._workers.remove(worker)


def _work(connection: Connection, parent_pid: int, do: Callable[[Job], Answer]) -> None:
    """Run a process of the pool, until its parent's end of the pipe is closed. Only the parent handles Ctrl-C."""
    die_with_parent(parent_pid, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError):
        while True:
            connection.send(do(connection.recv()))


def run_isolated(work: Callable[[], Answer], limit_s: float) -> Answer | Death:
    """Do the work in a copy of this process, which ends with everything that it has begun, threads too. After `limit_s`
    it is killed: a limit inside it has no effect while a library blocks the interpreter. For processes of a pool, which
    have no other threads: a copy has only the thread that makes it, and locks of another would stay locked."""
    parent_pid, memory = os.getpid(), os.memfd_create("answer")
    pid = os.fork()
    if pid == 0:
        _work_and_end(work, memory, parent_pid)
    process, is_over_limit = os.pidfd_open(pid), False
    try:
        is_over_limit = not wait([process], limit_s)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(process)
        exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answer = os.pread(memory, os.fstat(memory).st_size, 0)
        os.close(memory)
    if exit_code or not answer:
        return Death(exit_code, limit_s if is_over_limit else None)
    return cast("Answer", pickle.loads(answer))


def _work_and_end(work: Callable[[], object], memory: int, parent_pid: int) -> NoReturn:
    """Work and end without this process's exit handlers, which are not the copy's to run."""
    try:
        die_with_parent(parent_pid, signal.SIGKILL)
        with open(memory, "wb") as file:
            pickle.dump(work(), file)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the exit code reports it
        traceback.print_exc()
    finally:
        os._exit(1)
