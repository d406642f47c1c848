"""Add and remove machines during a run: boot, join, drain, collect, give back; for an event of the plan, or for a
request of the policy in a hold.

A request of the policy is carried out where the run waits, one at a time, while the policy goes on deciding. Missing
machines, a failed boot or an insufficient budget are reported to the policy; a failure in the cluster itself ends the
run as everywhere.
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
from barograph.plan.events.kind import DRAIN_S, REGISTER_S
from barograph.plan.events.order import names_after
from barograph.policy_service import ServiceRefused
from barograph.run import clocks
from barograph.run.collection import collect, return_booted
from barograph.run.context import RunContext
from barograph.run.monitor import RESTART_PATIENCE, Patience
from scheduler_plugins.service.run_snapshot import PolicyRequest, RunSnapshot

Answer = TypeVar("Answer")


def boot(run: RunContext, names: Sequence[str], **about: Any) -> None:
    """Boot machines. `about`: further facts for the lines of events.jsonl."""
    request_s = run.now()
    run.record.event("machines_requested", t=request_s, machines=list(names), **about)
    boots_s = run.context.cluster.grow(names)
    run.machines.later.difference_update(names)
    run.machines.extra.update(names)
    clocks.note_joined(run, names)
    for name in names:
        boot_s = boots_s[name]
        # Storm was installed on it meanwhile: the event's time is its first answer.
        answer_s = None if boot_s is None else request_s + boot_s
        run.record.event("machine_booted", t=answer_s, machine=name, boot_s=boot_s, **about)


def join(run: RunContext, machines: Sequence[str], **about: Any) -> None:
    run.context.cluster.join(machines)
    run.join(machines)
    wait_until_registered(run, machines)
    run.record.event("machines_joined", machines=list(machines), **about)


def drain(run: RunContext, machines: Sequence[str]) -> None:
    """Let machines leave once nothing is on them, and collect their files: in every run alike, otherwise the last run,
    which gives machines back, would be disturbed by more than the others."""
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

    message = f"{', '.join(machines)} did not register with Nimbus within {REGISTER_S:g} s; see the supervisor's log"
    patience = replace(RESTART_PATIENCE, absence_s=REGISTER_S + 1)
    wait_in_time(run, known, REGISTER_S, patience, lambda: MachineLost(message))


def wait_in_time(
    run: RunContext, done: Callable[[RunSnapshot], bool | None], limit_s: float, patience: Patience,
    late: Callable[[], Exception],
) -> None:  # fmt: skip
    """Wait until it is done; `late` returns the error for a wait without trouble whose time ran out."""
    try:
        run.monitor.wait_for(done, limit_s=limit_s, what="", patience=patience)
    except RunBroken as error:
        if run.monitor.symptom == "time":
            raise late() from error
        raise


def wait_for(run: RunContext, question: Callable[[RunSnapshot], Answer | None], patience: Patience) -> Answer:
    """Return the first answer that is not None, however long it takes; until then the policy's requests are served."""

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
    """Close the hold: the policy can request nothing any more, a request in progress is refused, and its requests in
    this hold are counted on record."""
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
    """Close the hold of a broken run; errors in here must not hide what broke it."""
    with suppress(Exception):
        close(run, "the run broke")


class _RequestFailure(Exception):
    """The policy's request is not met; `outcome`: refused or failed."""

    def __init__(self, outcome: str, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


def _carry_out(run: RunContext, request: PolicyRequest) -> None:
    ids = {"event_id": run.hold_id, "request_id": request.request_id}
    with _shown(run, "more_machines" if request.kind == "acquire" else "fewer_machines"):
        try:
            if request.kind == "acquire":
                machines = _acquire(run, request.number, ids)
            else:
                machines = _release(run, request.machines, ids)
        except _RequestFailure as error:
            _end_request(run, request, error.outcome, why=str(error))
        else:
            _end_request(run, request, "done", machines)


def _end_request(
    run: RunContext, request: PolicyRequest, outcome: str, machines: Sequence[str] = (), why: str = ""
) -> None:
    """Report the end of a request. A restarted service knows no request; its state's reason is raised instead."""
    try:
        run.context.service.end_machine_request(request.request_id, outcome, machines, why)
    except ServiceRefused:
        run.note(run.context.service.state())
        raise


@contextmanager
def _shown(run: RunContext, name: str) -> Iterator[None]:
    """Show the phase to observers; the run's own phase does not change."""
    facts = {"run_id": run.plan.run_id, "expected_s": 30.0}
    run.context.listener.tell("phase", phase=name, **facts)
    yield
    run.context.listener.tell("phase", phase=run.record.document["phases"][-1]["name"], **facts)


def _acquire(run: RunContext, number: int, about: dict[str, Any]) -> tuple[str, ...]:
    """Add idle machines first; others boot, where the testbed boots them."""
    limits = run.context.experiment.machines.limits
    absent = sorted(run.machines.down | run.machines.hidden)  # they count, though the policy does not see them
    total = len({*run.machines.present, *absent})
    if limits is not None and total + number > limits[1]:
        also = f" with {', '.join(absent)}, which the plan has taken away for a while" if absent else ""
        allowed = f"allowed: at most {max(0, limits[1] - total)}, for machines.max is {limits[1]}"
        raise _RequestFailure("refused", f"acquire is {number}; {allowed} and {total} are there{also}")
    idle = _idle(run)[:number]
    booted = _names_to_boot(run, number - len(idle))
    if booted:
        _boot_for_policy(run, booted, about)
    join(run, (*idle, *booted), **about)
    return (*idle, *booted)


def _release(run: RunContext, machines: tuple[str, ...], about: dict[str, Any]) -> tuple[str, ...]:
    """Release machines. One booted in this run is given back, because it costs money; others stay idle."""
    if missing := [name for name in machines if name not in run.machines.present]:
        raise _RequestFailure("refused", f"{', '.join(missing)} is away by another event of the plan")
    drain(run, machines)
    return_booted(run, [name for name in machines if name in run.machines.extra])
    given_back = run.machines.away.issuperset(machines)
    run.record.event("machines_left", machines=list(machines), given_back=given_back, **about)
    return machines


def _idle(run: RunContext) -> tuple[str, ...]:
    """Return machines that are up, and not in the cluster."""
    machines = run.machines
    names = dict.fromkeys((*run.context.experiment.acquired(), *sorted(machines.extra, key=lambda name: int(name[1:]))))
    unavailable = {*machines.present, *machines.down, *machines.dead, *machines.hidden, *machines.away, *machines.unfit}
    silent = set(run.context.cluster.silent_machines())
    return tuple(name for name in names if name not in unavailable | silent)


def _names_to_boot(run: RunContext, number: int) -> tuple[str, ...]:
    """Return new names: a name is used once in a run, because its machine's files are on record under it."""
    if number <= 0:
        return ()
    if run.context.experiment.testbed.joining != "booted":
        raise _RequestFailure(
            "failed", f"{number} more would have to be up and idle: the others are lost, or given back"
        )
    planned_names = sorted(run.machines.later, key=lambda name: int(name[1:]))[:number]
    names = (*run.context.experiment.workers(), *run.machines.extra)
    return (*planned_names, *names_after(names, number - len(planned_names)))


def _boot_for_policy(run: RunContext, names: Sequence[str], about: dict[str, Any]) -> None:
    """Boot machines. Raises _RequestFailure where the budget does not cover them, or they did not come: then none of
    them exists, as after an interrupt."""
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
    """Return True if nothing changed: there was no machine, or one did not come up."""
    is_ours = isinstance(error, OSError | NoMachines | MachineLost)
    return not is_ours and blame_of(error) in ("capacity", "infrastructure")
