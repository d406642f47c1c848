"""How machines join and leave while a run goes on: booted, joined, drained, collected, given back; because an event of
the plan says so, or because the policy asks for it in a hold.

A request of the policy is carried out where the run waits, one at a time, while the policy goes on deciding. That there
are no machines, that one does not boot or that the budget does not cover it is news for the policy; what goes wrong in
the cluster itself ends the run as everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from barograph.errors import BudgetSpent, MachineLost, RunBroken, blame_of, message_of
from barograph.machines.series_lease import NoMachines
from barograph.plan.durations import LONGEST_CLOSING_S, longest_run_s
from barograph.plan.events import names_after
from barograph.plan.events.kind import DRAIN_S, REGISTER_S
from barograph.policy_service import ServiceRefused
from barograph.run import clocks
from barograph.run.collection import collect, return_booted
from barograph.run.context import RunContext
from barograph.run.monitor import RESTART_PATIENCE, Patience
from scheduler_plugins.service.run_snapshot import PolicyRequest, RunSnapshot

Answer = TypeVar("Answer")


def boot(run: RunContext, names: Sequence[str], **about: Any) -> None:
    """`about`: further facts for the lines of events.jsonl."""
    request_s = run.now()
    run.record.event("machines_requested", t=request_s, machines=list(names), **about)
    boots_s = run.context.cluster.grow(names)
    run.machines.boot(names)
    clocks.note_joined(run, names)
    for name in names:
        boot_s = boots_s[name]
        # Storm was put on it meanwhile: the event is when it answered.
        answer_s = None if boot_s is None else request_s + boot_s
        run.record.event("machine_booted", t=answer_s, machine=name, boot_s=boot_s, **about)


def join(run: RunContext, machines: Sequence[str], **about: Any) -> None:
    run.context.cluster.join(machines)
    run.join(machines)
    wait_until_registered(run, machines)
    run.record.event("machines_joined", machines=list(machines), **about)


def drain(run: RunContext, machines: Sequence[str]) -> None:
    """They leave once nothing is on them, and their files are collected: in every run alike, else the last run, which
    gives machines back, would be disturbed by more than the others."""
    names = ", ".join(machines)
    _wait_until_placed(run, f"not every task found a place before {names} left")
    run.context.cluster.leave(machines)
    run.machines.leave(machines)
    _wait_until_placed(run, f"not every task had a place after {names} had left")
    collect(run, machines)


def _wait_until_placed(run: RunContext, what: str) -> None:
    def placed(state: RunSnapshot) -> bool | None:
        return state.all_placed() or None

    run.monitor.wait_for(placed, limit_s=DRAIN_S, what=what, patience=RESTART_PATIENCE)


def wait_until_registered(run: RunContext, machines: Sequence[str]) -> None:
    def known(state: RunSnapshot) -> bool | None:
        return True if set(machines) <= set(state.machines) else None

    late = f"{', '.join(machines)} did not register with Nimbus within {REGISTER_S:g} s; see the supervisor's log"
    patience = replace(RESTART_PATIENCE, absence_s=REGISTER_S + 1)
    wait_in_time(run, known, REGISTER_S, patience, lambda: MachineLost(late))


def wait_in_time(
    run: RunContext, done: Callable[[RunSnapshot], bool | None], limit_s: float, patience: Patience,
    late: Callable[[], Exception],
) -> None:  # fmt: skip
    """Wait until it is done; `late` says what it means that nothing was wrong and only the time ran out."""
    try:
        run.monitor.wait_for(done, limit_s=limit_s, what="", patience=patience)
    except RunBroken as error:
        if run.monitor.symptom == "time":
            raise late() from error
        raise


def wait_for(run: RunContext, question: Callable[[RunSnapshot], Answer | None], patience: Patience) -> Answer:
    """The first answer that is not None, however long it takes; until then the policy has what it asks for."""

    def either(state: RunSnapshot) -> tuple[Answer | None, PolicyRequest | None] | None:
        answer = question(state)
        ready = next((each for each in state.machine_requests if each.ready), None)
        return None if answer is None and ready is None else (answer, ready)

    while True:
        answer, request = run.monitor.wait_for(either, limit_s=None, what="", patience=patience)
        if answer is not None:
            return answer
        assert request is not None, "else there is an answer"
        _carry_out(run, request)


def close(run: RunContext, why: str) -> None:
    """The hold is over: the policy can ask for nothing any more, what is under way is refused, and what it asked for in
    this hold is counted on record."""
    if run.context.experiment.machines.limits is None or not run.hold_id:
        return
    service = run.context.service
    if run.decide_every_s is not None:
        service.decide_every(None)
        run.decide_every_s = None
    open_ = service.state().open_request()
    if open_ is not None:
        _end_request(run, open_, "refused", why=why)
    state = service.state()
    run.note(state)
    counts = Counter(done=0, refused=0, failed=0)
    for each in state.machine_requests:
        if each.request_id not in run.closed_requests:
            counts[each.outcome] += each.times
            run.closed_requests.add(each.request_id)
    run.record.event("requests_closed", event_id=run.hold_id, **counts)
    run.hold_id = ""


def close_after_failure(run: RunContext) -> None:
    """Trouble in here must not hide what broke the run."""
    with suppress(Exception):
        close(run, "the run broke")


class _RequestFailure(Exception):
    """The policy does not get what it asked for; `outcome`: refused or failed."""

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


def _carry_out(run: RunContext, request: PolicyRequest) -> None:
    about = {"event_id": run.hold_id, "request_id": request.request_id}
    with _shown(run, "more_machines" if request.kind == "acquire" else "fewer_machines"):
        try:
            if request.kind == "acquire":
                machines = _acquire(run, request.number, about)
            else:
                machines = _release(run, request.machines, about)
        except _RequestFailure as error:
            _end_request(run, request, error.outcome, why=str(error))
        else:
            _end_request(run, request, "done", machines)


def _end_request(
    run: RunContext, request: PolicyRequest, outcome: str, machines: Sequence[str] = (), why: str = ""
) -> None:
    """A service that began anew meanwhile knows no request; its state says why it did, and that is what is raised."""
    try:
        run.context.service.end_machine_request(request.request_id, outcome, machines, why)
    except ServiceRefused:
        run.note(run.context.service.state())
        raise


@contextmanager
def _shown(run: RunContext, name: str) -> Iterator[None]:
    """For who looks on; the run is in the same phase still."""
    about = {"run_id": run.plan.run_id, "expected_s": 30.0}
    run.context.listener.tell("phase", phase=name, **about)
    yield
    run.context.listener.tell("phase", phase=run.record.document["phases"][-1]["name"], **about)


def _acquire(run: RunContext, number: int, about: dict[str, Any]) -> tuple[str, ...]:
    """Machines that are up and idle first; others boot, where the testbed has them boot."""
    _require_room(run, number)
    idle = _idle(run)[:number]
    booted = _names_to_boot(run, number - len(idle))
    if booted:
        _boot_for_policy(run, booted, about)
    join(run, (*idle, *booted), **about)
    return (*idle, *booted)


def _release(run: RunContext, machines: tuple[str, ...], about: dict[str, Any]) -> tuple[str, ...]:
    """A machine that booted in this run costs money until it is given back; others stay idle, and may join again."""
    if gone := [name for name in machines if name not in run.machines.present]:
        raise _RequestFailure("refused", f"{', '.join(gone)} is away by another event of the plan")
    drain(run, machines)
    return_booted(run, [name for name in machines if name in run.machines.extra])
    given_back = run.machines.away.issuperset(machines)
    run.record.event("machines_left", machines=list(machines), given_back=given_back, **about)
    return machines


def _require_room(run: RunContext, number: int) -> None:
    """Those that crashed, or are cut off, are in the cluster still, though the policy does not see them."""
    limits = run.context.experiment.machines.limits
    hidden = sorted(run.machines.down | run.machines.hidden)
    there = len({*run.machines.present, *hidden})
    if limits is not None and there + number > limits[1]:
        also = f" with {', '.join(hidden)}, which the plan has taken away for a while" if hidden else ""
        allowed = f"allowed: at most {max(0, limits[1] - there)}"
        raise _RequestFailure(
            "refused", f"acquire is {number}; {allowed}, for machines.max is {limits[1]} and {there} are there{also}"
        )


def _idle(run: RunContext) -> tuple[str, ...]:
    """Up, and not in the cluster."""
    machines = run.machines
    known = dict.fromkeys((*run.context.experiment.acquired(), *sorted(machines.extra, key=_number)))
    taken = {*machines.present, *machines.down, *machines.dead, *machines.hidden, *machines.away, *machines.unfit}
    silent = set(run.context.cluster.silent_machines())
    return tuple(name for name in known if name not in taken | silent)


def _names_to_boot(run: RunContext, number: int) -> tuple[str, ...]:
    """A name is had once in a run: the files of its machine are on record under it."""
    if number <= 0:
        return ()
    if run.context.experiment.testbed.joining != "booted":
        raise _RequestFailure(
            "failed", f"{number} more would have to be up and idle: the others are lost, or given back"
        )
    unused = sorted(run.machines.later, key=_number)[:number]
    known = (*run.context.experiment.workers(), *run.machines.extra)
    return (*unused, *names_after(known, number - len(unused)))


def _number(name: str) -> int:
    return int(name[1:])


def _boot_for_policy(run: RunContext, names: Sequence[str], about: dict[str, Any]) -> None:
    """Raises _RequestFailure where the budget does not cover them, or they did not come: then none of them is there, as
    after an interrupt."""
    elapsed_s = run.now() - float(run.record.document["started_s"])
    rest_s = max(0.0, longest_run_s(run.context.experiment) + LONGEST_CLOSING_S - elapsed_s)
    try:
        run.context.require_covered(names, rest_s)
    except BudgetSpent as error:
        raise _RequestFailure("refused", message_of(error)) from error
    try:
        boot(run, names, **about)
    except BaseException as error:
        run.machines.unfit.update(names)
        return_booted(run, [name for name in names if name in run.machines.extra])
        if not isinstance(error, Exception) or not _is_news(error):
            raise
        raise _RequestFailure("failed", message_of(error)) from error
    types = run.context.cluster.facts().machines
    described = {name: dict(types[name]) for name in names}
    run.record.add({"machines": {**run.record.document["machines"], **described}})


def _is_news(error: Exception) -> bool:
    """Whether all is as before: there was no machine, or one did not come up."""
    is_ours = isinstance(error, OSError | NoMachines | MachineLost)
    return not is_ours and blame_of(error) in ("capacity", "infrastructure")
