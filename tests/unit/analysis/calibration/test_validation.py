"""What a calibration leaves, and what reports of simulated runs say of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.calibration import validation
from analysis.calibration.judgement import ErrorSummary
from analysis.calibration.linear import CostEstimate
from analysis.calibration.validation import (
    SeriesName,
    Validation,
    find_validations,
    known_validations,
    sentences,
    write,
)
from analysis.calibration.validity import Validity, outside, validity_of, validity_of_run
from analysis.errors import RecordError
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, read_json
from barograph import ROOT
from barograph.plan.experiment import Experiment
from inventory.simulated import SimulatedTestbed
from scheduler_plugins.simulator.work import Costs
from tests.support.experiments import changed

ESTIMATES = [
    CostEstimate("receive_ms", 0.0312345678, 0.02, 0.03, 0.033, 4),
    CostEstimate("hop_ms", None, Costs().hop_ms, None, None, 0, "nothing was free of queues"),
]
COSTS = asdict(replace(Costs(), receive_ms=0.0312345678))
STAR = SeriesName("stela/star", "20261124-1", 2)
WAITS = ("bolts look for 0.06 ms, then sleep 10 ms at a time", "spouts look for 0.06 ms, then sleep 10 ms at a time")
FIRST_TASKS = 12  # of a component of linear
ACKED = {"topology.acker.executors": 2}
PERIODS = {"step_s": 1.0, "sample_s": 1, "look_s": 1.0, "round_s": 2.0}
FOUND = Validation(
    made="2026-11-24",
    costs=COSTS,
    fitted_on=(STAR,),
    judged_on=(SeriesName("stela/linear", "20261124-2", 3),),
    errors=(
        ErrorSummary("throughput_after", "throughput after", "%", 3, 4.0, 9.0, -1.0, 0),
        ErrorSummary("downtime_s", "downtime", "s", 0, None, None, None, 3),
    ),
    rankings=({"tau": 1.0}, {"tau": 1 / 3}, {"tau": None}),
    validity=Validity(
        ("linear",), ("type_1",), (0.2, 0.3), ("sleep",), (100.0, 720.0), (4.0, 7.0), (20.0, 48.0), ("scale_out",),
        ("paced",), ("none",), ("stela",), (12.0, 24.0), ("65536",), WAITS, (100.0, 100.0), ("ready",), (170.0, 370.0),
        ("look_s 1", "round_s 2", "sample_s 1", "step_s 1"), (1.0, 1.0), (1.0, 1.0),
        ("linear + scale_out", "linear + sleep", "linear + type_1"),
    ),
    estimates=tuple(asdict(each) for each in ESTIMATES),
    model="0123abcd",
)  # fmt: skip


def asked(**changes: Any) -> Experiment:
    usual: dict[str, Any] = {
        "testbed": {"name": "simulated", "machine_type": "type_1", "scale": 0.3},
        "machines": {"before": 4},
        "topology": {"name": "linear"},
        "variants": [{"name": "stela", "policy": "stela"}],
        "events": [{"kind": "scale_out"}],
        "durations": {"horizon_s": 370.0, "after_floor_s": 300.0},
    }
    return changed("stela/linear", **usual | changes)


def validity_in(**changes: Any) -> Validity:
    return validity_of(asked(**changes), PERIODS)


def run(costs: dict[str, float] | None, model: str = FOUND.model, **changes: Any) -> dict[str, Any]:
    facts = {} if costs is None else {"simulated": {"seed": 0, **PERIODS, "model": model, "costs": costs}}
    return {"harness_facts": json.dumps(facts), "spec": json.dumps(asked(**changes).as_data())}


def judged_and_simulated(results: Path, *series: str) -> None:
    """A calibration in a folder of results, and series there with a run that was simulated with its costs."""
    write(results / validation.FOLDER / "one", FOUND)
    for name in series:
        small_tables.write(SeriesPaths(results / name), "runs", [{"run_id": "stela-r1", **run(COSTS)}])


def test_an_experiment_is_about_its_topology_as_it_is_rendered() -> None:
    found = validity_in()
    assert found.topologies == ("linear",) and found.cost_models == ("sleep",) and found.rates_per_s == (720.0, 720.0)
    assert found.machines == (4.0, 5.0) and found.tasks == (48.0, 48.0) and found.events == ("scale_out",)
    assert (found.sources, found.acking) == (("paced",), ("none",))
    acked = {"config": {"topology.acker.executors": 4, "topology.max.spout.pending": 100}}
    limited = validity_in(topology={"name": "parallel", "parameters": {"unthrottled": True}, "overrides": acked})
    assert (limited.sources, limited.acking) == (("unthrottled",), ("limited",))
    slower = {"parameters": {"cost_model": "busy", "rate_per_s": 50.0}}
    busy = validity_in(variants=[{"name": "b", "policy": "even", "topology": slower}])
    assert busy.cost_models == ("busy",) and busy.rates_per_s == (50.0, 50.0)


def rates_of(*events: dict[str, Any]) -> tuple[tuple[float, float] | None, tuple[str, ...]]:
    found = validity_in(events=list(events))
    return found.rates_per_s, found.events


def test_rates_are_also_those_that_events_make_of_them() -> None:
    assert rates_of({"kind": "rate", "factor": 2.5}, {"kind": "rate", "factor": 0.5}) == ((360.0, 1800.0), ("rate",))
    assert rates_of({"kind": "sine", "mean": 1.5, "amplitude": 1.0, "period_s": 60.0})[0] == (360.0, 1800.0)
    assert rates_of({"kind": "rate", "factor": 9.0, "source": "else"})[0] == (720.0, 720.0), "of another source"
    assert rates_of({"kind": "rate", "factor": 3.0, "topology": "linear", "source": "spout"})[0] == (720.0, 2160.0)


def test_rates_of_a_trace_are_those_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text("seconds,load\n0,20\n30,80\n60,40\n")
    event = {"kind": "trace", "file": str(path), "scale": 0.05, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert rates_of(event) == ((720.0, 2880.0), ("trace",))
    path.write_text("0,20\n30,90\n")
    assert rates_of(event) == ((720.0, 720.0), ("trace of unknown rates",)), "it is another file by now"
    path.unlink()
    assert rates_of(event)[1] == ("trace of unknown rates",)
    unknown = validity_in(events=[event])
    assert outside(unknown, unknown) == ["event trace of unknown rates (validated: trace of unknown rates)"]


def test_a_policy_that_may_ask_for_machines_reaches_further() -> None:
    events = [{"kind": "scale_out"}, {"kind": "hold", "decide_every_s": 10.0}]
    assert validity_in(machines={"before": 4, "min": 2, "max": 9}, events=events).machines == (2.0, 9.0)


def test_what_lies_outside_is_named_with_what_was_validated() -> None:
    changes: dict[str, Any] = {"topologies": ("star",), "policies": ("etp", "stela"), "machines": (4.0, 80.0),
                               "watches_s": (172800.0, 172800.0), "side_by_side": (2.0, 2.0)}  # fmt: skip
    assert outside(replace(FOUND.validity, **changes), FOUND.validity) == [
        "topology star (validated: linear)", "policy etp (validated: stela)", "4 to 80 machines (validated: 4 to 7)",
        "2 topologies side by side (validated: 1)", "172\u2009800 s of watch after an event (validated: 170 to 370)",
    ]  # fmt: skip
    assert outside(FOUND.validity, FOUND.validity) == []


def test_every_field_of_a_validity_is_looked_at() -> None:
    for each in fields(Validity):
        if each.name != "pairs":
            unlike = ("else",) if isinstance(getattr(FOUND.validity, each.name)[0], str) else (0.001, 1e9)
            (said,) = outside(replace(FOUND.validity, **{each.name: unlike}), FOUND.validity)
            assert "validated: " in said, each.name


def test_what_was_validated_apart_and_not_together_is_outside() -> None:
    known = validity_in() + validity_in(**of_star("type_2"), events=[{"kind": "scale_in"}])
    assert outside(validity_in(**of_star("type_1")), known) == [
        "star with scale_out (validated with: scale_in, sleep, type_2)",
        "star with type_1 (validated with: scale_in, sleep, type_2)",
    ]
    busy = {"name": "star", "parameters": {"cost_model": "busy"}, "overrides": {}}
    known += validity_in(topology={**busy, "name": "linear"})
    assert outside(validity_in(**{**of_star("type_2"), "topology": busy}, events=[{"kind": "scale_in"}]), known) == [
        "star with busy (validated with: scale_in, sleep, type_2)"
    ]
    assert outside(validity_in(**of_star("type_2"), events=[{"kind": "scale_in"}]), known) == []


def of_star(machine_type: str) -> dict[str, Any]:
    return {"topology": {"name": "star"}, "testbed": {"name": "simulated", "machine_type": machine_type, "scale": 0.3}}


def test_of_what_no_run_had_nothing_is_on_record() -> None:
    assert outside(validity_in(), replace(validity_in(), rates_per_s=None, waits=())) == [
        "of these nothing is on record: waits, tuples/s of a source"
    ]


def test_a_document_comes_back_as_it_was(tmp_path: Path) -> None:
    write(tmp_path / "one", FOUND)
    path = tmp_path / "one" / validation.ERRORS_FILE
    assert Validation.of_document(read_json(path), path) == FOUND


@pytest.mark.parametrize("damage", [{"v": 9}, {"errors": [{"metric": "x"}]}, {"validity": {"colour": ["red"]}}])
def test_a_document_that_is_none_names_its_file(damage: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"errors\.json: "):
        Validation.of_document({**FOUND.as_document(), **damage}, tmp_path / "errors.json")


def test_the_file_of_costs_is_what_the_testbed_takes(tmp_path: Path) -> None:
    write(tmp_path / "one", FOUND)
    text = (tmp_path / "one" / validation.COSTS_FILE).read_text()
    assert "receive_ms: 0.0312346  # 0.03 to 0.033 (95 %), 4 runs" in text
    assert "hop_ms: 0.1  # default: nothing was free of queues" in text
    assert SimulatedTestbed({"costs": yaml.safe_load(text)}).costs.receive_ms == pytest.approx(0.0312346)


def test_costs_as_their_file_has_them_are_found_again(tmp_path: Path) -> None:
    write(tmp_path / "one", FOUND)
    written = {**COSTS, **yaml.safe_load((tmp_path / "one" / validation.COSTS_FILE).read_text())}
    assert written["receive_ms"] != COSTS["receive_ms"]
    assert find_validations(written, [tmp_path]) == [FOUND]
    assert find_validations({**COSTS, "noise": 0.1}, [tmp_path]) == []


def test_a_damaged_calibration_is_none(tmp_path: Path) -> None:
    write(tmp_path / "one", FOUND)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / validation.ERRORS_FILE).write_text("{")
    assert FOUND in list(known_validations([tmp_path]))


def test_a_measured_run_needs_no_sentence() -> None:
    assert sentences([run(None), {"harness_facts": None, "spec": None}]) == []


def test_a_report_repeats_the_errors_of_its_costs_and_what_lies_outside(tmp_path: Path) -> None:
    write(tmp_path / "one", FOUND)
    within, star = sentences([run(COSTS)], [tmp_path]), {"name": "star", "parameters": {}, "overrides": {}}
    assert within == [
        "The costs were fitted to real runs of stela/star (2 runs), and judged on stela/linear (3 runs), components"
        " that wait, on 2026-11-24: median error (worst; mean, negative where the model is too low): throughput after"
        " 4.0 % (9.0; −1.0); the ranking of the variants the same at 1 of 2 events (Kendall’s tau 0.33 at the others)."
    ]
    beyond = sentences([run(COSTS, topology=star, machines={"before": 40})], [tmp_path])
    assert beyond == [
        *within,
        "Outside of what was validated: topology star (validated: linear); 40 to 41 machines (validated: 4 to 7).",
    ]


@pytest.mark.parametrize(("judged", "simulated"), [("0123abcd", "4567"), ("", "4567"), ("", "")])
def test_errors_of_another_model_are_no_errors_of_this_one(tmp_path: Path, judged: str, simulated: str) -> None:
    write(tmp_path / "one", replace(FOUND, model=judged))
    (said,) = sentences([run(COSTS, simulated)], [tmp_path])
    assert "on 2026-11-24, by another version of the model than these runs': median error" in said


def test_every_calibration_of_these_costs_is_named(tmp_path: Path) -> None:
    """Not the kindest, nor the one whose folder comes first."""
    worse = replace(FOUND.errors[0], median=40.0, worst=60.0)
    star = replace(FOUND.validity, topologies=("star",), pairs=("star + scale_out", "star + sleep", "star + type_1"))
    later = replace(FOUND, made="2026-11-25", judged_on=(STAR,), errors=(worse,), rankings=(), validity=star)
    write(tmp_path / "one", later)
    write(tmp_path / "two", FOUND)
    of_star = {"name": "star", "parameters": {}, "overrides": {}}
    said = sentences([run(COSTS, topology=of_star)], [tmp_path])
    assert ["throughput after 40.0 % (" in said[0], "throughput after 4.0 % (" in said[1], len(said)] == [True, True, 2]


def test_components_that_burn_cpu_have_errors_of_their_own(tmp_path: Path) -> None:
    """Neither the others' errors nor the range of what the others were judged on."""
    worse = replace(FOUND.errors[0], median=40.0, worst=60.0)
    of_linear = ("linear + busy", "linear + scale_out", "linear + type_1")
    of_busy = replace(FOUND.validity, cost_models=("busy",), machines=(4.0, 9.0), pairs=of_linear)
    write(tmp_path / "one", FOUND)
    write(tmp_path / "two", replace(FOUND, errors=(worse,), rankings=(), validity=of_busy))
    busy = {"name": "linear", "parameters": {"cost_model": "busy"}, "overrides": {}}
    grown = [{"kind": "scale_out", "machines": 5}]
    (waiting,) = sentences([run(COSTS)], [tmp_path])
    (burning,) = sentences([run(COSTS, topology=busy, events=grown)], [tmp_path])
    assert "components that wait, on" in waiting and "throughput after 4.0 % (9.0; −1.0)" in waiting
    assert "components that burn CPU, on" in burning and "throughput after 40.0 % (60.0; −1.0)" in burning
    *both, beyond = sentences([run(COSTS, events=grown)], [tmp_path])
    assert sorted(both) == sorted([waiting, burning])
    assert beyond == "Outside of what was validated on components that wait: 4 to 9 machines (validated: 4 to 7)."
    free = {"name": "linear", "parameters": {"cost_model": "none"}, "overrides": {}}
    *both, beyond = sentences([run(COSTS, topology=free)], [tmp_path])
    assert sorted(both) == sorted([waiting, burning]) and "cost model none" in beyond


def test_times_that_one_side_never_reached_are_named_beside_the_worst(tmp_path: Path) -> None:
    time = ErrorSummary("convergence_sp_s", "convergence time (SP)", "%", 2, 6.5, 8.0, 1.0, 6, bounds=6)
    never = ErrorSummary("downtime_s", "downtime", "s", 0, None, None, None, 3, bounds=3)
    ranked = ({"tau": 1.0, "clear_pairs": 3, "same_pairs": 2}, {"tau": 0.0, "clear_pairs": 1, "same_pairs": 0})
    write(tmp_path / "one", replace(FOUND, errors=(time, never), rankings=ranked))
    (said,) = sentences([run(COSTS)], [tmp_path])
    assert "convergence time (SP) 6.5 % (8.0; +1.0; 6 of 8 without a time on a side)" in said
    assert "downtime not comparable (3 of 3 without a time on a side)" in said
    assert "the same at 1 of 2 events (Kendall’s tau 0 at the others), that of pairs" in said
    assert "which differ by more than 5 % in 2 of 4" in said


NOBODY = (
    "No calibration has judged these costs: nothing says how far such runs are from real ones (`barograph calibrate"
    " SERIES --on OTHER` does)."
)
UNKNOWN = {**COSTS, "noise": 0.123}


@pytest.fixture
def nothing_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "SHIPPED", tmp_path / "nothing")


@pytest.mark.usefixtures("nothing_shipped")
def test_costs_that_nobody_has_judged_say_so(tmp_path: Path) -> None:
    assert sentences([run(UNKNOWN)], [tmp_path]) == [NOBODY]
    write(tmp_path / "one", replace(FOUND, judged_on=(), errors=(), rankings=()))
    assert sentences([run(COSTS)], [tmp_path]) == [
        "The costs were fitted to stela/star (2 runs) on 2026-11-24 and judged on nothing else."
    ]


def test_the_default_costs_have_been_judged() -> None:
    """By what ships: where a default changes, `barograph calibrate --costs default --on …` judges them anew."""
    for shipped, family in zip(known_validations([]), ("stela/", "cost_models/"), strict=True):
        assert shipped.costs == asdict(Costs()) and not shipped.fitted_on
        assert sum(each.runs for each in shipped.judged_on) >= 8
        assert all(each.experiment.startswith(family) for each in shipped.judged_on)
        (said, *_) = validation.of_validations([shipped], Validity(), shipped.model)
        assert said.startswith(f"The costs were fitted to no run, and judged on real runs of {family}")


@pytest.mark.usefixtures("nothing_shipped")
def test_what_lies_outside_for_all_costs_is_named_also_where_nobody_has_judged_these(tmp_path: Path) -> None:
    write(tmp_path / "one", FOUND)
    assert sentences([run(UNKNOWN)], [tmp_path]) == [NOBODY], "with others, such runs were judged"
    star = {"name": "star", "parameters": {}, "overrides": {}}
    outside = "Outside of what was validated with any costs: topology star (validated: linear)."
    assert sentences([run(UNKNOWN, topology=star)], [tmp_path]) == [NOBODY, outside]
    write(tmp_path / "two", replace(FOUND, costs=UNKNOWN, judged_on=()))
    fitted, said = sentences([run(UNKNOWN, topology=star)], [tmp_path])
    assert fitted.endswith("judged on nothing else.") and said == outside


ROWS = {
    "throughput before, %": "throughput_before",
    "throughput after, %": "throughput_after",
    "gain, points": "gain_percent",
    "convergence time SP, %": "convergence_sp_s",
    "convergence time ST, %": "convergence_st_s",
    "downtime, s": "downtime_s",
    "tuples lost after": "lost_after",
    "request to last executor running, s": "request_to_running_s",
    "CPU of quota before, points": "cpu_percent_before",
    "CPU of quota after, points": "cpu_percent_after",
    "mean latency before, %": "latency_mean_ms_before",
    "mean latency after, %": "latency_mean_ms_after",
    "95 % latency before, %": "latency_all_p95_ms_before",
    "95 % latency after, %": "latency_all_p95_ms_after",
}


def test_the_documents_say_how_far_the_default_costs_were_off() -> None:
    shipped, busy = known_validations([])
    text = (ROOT / validation.PAGE).read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = {row[0]: row[1:] for row in cells if row[0] in ROWS}
    assert rows.keys() == ROWS.keys()
    for words, metric in ROWS.items():
        for cell, of in zip(rows[words], (shipped, busy), strict=True):
            error = next(each for each in of.errors if each.metric == metric)
            median, worst = (float(number.strip("()").replace(",", "")) for number in cell.split()[:2])
            digits = [len(number.strip("()").partition(".")[2]) for number in cell.split()[:2]]
            assert error.median is not None and error.worst is not None
            assert (median, worst) == (round(error.median, digits[0]), round(error.worst, digits[1])), (words, metric)
    for of, words in ((shipped, "*Wait*"), (busy, "*Burn CPU*")):
        assert f"{words}: {sum(each.runs for each in of.judged_on)} runs" in text
    for of, family, off in (
        (shipped, "stela/", {"page_load_scale_in": 0.0, "page_load": 0.33, "processing": 0.33}),
        (busy, "cost_models/", {"linear_strategies_busy": 0.84, "page_load_scale_in_busy": 0.82}),
    ):
        taus = {each["experiment"].removeprefix(family): round(each["tau"], 2) for each in of.rankings}
        assert {name: tau for name, tau in taus.items() if tau != 1} == off, "as the page has them in words"
    clear, same = (sum(ranking[name] for ranking in busy.rankings) for name in validation.PAIRS)
    assert f"all {clear} such pairs" in text and same == clear


def test_a_run_is_about_its_own_variant_as_it_was_simulated() -> None:
    changes = {
        "overrides": {"workers": 3, "tasks": {"sink": 40}, "config": {"topology.executor.receive.buffer.size": 16}}
    }
    whole = asked(
        topology={"name": "linear", "parameters": {}, "overrides": {"tasks": {"spout": 40}, "config": ACKED}},
        variants=[
            {"name": "plain", "policy": "even", "parameters": {"rebalance": True}},
            {"name": "changed", "policy": "stela", "code": {"ref": "main"}, "topology": changes},
        ],
        events=[{"kind": "scale_out", "machines": 3}, {"kind": "scale_in", "machines": 4}],
        durations={"horizon_s": 370.0, "after_floor_s": 60.0},
    )
    facts = json.dumps({"simulated": {**PERIODS, "sample_s": 10}})
    row = {"spec": json.dumps(whole.as_data()), "harness_facts": facts}
    plain, changed = (validity_of_run({**row, "variant": name}) for name in ("plain", "changed"))
    assert plain.policies == ("even rebalance=True",) and changed.policies == ("stela of a commit",)
    assert (plain.queues, changed.queues) == (("65536",), ("16",))
    assert changed.workers == (3.0, 3.0) != plain.workers and plain.acking == changed.acking == ("acked",)
    assert plain.tasks is not None and changed.tasks is not None
    spouts, sinks = 40 - FIRST_TASKS, 40 - FIRST_TASKS
    assert (plain.tasks[0], changed.tasks[0]) == (48 + spouts, 48 + spouts + sinks), "both of what is said of tasks"
    assert plain.watches_s == (60.0, 370.0) and plain.changes == (2.0, 2.0) and plain.side_by_side == (1.0, 1.0)
    assert plain.machines == (3.0, 7.0), "as the events make them: 4, 7, 3"
    assert "sample_s 10" in plain.periods
    assert validity_of_run({**row, "variant": "gone"}).policies == ("even rebalance=True", "stela of a commit")


def test_a_topology_that_cannot_be_read_is_said_to_be_so() -> None:
    gone = validity_in(topology={"name": "gone"})
    assert gone.tasks is None and gone.cost_models == ()
    assert "topology gone (which cannot be read) (validated: linear)" in outside(gone, FOUND.validity)


def test_variants_of_an_experiment_are_spoken_of_together(tmp_path: Path) -> None:
    write(tmp_path / "one", FOUND)
    variants = [{"name": name, "policy": name} for name in ("etp", "metis", "stela")]
    runs = [{**run(COSTS, variants=variants), "variant": each["name"]} for each in variants]
    _, beyond = sentences(runs, [tmp_path])
    assert beyond == "Outside of what was validated: policy etp, metis (validated: stela)."
