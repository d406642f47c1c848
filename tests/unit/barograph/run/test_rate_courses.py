"""Courses of rates over a fake cluster: what the policy service is sent, and when; and what the record says."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import ExperimentError, Interrupted, RunBroken, RunInvalid
from barograph.plan.events import courses
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.rates import RateChange, Sine, Trace
from barograph.plan.events.scaling import ScaleOut
from barograph.policy_service import ServiceRefused, ServiceUnreachable
from barograph.run import rate_courses
from barograph.run.rate_courses import AHEAD_S, LEAD_S, RateCourses, RunningCourse
from barograph.series.run_record import MonotonicClock, RunRecord
from barograph.series.series import open_series, read_series
from scheduler_plugins.service.emission_records import EVERYWHERE
from tests.support.fakes.storm import BOOT_S, FakeStorm
from tests.unit.barograph.conftest import Heard
from tests.unit.barograph.run.conftest import SetUp, of

RAMP = RateChange("steady", 2.0, over_s=40.0)
SINE = Sine(at="steady", mean=1.0, amplitude=0.5, period_s=20.0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the service is sent, with the time of it."""
    sent: list[dict[str, Any]] = []
    real = FakeStorm.input_rate_changes

    def keeping(self: FakeStorm, since_s: float, changes: Any, topology: str | None, source: str | None) -> None:
        real(self, since_s, changes, topology, source)
        facts = {"since_s": since_s, "changes": list(changes), "topology": topology, "source": source}
        sent.append({"t": self.clock.now(), **facts})

    monkeypatch.setattr(FakeStorm, "input_rate_changes", keeping)
    return sent


def changes_of(calls: list[dict[str, Any]], source: str | None = None) -> list[tuple[float, float]]:
    return [change for call in calls if call["source"] == source for change in call["changes"]]


def test_a_ramp_is_sent_ahead_of_its_time(stage: SetUp, calls: list[dict[str, Any]]) -> None:
    here = stage(RAMP, repetitions=1)
    told = here.go()
    (begun,), (ended,) = of(told, "rate_changed"), of(told, "course_ended")
    facts = {"factor": 2.0, "over_s": 40.0, "topology": None, "source": None}
    assert begun["event_id"] == "e1" and begun | facts == begun and begun["t"] == int(begun["t"])
    assert (ended["t"], ended["reason"]) == (begun["t"] + 40, "it is over")
    wanted = [(begun["t"] + t, factor) for t, factor in courses.ramp(1.0, 2.0, 40.0)]
    assert changes_of(calls) == wanted
    assert all(0 < t - call["t"] <= AHEAD_S for call in calls for t, _ in call["changes"])
    assert calls[0]["t"] <= begun["t"] - LEAD_S
    assert all(earlier["changes"][-1][0] > later["t"] + 15 for earlier, later in pairwise(calls)), "never runs out"


def test_what_was_due_is_the_integral_of_the_course(stage: SetUp) -> None:
    from analysis.record import worker_files

    here = stage(SINE, repetitions=1)
    (begun,) = of(here.go(), "event_performed")
    folder = here.series.run_folder(here.run_id) / "workers"
    lines = [line for path in folder.glob("*.avro") for line in worker_files.read(path)]
    due = [line["spouts"]["due"][0] for line in lines if "spouts" in line and begun["t"] < line["t"] <= begun["t"] + 40]
    assert len(due) == 40
    steps = courses.sine(1.0, 0.5, 20.0, None, 0.0)
    assert all(abs(n - 200 * factor) <= 1 for n, (_, factor) in zip(due, steps, strict=False))


def test_it_goes_on_while_something_else_happens(stage: SetUp, calls: list[dict[str, Any]]) -> None:
    sine = replace(SINE, period_s=17.3)  # no two steps are alike
    told = stage(sine, ScaleOut(30.0, 1), RateChange("steady", 3.0, source="other"), repetitions=1).go()
    begun, *_ = of(told, "event_performed")
    of_all = changes_of(calls)
    assert [t - begun["t"] for t, _ in of_all] == list(range(len(of_all))), "each second, also beside other courses"
    assert of_all[-1][0] > of(told, "topology_killed")[0]["t"] - AHEAD_S
    assert not of(told, "course_interrupted") and not of(told, "course_ended")


def test_it_goes_on_while_a_machine_boots(stage: SetUp, calls: list[dict[str, Any]], monkeypatch: Any) -> None:
    """The run waits 40 s for it and looks at nothing; what was sent before that is used up after 30."""
    join = FakeStorm.join

    def slow(self: FakeStorm, machines: Any) -> None:
        self.clock.sleep(BOOT_S)
        join(self, machines)

    monkeypatch.setattr(FakeStorm, "join", slow)
    told = stage(replace(SINE, period_s=17.3), ScaleOut(30.0, 1), repetitions=1).go()
    begun, *_ = of(told, "event_performed")
    of_all = changes_of(calls)
    assert [t - begun["t"] for t, _ in of_all] == list(range(len(of_all))), "each second"
    assert of_all[-1][0] > of(told, "topology_killed")[0]["t"]
    assert all(t > call["t"] for call in calls for t, _ in call["changes"]), "and each ahead of its time"
    assert not of(told, "course_interrupted")


def stand_still(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The box of the harness does, for 40 s in which nothing of it runs, in the first joins."""
    join, left = FakeStorm.join, [None] * times

    def late(self: FakeStorm, machines: Any) -> None:
        if left:
            left.pop()
            self.clock.time_s += BOOT_S
        join(self, machines)

    monkeypatch.setattr(FakeStorm, "join", late)


def test_a_harness_that_is_away_too_long_says_so_and_goes_on_and_the_run_is_none(
    stage: SetUp, calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_still(monkeypatch, times=2)
    here = stage(SINE, ScaleOut(30.0, 1), repetitions=1)
    run = here.fails(RunInvalid, r"invalid: the course of e1 stood still for \d\d s: the harness was late")
    assert (run["status"], run["failure"]) == ("invalid", None)
    told = here.events()
    begun, (stopped,) = of(told, "event_performed")[0], of(told, "course_interrupted")
    assert stopped["event_id"] == "e1" and 0 < stopped["until_s"] - stopped["from_s"] < BOOT_S
    steps = dict(zip(range(1000), (factor for _, factor in courses.sine(1.0, 0.5, 20.0, None, 0.0)), strict=False))
    mine = [call for call in calls if call["since_s"] > begun["t"] - 1]
    after = [(t, factor) for t, factor in changes_of(mine) if t >= stopped["until_s"]]
    assert not any(stopped["from_s"] <= t < stopped["until_s"] for t, _ in changes_of(mine))
    assert after[0] == (stopped["until_s"], steps[int(stopped["until_s"] - begun["t"])])
    assert all(factor == steps[round(t - begun["t"])] for t, factor in after[1:])


@pytest.mark.parametrize(
    ("early_s", "late", "waiting"),
    [
        (LEAD_S, None, [(100.0, 2.0), (101.0, 3.0)]),
        (LEAD_S - 0.5, (100.0, 100.5), [(100.5, 2.0), (101.0, 3.0)]),
        (LEAD_S - 1.5, (100.0, 101.5), [(101.5, 3.0)]),
        (0.0, (100.0, 103.0), [(103.0, 3.0)]),
        (-7.0, (100.0, 110.0), [(110.0, 3.0)]),
    ],
)
def test_a_change_is_late_that_workers_may_not_hear_of_before_its_time(
    early_s: float, late: tuple[float, float] | None, waiting: list[tuple[float, float]]
) -> None:
    running = RunningCourse("e1", EVERYWHERE, 100.0, iter([(0.0, 2.0), (1.0, 3.0)]))
    running.advance(130.0)
    assert running.catch_up(100.0 - early_s) == late and running.waiting == waiting


def test_a_run_whose_course_stood_still_is_done_again(stage: SetUp, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_still(monkeypatch, times=1)
    here = stage(SINE, ScaleOut(30.0, 1), repetitions=1)
    told = here.go()
    assert here.document()["attempt"] == 2 and not of(told, "course_interrupted")


def courses_on(tmp_path: Path, service: Any) -> RateCourses:
    """On the box's own clock."""
    return RateCourses(service, RunRecord(tmp_path, MonotonicClock(), Heard()), MonotonicClock())


class Service:
    """Takes what it is sent; `answers`: what the next calls raise, None for nothing."""

    def __init__(self, *answers: Exception | None) -> None:
        self.sent: list[float] = []
        self.answers = list(answers)

    def input_rate_changes(self, _since_s: float, changes: Any, *_key: str | None) -> None:
        if self.answers and (error := self.answers.pop(0)):
            raise error
        self.sent += [t for t, _ in changes]


def steps_for_ever(_before: float) -> Iterator[tuple[float, float]]:
    return ((float(second), 1.0 + second % 2) for second in count())


def send_for(here: RateCourses, seconds: float, error: BaseException | None = None) -> None:
    """In which nobody looks; then the run is interrupted, or breaks."""
    with here.sending():
        here.begin("e1", steps_for_ever, EVERYWHERE)
        time.sleep(seconds)
        if error is not None:
            raise error


def test_it_is_sent_from_a_thread_that_ends_with_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_courses, "REFILL_S", AHEAD_S)  # so that each look sends something
    service = Service()
    here, threads = courses_on(tmp_path, service), threading.active_count()
    with pytest.raises(Interrupted):
        send_for(here, 2.5, Interrupted("asked to stop"))
    sent = len(service.sent)
    assert sent > AHEAD_S - LEAD_S, "more than as it began"
    time.sleep(1.2)
    assert len(service.sent) == sent and threading.active_count() == threads
    assert service.sent == sorted(set(service.sent))


@pytest.mark.parametrize("error", [None, RunBroken("something else")])
def test_what_goes_wrong_in_the_thread_is_raised_by_who_watches_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    monkeypatch.setattr(rate_courses, "REFILL_S", AHEAD_S)
    here = courses_on(tmp_path, Service(None, ServiceRefused("400: no")))
    with pytest.raises(ServiceRefused if error is None else RunBroken):
        send_for(here, 1.5, error)
    with pytest.raises(ServiceRefused, match="400: no"):
        here.raise_failure()


def test_a_service_that_does_not_answer_is_told_at_the_next_look(stage: SetUp, calls: list[dict[str, Any]]) -> None:
    here = stage(RAMP, repetitions=1, input_rate_changes=[None, *[ServiceUnreachable("gone")] * 2])
    (begun,) = of(here.go(), "rate_changed")
    assert changes_of(calls) == [(begun["t"] + t, factor) for t, factor in courses.ramp(1.0, 2.0, 40.0)]


def test_a_refusal_ends_the_run(stage: SetUp) -> None:
    stage(RAMP, repetitions=1, input_rate_changes=[None, ServiceRefused("400: no")]).fails(ServiceRefused)


def test_a_course_takes_anothers_place_and_begins_where_that_was(stage: SetUp, calls: list[dict[str, Any]]) -> None:
    told = stage(RAMP, RateChange(20.0, 0.5, over_s=10.0), RateChange("steady", 1.0), repetitions=1).go()
    first, second, _ = of(told, "rate_changed")
    ended = {event["event_id"]: event for event in of(told, "course_ended")}
    assert (ended["e1"]["t"], ended["e1"]["reason"]) == (second["t"], "e2 takes its place")
    assert ended["e2"]["reason"] == "it is over"
    since = second["t"] - first["t"]
    reached = next(factor for t, factor in courses.ramp(1.0, 2.0, 40.0) if t == since)
    mine = [call for call in calls if call["since_s"] > first["t"]]
    assert changes_of(mine) == [(second["t"] + t, factor) for t, factor in courses.ramp(reached, 0.5, 10.0)]


def test_a_step_ends_every_course(stage: SetUp, calls: list[dict[str, Any]]) -> None:
    told = stage(SINE, RateChange(20.0, 1.5), repetitions=1).go()
    (ended,), (step,) = of(told, "course_ended"), of(told, "rate_changed")
    assert (ended["event_id"], ended["reason"], ended["t"]) == ("e1", "e2 takes its place", step["t"])
    assert "over_s" not in step and max(call["t"] for call in calls) <= step["t"]


def test_a_ramp_of_all_begins_for_each_source_where_it_is(stage: SetUp, calls: list[dict[str, Any]]) -> None:
    told = stage(RateChange("steady", 3.0, source="spout_1"), RateChange(20.0, 1.0, over_s=2.0), repetitions=1).go()
    ramp = of(told, "rate_changed")[1]
    begins = {call["source"]: (call["changes"], call["since_s"]) for call in calls if call["since_s"] > ramp["t"] - 1}
    assert begins[None][0] == [(ramp["t"], 1.0)]
    assert begins["spout_1"][0] == [(ramp["t"], 2.5), (ramp["t"] + 1, 1.5), (ramp["t"] + 2, 1.0)]
    assert begins[None][1] < begins["spout_1"][1], "the narrower one counts"


def trace(folder: Path) -> PlannedEvent:
    (folder / "day.csv").write_text("0,2\n20,0\n40,1\n60,1\n")
    event, wrong = Trace(at="steady", file="day.csv", compression=2.0).read(0, folder)
    assert not wrong
    return event


def test_a_trace_is_the_series_own(stage: SetUp, calls: list[dict[str, Any]], tmp_path: Path) -> None:
    here = stage(trace(tmp_path), repetitions=1)
    (tmp_path / "day.csv").write_text("0,9\n1,9\n")
    (begun,) = of(here.go(), "event_performed")
    assert [(t - begun["t"], factor) for t, factor in changes_of(calls)] == [(0, 2.0), (10, 0.0), (20, 1.0)]
    assert (begun["event"], begun["compression"], begun["file"]) == ("trace", 2.0, str(tmp_path / "day.csv"))
    spec = read_series(here.series.folder).experiment
    assert spec.events[0].sha256 == begun["sha256"]  # type: ignore[attr-defined]  # a trace
    assert (here.series.folder / "traces" / f"{begun['sha256']}.csv").read_text().startswith("0,2")


def test_a_trace_that_has_changed_since_is_refused(stage: SetUp, tmp_path: Path) -> None:
    event = trace(tmp_path)
    here = stage(event, repetitions=1)
    (tmp_path / "day.csv").write_text("0,9\n1,9\n")
    assert open_series(here.series.experiment, now_s=1_699_999_100.0).folder == here.series.folder, "it has its copy"
    with pytest.raises(ExperimentError, match=r"day\.csv has changed; the request needs the file whose SHA-256 begins"):
        open_series(here.series.experiment, new=True)
    next((here.series.folder / "traces").iterdir()).write_text("0,9\n1,9\n")
    here.fails(ExperimentError, r"csv has changed; it is the trace of this series")


def test_a_copy_that_is_whole_stays_and_one_that_a_full_disk_cut_short_is_made_again(
    stage: SetUp, tmp_path: Path
) -> None:
    here = stage(trace(tmp_path), repetitions=1)
    (copy,) = (here.series.folder / "traces").iterdir()
    content = copy.read_bytes()
    os.utime(copy, (0, 0))
    open_series(here.series.experiment, now_s=1_699_999_100.0)
    assert copy.stat().st_mtime == 0, "it is not written again: there may be no room for it"
    copy.write_bytes(content[:3])
    assert open_series(here.series.experiment, now_s=1_699_999_200.0).folder == here.series.folder
    assert copy.read_bytes() == content and list(copy.parent.iterdir()) == [copy]


@pytest.mark.parametrize("seconds", [lambda _n: 0.0, lambda n: -1.0 * n, lambda _n: float("nan"), lambda n: 1 - 0.5**n])
def test_a_course_in_which_hardly_any_time_passes_ends(seconds: Callable[[int], float], tmp_path: Path) -> None:
    here, steps = courses_on(tmp_path, Service()), ((seconds(n), 1.0 + n % 2) for n in range(1000))
    with pytest.raises(ExperimentError, match=r"the course of e1 has \d+ steps within .* s and may never end; allowed"):
        here.begin("e1", lambda _before: steps, EVERYWHERE)
