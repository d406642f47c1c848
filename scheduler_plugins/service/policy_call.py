"""A policy's call in a scheduling round: its input, and its decision or the reason why there is none.

A decision that no driver may carry out (refusal.py) is a failure of the policy, and so is an unasked change. Whatever a
policy raises is a result.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler_plugins.model import LONGEST_ROUND_S, Decision, Memory, Observation, Policy, Topology
from scheduler_plugins.service.messages import Request
from scheduler_plugins.service.refusal import refusal


@dataclass(frozen=True)
class Round:
    """A scheduling round that has begun. `decision`: set if it is known without asking the policy."""

    started: float
    configured: int
    request: Request
    observation: Observation
    policy: Policy
    memory: Memory
    decision: Decision | None = None
    withdrawn: str | None = None  # the decision whose answer did not reach Nimbus


@dataclass(frozen=True)
class PolicyFailure:
    """A policy's failure to decide. `final`: it is not asked again in this run."""

    why: str
    final: bool = False


@dataclass(frozen=True)
class Postponement:
    """The reason why a round does not count: the policy could not answer, through no fault of its own."""

    why: str


Outcome = Decision | PolicyFailure | Postponement


def ask_policy(round: Round) -> Decision | PolicyFailure:
    """Ask the policy; touches nothing else, so that other calls may run beside it."""
    if round.decision is not None:
        return round.decision
    try:
        decision: Any = round.policy(round.observation, round.memory)
    except Exception as error:  # noqa: BLE001 - whatever a policy raises is a result about the policy
        return PolicyFailure(f"{type(error).__name__}: {error}")
    try:
        if not isinstance(decision, Decision):
            return PolicyFailure(f"its decision is no Decision: {decision!r:.200}")
        reason = refusal(round.observation, decision)
        why = reason.message if reason else _unasked_change(round.observation, decision)
    except Exception as error:  # noqa: BLE001 - and so is whatever it puts into its decision
        return PolicyFailure(f"its decision is not as the contract has it: {type(error).__name__}: {error}")
    if why:
        return PolicyFailure(f"its decision is refused: {why}")
    try:
        json.dumps(decision.memory)
    except (TypeError, ValueError) as error:
        return PolicyFailure(f"its memory is no JSON data: {error}")
    return decision


def _unasked_change(observation: Observation, decision: Decision) -> str:
    """Return the policy's change without an event or permission to act by itself; empty: none. It would affect one
    variant before the first event, and its baseline not."""
    rest_s: Any = decision.rest_s  # a policy's value may be anything
    is_number = isinstance(rest_s, int | float) and not isinstance(rest_s, bool)
    if not (is_number and 0 <= rest_s <= LONGEST_ROUND_S):
        return f"rest_s is {decision.rest_s!r}; allowed are 0 to {LONGEST_ROUND_S:g}"
    if decision.release and observation.event is None and not observation.may_act:
        return f"it releases {', '.join(decision.release)} and nobody asked for that"
    if decision.acquire and not observation.may_act:
        return f"it acquires {decision.acquire} machines and may not act by itself"
    if observation.event is not None or observation.may_act:
        return ""
    names = [topology.name for topology in observation.topologies if topology.placement and _moves(topology, decision)]
    if names:
        return f"it changes {', '.join(names)} and nobody asked for that"
    return ""


def _moves(topology: Topology, decision: Decision) -> bool:
    """Return whether the decision changes running parts of the topology, beyond giving a slot to tasks without one."""
    slots = decision.placement.get(topology.topology_id, {})
    moves = any(topology.placement.get(task, slot) != slot for task, slot in slots.items())
    return moves or bool(decision.executors.get(topology.topology_id)) or topology.topology_id in decision.rebalance


log = logging.getLogger(__name__)
DECIDE_S = 1.5  # the bridge waits 2 s for an answer, and falls back without one
HANG_S = 8.0  # the harness waits 15 s for an answer, and this process needs some to begin anew
HANG_FILE = "policy_hang.log"
ASKED = re.compile(r'policy_call\.py", line \d+ in ask_policy$')  # of a traceback, where a policy is asked


def waited_for_cpu_s(thread: threading.Thread) -> float:
    """Return how long the kernel has kept a thread, and its processes (METIS'), from a CPU; 0 if unknown."""
    task, processes, waited_ns = Path(f"/proc/self/task/{thread.native_id}"), "", 0
    with suppress(OSError):
        processes = (task / "children").read_text(encoding="ascii")
    for path in (task, *(Path("/proc", process) for process in processes.split())):
        with suppress(OSError, ValueError, IndexError):
            waited_ns += int((path / "schedstat").read_text(encoding="ascii").split()[1])
    return waited_ns / 1e9


@dataclass
class TimedDecisions:
    """Calls of policies in separate threads, each for at most `limit_s`. A slower one continues without being waited
    for.

    A policy's time is computing or sleeping: on a busy box it may not have had its `limit_s` by then. That round is
    held, and so are the next ones until it has answered (too late to count) or has had its time.
    """

    limit_s: float = DECIDE_S
    late: Callable[[Round, str], None] = lambda _round, _why: None
    waited_s: Callable[[threading.Thread], float] = waited_for_cpu_s
    watch: AbstractContextManager[object] = field(default_factory=nullcontext)
    _unheard: dict[threading.Thread, float] = field(default_factory=dict)  # since when (monotonic)
    _held: threading.Thread | None = None  # not waited for, and still within its time

    def decide(self, round: Round) -> Outcome:
        if self._held is not None and self._held.is_alive():
            return self._overrun(self._held)
        self._held = None
        answers: queue.SimpleQueue[Decision | PolicyFailure] = queue.SimpleQueue()
        begin = time.monotonic()

        def work() -> None:
            with self.watch:
                answers.put(ask_policy(round))
            if threading.current_thread() in self._unheard:
                self.late(round, f"its decide took {time.monotonic() - begin:.1f} s; allowed: {self.limit_s:g} s")

        thread = threading.Thread(target=work, name="decide", daemon=True)
        thread.start()
        try:
            return answers.get(timeout=self.limit_s)
        except queue.Empty:
            self._unheard[thread] = begin
            return self._overrun(thread)

    def _overrun(self, thread: threading.Thread) -> PolicyFailure | Postponement:
        """Return the result of a slow call. A box that is not busy takes away at most a tenth of its limit."""
        seconds, waited_s = time.monotonic() - self._unheard[thread], self.waited_s(thread)
        self._held = thread
        if seconds - waited_s < 0.9 * self.limit_s:
            had = f"decide had {seconds - waited_s:.1f} of {seconds:.1f} s, its thread waited for a CPU else"
            return Postponement(f"the box is busy: {had}; allowed: {self.limit_s:g} s")
        self._held = None
        frame = sys._current_frames().get(thread.ident or 0)
        at = f"; it is at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        waited = f", {waited_s:.1f} s of them without a CPU" if waited_s >= 0.1 else ""
        why = f"its decide has not answered after {seconds:.1f} s{waited}; allowed: {self.limit_s:g} s{at}"
        return PolicyFailure(why, final=True)

    def busy(self) -> bool:
        """Return whether a policy still computes an answer that nobody waits for."""
        return any(thread.is_alive() for thread in self._unheard)


class HangWatch:
    """A watch that ends this process where a policy's call has blocked Python for `limit_s`, so that nobody is
    answered.

    `file` then has the run's id, and below it the position of each thread, for the next process (on a master
    supervisord starts it). In use while a policy decides. One that computes in Python, however long, does not trigger
    it.
    """

    def __init__(self, file: Path, limit_s: float) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._file = os.fdopen(os.open(file, flags, 0o644), "rb+", buffering=0)
        self.hang = hang_of(self._file.read().decode(errors="replace"))
        self._limit_s, self._deciding, self._lock = limit_s, 0, threading.Lock()
        self._thread: threading.Thread | None = None  # that puts it off

    def begin_run(self, run_id: str) -> None:
        self.hang = None
        self._file.truncate(0)
        self._file.write(f"{run_id}\n".encode())

    def __enter__(self) -> None:
        with self._lock:
            self._deciding += 1
            if self._begin_thread():
                self._arm()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._deciding -= 1
            if not self._deciding:
                faulthandler.cancel_dump_traceback_later()

    def _begin_thread(self) -> bool:
        """Return whether a thread defers the alarm; start one if there is none. If the box has no thread left a policy
        decides unwatched: an undeferred alarm would end a process in which nothing hangs."""
        if self._thread is not None and self._thread.is_alive():  # a copy of a process has none of its threads
            return True
        thread = threading.Thread(target=self._put_off, name="hang watch", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("a policy decides without a watch on hangs: %s", error)
            return False
        self._thread = thread
        return True

    def _put_off(self) -> None:
        while True:
            time.sleep(self._limit_s / 8)
            with self._lock:
                if not self._deciding:
                    self._thread = None
                    return
                self._arm()

    def _arm(self) -> None:
        """Arm the alarm, which is in C and needs no lock of Python."""
        faulthandler.dump_traceback_later(self._limit_s, exit=True, file=self._file)


def hang_of(text: str) -> dict[str, str] | None:
    """Return the run of a HangWatch's file, and where its policy was; None where no policy hung."""
    run_id, _, dump = text.partition("\n")
    for thread in dump.split("\n\n"):
        frames = [line.strip().removeprefix("File ") for line in thread.splitlines() if line.startswith("  File ")]
        if any(map(ASKED.search, frames)):
            return {"run_id": run_id, "why": f"its decide hung in one call and kept Python from all else: {frames[0]}"}
    return None
