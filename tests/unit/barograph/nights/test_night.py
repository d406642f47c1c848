"""Whole nights on the fake testbed: what goes on record, whose failure it was, what is told, and the exit code."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from barograph.cli import nightly
from barograph.errors import EXIT_CODES, ConfigurationError, ExperimentError, MachineLost, RunBroken, RunsFailed
from barograph.nights import findings, night_state, outcome, procedure
from barograph.nights.night_state import NightUnderWay
from barograph.series.interruption import request_stop
from barograph.series.progress import ProgressFile
from barograph.series.series import Series
from tests.support.measured_nights import SUITE, World

LINEAR, STAR = "stela/linear", "stela/star"


def failing(experiment: str, error: BaseException) -> Callable[[Series], None]:
    def before(series: Series) -> None:
        if series.experiment.name == experiment:
            raise error

    return before


def test_a_whole_night(world: World) -> None:
    code, said = world.nightly()
    assert (code, "nightly/try/index.html" in said) == (0, True), said
    (found,) = world.nights()
    facts = [found[key] for key in ("status", "suite", "testbed", "night", "sequence")]
    assert facts == ["complete", "try", "fake", "2025-11-21", 1]
    linear, star = found["experiments"]
    assert [linear["experiment"], star["experiment"]] == [LINEAR, STAR]
    assert set(linear["variants"]) == {"even_rebalance", "stela"} and set(star["variants"]) == {"stela"}
    rest = {"unsteady": None, "error": 0.0, "of_latency": False}
    numbers = {name: events["e1"] for name, events in star["variants"]["stela"].items()}
    assert numbers["throughput_after"] == {"values": [201.0, 202.0], "horizons": []} | rest
    assert numbers["convergence_sp_s"] == {"values": [90.0], "horizons": [90.0]} | rest
    assert [claim["id"] for claim in star["claims"]] == ["S02"]
    assert (world.results / star["series"] / "series.json").is_file() and world.new == [True, True]
    assert not (world.results / "nightly" / "try" / night_state.NIGHT_FILE).exists()
    assert night_state.current_reservation("try", "fake", world.now_s) is None


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (MachineLost("m2 stopped answering"), "infrastructure", EXIT_CODES["infrastructure"]),
        (RunBroken("no tuple reached a sink"), "failed", EXIT_CODES["system_under_test"]),
        (RunsFailed("the testbed is in use", "capacity"), "capacity", EXIT_CODES["capacity"]),
        (ExperimentError("no policy x"), "configuration", EXIT_CODES["configuration"]),
        (ZeroDivisionError("division by zero"), "harness", EXIT_CODES["harness"]),
    ],
)  # fmt: skip
def test_one_failure_is_told_as_whose_it_was_and_stops_nothing(
    world: World, error: Exception, status: str, code: int
) -> None:
    world.before = failing(LINEAR, error)
    found_code, said = world.nightly()
    assert found_code == code and f"{LINEAR}: {status.replace('_', ' ')}: " in said
    (found,) = world.nights()
    linear, star = found["experiments"]
    assert linear["status"] == status and str(error) in linear["reason"] and linear["variants"] == {}
    assert star["status"] == "complete" and star["variants"]
    assert found["status"] == "partial", "whose failure it was is told; the calendar shows that there was one"


def test_the_series_says_more_than_the_process_that_ended(world: World) -> None:
    def before(series: Series) -> None:
        told_by = ProgressFile(series.folder)
        told_by.tell("run_failed", run_id="stela-r1", blame="infrastructure", message="m2 is gone", again=False)
        raise RunsFailed("the DAG's process ended with 4", "harness")

    world.before = before
    world.nightly()
    assert world.nights()[0]["experiments"][0]["reason"] == "stela-r1: m2 is gone"


def test_an_experiment_that_would_pass_the_deadline_is_not_begun(world: World) -> None:
    linear, star = (each.seconds for each in procedure.forecasts(SUITE))
    world.run_s = linear / 4
    code, said = world.nightly(deadline=f"{(linear + star - 60) / 60:.2f}min")
    assert code == 0 and world.opened == [LINEAR]
    found = world.nights()[0]["experiments"][1]
    assert found["status"] == "deadline" and "not begun: it takes about " in found["reason"]
    assert f"{STAR}: not begun" in said


def test_a_second_night_is_refused_and_leaves_no_record(world: World) -> None:
    os.environ["BAROGRAPH_HOLDER_PID"] = str(os.getppid())
    try:
        procedure.open_night(SUITE, world.now_s + 1e5, world.now_s)
    finally:
        del os.environ["BAROGRAPH_HOLDER_PID"]
    with pytest.raises(NightUnderWay) as refused:
        world.nightly()
    assert refused.value.blame == "capacity" and world.nights() == []
    assert night_state.read_night("try") is not None, "the first goes on"


def test_what_a_night_that_died_has_measured_goes_on_record_with_the_next(world: World) -> None:
    dead = procedure.open_night(SUITE, world.now_s + 40_000, world.now_s)
    series = world.prepare(LINEAR, SUITE.changes(SUITE.experiments[0]), new=True, console=None)  # type: ignore[arg-type] # not used
    dead = procedure.begin_entry(dead, series)
    world.carry_out(series, None)  # type: ignore[arg-type] # not used
    world.now_s += 86_400
    world.nightly()
    first, second = world.nights()
    assert [first["id"], first["status"], second["status"]] == [dead.id, "partial", "complete"]
    linear, star = first["experiments"]
    assert linear["status"] == "complete" and linear["variants"]["stela"]["throughput_after"]["e1"]["values"]
    assert star["status"] == "interrupted" and star["reason"] == "not begun: the night ended before"
    assert first["ended_s"] <= first["started_s"] + 40_000


def test_an_interruption_puts_on_record_what_was_measured(world: World) -> None:
    def before(series: Series) -> None:
        if series.experiment.name == STAR:
            request_stop(series.folder)
            os.kill(os.getpid(), signal.SIGINT)

    world.before = before
    code, said = world.nightly()
    assert code == 130 and "interrupted" in said
    (found,) = world.nights()
    assert [each["status"] for each in found["experiments"]] == ["complete", "interrupted"]
    assert found["status"] == "partial" and night_state.current_reservation("try", "fake", world.now_s) is None


def test_an_interruption_of_the_last_analysis_ends_the_night_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that measures takes Ctrl-C for itself and says so by its code; all runs of the series are there."""

    def interrupted(series: Series, console: Console) -> int:
        world.carry_out(series, console)
        return 130

    monkeypatch.setattr(nightly, "carry_out", interrupted)
    code, said = world.nightly()
    assert code == 130 and "interrupted: what was measured goes on record" in said
    assert world.opened == [LINEAR]
    assert [each["status"] for each in world.nights()[0]["experiments"]] == ["complete", "interrupted"]


def test_a_regression_is_an_exit_code_once_it_is_confirmed_and_only_then(world: World) -> None:
    codes = []
    for number in range(16):
        world.throughput = (200.0 if number < 10 else 160.0) + number % 3
        codes.append(world.nightly(experiments=(STAR,))[0])
    assert codes[:10] == [0] * 10 and codes.count(6) == 1, codes
    confirmed = codes.index(6)
    assert confirmed >= 12, "one bad night, or two, are no regression"
    assert set(codes[confirmed + 1 :]) <= {0}, "it is new once"
    message = findings.read_message("try")
    assert "regression, confirmed: stela/star/stela/throughput_after/e1 −1" in message["text"].replace("-", "−")


def test_the_pages_again_without_measuring(world: World) -> None:
    with pytest.raises(ConfigurationError, match="barograph nightly try"):
        world.nightly(report_only=True)
    world.nightly()
    (world.results / "nightly" / "try" / "index.html").unlink()
    code, said = world.nightly(report_only=True)
    assert code == 0 and "1 nights; pages: " in said and len(world.nights()) == 1
    assert (world.results / "nightly" / "try" / "index.html").is_file()


def test_a_dry_run_starts_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_WEBHOOK", "hooks.example/in/secret")
    code, said = world.nightly(dry_run=True, deadline="12min")
    assert "note: BAROGRAPH_WEBHOOK is not an http:// or https:// URL; no message will be sent" in said
    assert "secret" not in said
    assert code == 0 and world.opened == [] and world.nights() == []
    assert "stela/linear: 4 runs, about " in said and "stela/star: 2 runs, about " in said
    assert "not begun: past the deadline" in said
    assert night_state.current_reservation("try", "fake", world.now_s) is None


def test_what_is_posted_has_no_path_of_this_box(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[dict[str, object]] = []
    monkeypatch.setattr(nightly, "post", lambda body: posted.append(dict(body)) or "the webhook answered 500")
    world.before = failing(LINEAR, MachineLost("m2 stopped answering"))
    code, said = world.nightly()
    assert code == 4 and "the webhook answered 500" in said, "its failure is told, and the night's own code stays"
    (body,) = posted
    assert str(world.results) not in json.dumps(body)
    assert body["status"] == "partial" and body["page"] == "nightly/try/index.html"
    assert "stela/linear: infrastructure: m2 stopped answering" in str(body["text"])


@pytest.mark.parametrize(
    ("statuses", "news", "code"),
    [
        (["complete", "failed"], 0, 5), (["complete"], 0, 0), (["deadline", "complete"], 0, 0),
        (["infrastructure", "complete"], 1, 6), (["interrupted", "complete"], 1, 130),
        (["capacity", "infrastructure"], 0, 3), (["harness", "infrastructure"], 0, 1),
    ],
)  # fmt: skip
def test_exit_codes(statuses: list[str], news: int, code: int) -> None:
    assert outcome.exit_code(statuses, news) == code


def test_a_damaged_night_under_way_is_told(world: World) -> None:
    path = night_state.nights_folder("try") / night_state.NIGHT_FILE
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    from analysis.errors import RecordError

    with pytest.raises(RecordError, match=r"under_way.json: not a night under way .*; remove the file"):
        world.nightly()
    assert night_state.current_reservation("try", "fake", world.now_s) is None and Path(path).exists()
