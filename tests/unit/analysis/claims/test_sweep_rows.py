"""What a sweep gives of a claim: seed by seed, point by point, without a verdict."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.claims.ledger import evaluate, evaluate_newest
from analysis.claims.rows import LedgerRow
from analysis.claims.simulated_rows import read_sweep, row_without_sweep, sweep_row
from analysis.claims.statements import Claim, ClaimKind, Resolution, load_claims
from analysis.record.files import SeriesPaths
from analysis.report.ledger_table import ledger_row
from tests.support.series_by_hand import cut_short, drop_column, write_table

NAME, EMITTED, BYTES = "metis/payload_machines", "published_emitted_per_s", "published_network_mb_per_s"
CLAIM = Claim("M02", "payload", "MP", "bytes", NAME, ClaimKind.RATIO, BYTES, "metis", -33.75, "%",
              Resolution("r", "for a test", factor=1.2), "even", best_by=EMITTED, simulated=True)  # fmt: skip
MACHINES, SEEDS = (10, 20), (1, 2, 3)
# (machines, seed) -> what each variant sent and emitted. METIS over the default: -40, -50, -60 and -10, -20, -30 %.
SENT = {
    "even": {(10, 1): 10.0, (10, 2): 10.0, (10, 3): 10.0, (20, 1): 10.0, (20, 2): 10.0, (20, 3): 10.0},
    "metis": {(10, 1): 6.0, (10, 2): 5.0, (10, 3): 4.0, (20, 1): 9.0, (20, 2): 8.0, (20, 3): 7.0},
}
RATE = {
    "even": {(10, 1): 95.0, (10, 2): 100.0, (10, 3): 105.0, (20, 1): 180.0, (20, 2): 200.0, (20, 3): 220.0},
    "metis": {(10, 1): 130.0, (10, 2): 120.0, (10, 3): 110.0, (20, 1): 210.0, (20, 2): 220.0, (20, 3): 230.0},
}
Numbers = Mapping[str, Mapping[tuple[int, int], float]]


def write_sweep(
    root: Path, numbers: Mapping[str, Numbers], failures: Sequence[Any] = (), seeds: Sequence[int] = SEEDS,
    unreached: Sequence[tuple[str, tuple[int, int]]] = (),
) -> Path:  # fmt: skip
    """A point for each size and seed, a run of each variant in it. `unreached`: runs whose values are horizons."""
    points = [(machines, seed) for machines in MACHINES for seed in seeds]
    root.mkdir(parents=True)
    values = [{"machines.before": machines, "topology.overrides.workers": machines, "seed": seed}
              for machines, seed in points]  # fmt: skip
    document = {"v": 1, "experiment": NAME, "failures": list(failures),
                "points": [{"point_id": str(n), "values": each} for n, each in enumerate(values, 1)]}  # fmt: skip
    (root / "sweep.json").write_text(json.dumps(document))
    runs = [
        (f"{n:05}.{variant}-r1", variant, point) for n, point in enumerate(points, 1) for variant in ("even", "metis")
    ]
    write_table(root, "runs", [
        {"run_id": run_id, "variant": variant, "status": "complete", "repetition": 1, "experiment": NAME,
         "policy": variant}
        for run_id, variant, _ in runs
    ])  # fmt: skip
    write_table(root, "measurements", [
        {"run_id": run_id, "topology": "payload", "event_id": "e1", "metric": metric, "value": of[variant][point],
         "censored": (variant, point) in unreached, "steady": None if metric == EMITTED else False}
        for metric, of in numbers.items() for run_id, variant, point in runs if point in of[variant]
    ])  # fmt: skip
    return root


def row(tmp_path: Path, claim: Claim, **numbers: Numbers) -> LedgerRow:
    root = write_sweep(tmp_path / "sweep-1", numbers or {BYTES: SENT, EMITTED: RATE})
    return sweep_row(claim, read_sweep(SeriesPaths(root), {claim.metric, EMITTED}))


def test_a_number_is_of_all_points_seed_by_seed(tmp_path: Path) -> None:
    """Means over both sizes: -25, -35 and -45 %. Best by emissions: seed 1 of METIS and 3 of the default at 10, 3 and 3
    at 20: -40 and -30."""
    found = row(tmp_path, CLAIM)
    assert found.measured == pytest.approx(-35.0)
    assert (found.low, found.high) == (pytest.approx(-45.0), pytest.approx(-25.0))
    assert (found.runs, found.verdict, found.p, found.run_ids) == (3, "no verdict", None, ())
    assert found.best_of_three == pytest.approx(-35.0)
    assert found.reason == (
        "simulated, sweep-1: before 10: −50.0, before 20: −20.0; the best of the first three seeds, as published:"
        " −35.0; 12 of 12 runs were not steady"
    )
    shown = ledger_row(found)
    assert (shown["simulated"], shown["interval_text"], shown["indication"]) == (True, "–", False)


@pytest.mark.parametrize(
    ("over", "measured", "low", "high"),
    [("lowest", -50.0, -60.0, -40.0), ("highest", -20.0, -30.0, -10.0)],
)
def test_of_the_points_the_lowest_or_the_highest_may_be_meant(
    tmp_path: Path, over: str, measured: float, low: float, high: float
) -> None:
    found = row(tmp_path, replace(CLAIM, over=over))
    assert (found.measured, found.low, found.high) == tuple(map(pytest.approx, (measured, low, high)))


def test_a_claim_may_be_about_some_points(tmp_path: Path) -> None:
    found = row(tmp_path, replace(CLAIM, points=(("machines.before", ("20",)),)))
    assert found.measured == pytest.approx(-20.0) and "before 10" not in found.reason
    none = sweep_row(
        replace(CLAIM, points=(("machines.before", ("80",)),)), read_sweep(SeriesPaths(tmp_path / "sweep-1"), {BYTES})
    )
    assert (none.verdict, none.measured) == ("not run", None)
    assert none.reason.endswith(f"no complete run of metis measured {BYTES} at machines.before of 80")


def test_the_spread_of_three_runs(tmp_path: Path) -> None:
    """The default: 10 of 100, and 40 of 200."""
    whole = Resolution("whole", "for a test", amount=0.5)
    claim = replace(CLAIM, kind=ClaimKind.MEAN_SPREAD, metric=EMITTED, variant="even", baseline=None, best_by=None,
                    stated=5.0, within=whole)  # fmt: skip
    found = row(tmp_path, claim)
    assert (found.measured, found.low, found.high) == tuple(map(pytest.approx, (15.0, 10.0, 20.0)))
    assert found.reason == "simulated, sweep-1: before 10: 10.0, before 20: 20.0"
    largest = sweep_row(
        replace(claim, kind=ClaimKind.LARGEST_SPREAD), read_sweep(SeriesPaths(tmp_path / "sweep-1"), {EMITTED})
    )
    assert largest.measured == pytest.approx(20.0)
    shown = {name: str(text).replace("\u00a0", " ") for name, text in ledger_row(found, simulated=True).items()}
    words = "15 % (10 to 20 over the points, of the first 3 seeds of each)"
    assert shown["model_text"] == f"the model gives {words}; stated 5 %"
    assert (shown["measured_text"], shown["range_text"], shown["stated_text"]) == ("15 %", "10 to 20", "5 %")
    assert ledger_row(row_without_sweep(claim))["region_text"] == "4.5 to 5.5"


def test_the_row_says_in_how_many_runs_the_policy_moved_anything(tmp_path: Path) -> None:
    """The default is asked too, and nobody expects it to find anything."""
    moved = {"even": dict.fromkeys(SENT["even"], 0.0), "metis": {key: 100.0 * (key[0] == 10) for key in SENT["metis"]}}
    numbers = {BYTES: SENT, EMITTED: RATE, "rescheduled_percent": moved}
    assert row(tmp_path, CLAIM, **numbers).reason.endswith("not steady; metis moved executors in 3 of 6 runs")
    sweep = read_sweep(SeriesPaths(tmp_path / "sweep-1"), {BYTES, EMITTED})
    twenty = sweep_row(replace(CLAIM, points=(("machines.before", ("20",)),)), sweep)
    assert twenty.reason.endswith("; metis moved executors in 0 of 3 runs")
    assert "moved" not in sweep_row(replace(CLAIM, variant="even", baseline="even"), sweep).reason


FIVE = (1, 2, 3, 10, 11)
SPREAD = replace(CLAIM, kind=ClaimKind.MEAN_SPREAD, metric=EMITTED, variant="even", baseline=None, best_by=None,
                 within=Resolution("whole", "for a test", amount=0.5))  # fmt: skip


def test_a_spread_is_of_three_runs_as_published_the_first_by_number(tmp_path: Path) -> None:
    """10 of 100; with seeds 10 and 11 it would be 100 of 100."""
    rates = {(m, seed): rate for m in MACHINES for seed, rate in zip(FIVE, (95, 100, 105, 50, 150), strict=True)}
    root = write_sweep(tmp_path / "sweep-1", {EMITTED: {"even": rates, "metis": {}}}, seeds=FIVE)
    found = sweep_row(SPREAD, read_sweep(SeriesPaths(root), {EMITTED}))
    assert (found.measured, found.low, found.high, found.runs) == (pytest.approx(10.0), 10.0, 10.0, 3)


def test_the_first_three_seeds_are_so_by_number(tmp_path: Path) -> None:
    """Of 1, 2 and 3 the second emitted most on both sides; of 1, 10 and 11, the first as text, it would be 11."""
    rates = {(m, seed): rate for m in MACHINES for seed, rate in zip(FIVE, (1, 5, 2, 8, 9), strict=True)}
    sent = {(m, seed): 10.0 for m in MACHINES for seed in FIVE}
    less = {key: {2: 7.0, 11: 1.0}.get(key[1], 10.0) for key in sent}
    numbers = {EMITTED: {"even": rates, "metis": rates}, BYTES: {"even": sent, "metis": less}}
    root = write_sweep(tmp_path / "sweep-1", numbers, seeds=FIVE)
    assert sweep_row(CLAIM, read_sweep(SeriesPaths(root), {BYTES, EMITTED})).best_of_three == pytest.approx(-30.0)


@pytest.mark.parametrize("variant", ["metis", "even"])
def test_runs_that_were_too_long_to_be_seen_leave_no_mean(tmp_path: Path, variant: str) -> None:
    """A mean of the others would be too small."""
    root = write_sweep(tmp_path / "sweep-1", {BYTES: SENT, EMITTED: RATE}, unreached=[(variant, (20, 3))])
    found = sweep_row(CLAIM, read_sweep(SeriesPaths(root), {BYTES, EMITTED}))
    assert (found.verdict, found.measured, found.best_of_three) == ("not run", None, None)
    assert found.reason == (
        "simulated, sweep-1: longer than was watched, so only larger than a number: 1 of 6 runs at before 20"
    )


def test_an_own_number_is_no_ratio(tmp_path: Path) -> None:
    moved = {"even": {}, "metis": {(m, s): 100.0 if m == 10 else 0.0 for m in MACHINES for s in SEEDS}}
    claim = replace(CLAIM, kind=ClaimKind.OWN_AT_MOST, metric="rescheduled_percent", baseline=None, best_by=None)
    assert row(tmp_path, claim, rescheduled_percent=moved).measured == pytest.approx(50.0)


@pytest.mark.parametrize(("ten", "twenty", "common"), [((1, 2), (2, 3), [2]), ((1,), (2, 3), [])])
def test_seeds_are_those_that_all_points_have(
    ten: Sequence[int], twenty: Sequence[int], common: Sequence[int], tmp_path: Path
) -> None:
    """Seed 2 gives -50 at 10 and -20 at 20."""
    kept = {(10, seed) for seed in ten} | {(20, seed) for seed in twenty}
    less = {"even": SENT["even"], "metis": {key: value for key, value in SENT["metis"].items() if key in kept}}
    found = row(tmp_path, CLAIM, **{BYTES: less, EMITTED: RATE})
    assert found.runs == len(common)
    if common:
        assert found.measured == found.low == found.high == pytest.approx(-35.0)
        assert found.reason.startswith("simulated, sweep-1: before 10: −50.0, before 20: −20.0")
    else:
        assert (found.verdict, found.measured) == ("not run", None)
        assert found.reason == "simulated, sweep-1: no seed has a number at every point"


def test_a_mean_over_all_points_is_none_of_those_that_are_left(tmp_path: Path) -> None:
    """Of METIS no run at 20 machines is complete; of a claim about 20 and 80 no point has 80."""
    ten: Numbers = {"even": SENT["even"], "metis": {key: value for key, value in SENT["metis"].items() if key[0] == 10}}
    found = row(tmp_path, CLAIM, **{BYTES: ten, EMITTED: RATE})
    assert (found.verdict, found.measured, found.best_of_three) == ("not run", None, None)
    assert found.reason == "simulated, sweep-1: too few seeds at before 20"
    sweep = read_sweep(SeriesPaths(tmp_path / "sweep-1"), {BYTES, EMITTED})
    own = replace(CLAIM, kind=ClaimKind.OWN_AT_MOST, baseline=None, best_by=None)
    assert sweep_row(own, sweep).reason == "simulated, sweep-1: too few seeds at before 20"
    larger = replace(CLAIM, points=(("machines.before", ("10", "80")),))
    assert sweep_row(larger, sweep).reason == "simulated, sweep-1: the sweep has no point with machines.before 80"


def test_the_ledger_finds_the_newest_sweep_and_leaves_other_claims_alone(tmp_path: Path) -> None:
    above = tmp_path / "metis" / "payload_machines"
    write_sweep(above / "sweep-20260101-000000-aa", {BYTES: SENT, EMITTED: RATE})
    halved: Numbers = {"even": SENT["even"], "metis": {key: value / 2 for key, value in SENT["metis"].items()}}
    failures = [{"point": 1, "run_id": "even-r1"}, {"point": 1, "run_id": "metis-r1"}, {"point": 6, "run_id": ""}]
    newer = write_sweep(above / "sweep-20260102-000000-aa", {BYTES: halved, EMITTED: RATE}, failures)
    (above / "sweep-20260103-000000-aa").mkdir()  # under way
    (above / "sweep-20260103-000000-aa" / "sweep.json").write_text("{}")
    rows = {each.claim.name: each for each in evaluate_newest(tmp_path)}
    assert rows["M02/payload"].measured == pytest.approx(-67.5)
    assert rows["M02/payload"].reason.startswith(f"simulated, {newer.name} (2 of 6 points failed): ")
    mixed = {**json.loads((newer / "sweep.json").read_text()), "runs_of_other_code": {"a1": 2, "b2": 3}}
    (newer / "sweep.json").write_text(json.dumps(mixed))
    found = read_sweep(SeriesPaths(newer), {BYTES})
    assert found.words == f"simulated, {newer.name} (2 of 6 points failed; 5 of 12 runs are of other code)"
    whole = {**mixed, "failures": [], "runs_of_other_code": {"a1": 12}}
    (newer / "sweep.json").write_text(json.dumps(whole))
    assert read_sweep(SeriesPaths(newer), {BYTES}).words == f"simulated, {newer.name}", "all of one code"
    assert rows["M01"].verdict == "not run"
    assert rows["M02/parallel"] == row_without_sweep(rows["M02/parallel"].claim)
    assert "barograph sweep metis/parallel_machines" in rows["M02/parallel"].reason
    assert rows["S01/op 3"].verdict == "reproduced"
    only = {each.claim.name for each in evaluate([newer], "metis")}
    assert only == {claim.name for claim in load_claims("metis")}


@pytest.mark.parametrize("damage", ["cut short", "column", "document"])
def test_a_sweep_that_cannot_be_read_is_named_in_its_claims_and_the_rest_go_on(tmp_path: Path, damage: str) -> None:
    root = write_sweep(tmp_path / "metis" / "payload_machines" / "sweep-1", {BYTES: SENT, EMITTED: RATE})
    if damage == "document":
        (root / "sweep.json").write_text("{")
    elif damage == "column":
        drop_column(root, "runs", "variant")
    else:
        cut_short(root, "measurements")
    said = {
        "cut short": "metis/payload_machines/sweep-1/tables/measurements.parquet cannot be read: ",
        "column": "metis/payload_machines/sweep-1/tables/runs.parquet has no column variant; analyse it again: ",
        "document": f"{root}/sweep.json: cannot be read as JSON: ",
    }
    rows = {each.claim.name: each for each in evaluate_newest(tmp_path)}
    of_sweep = [each for each in rows.values() if each.claim.experiment == NAME and each.claim.simulated]
    assert of_sweep and all(each.verdict == "not run" and each.reason.startswith(said[damage]) for each in of_sweep)
    assert rows["S01/op 3"].verdict == "reproduced"
