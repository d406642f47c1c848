"""Metrics of a run with two events: each has its own before and after."""

from collections.abc import Mapping

import pytest

from analysis.metrics.definitions import METRICS
from tests.golden import scale_in
from tests.golden.series import GoldenSeries

pytestmark = pytest.mark.spark
RUN = scale_in.RUN.run_id


@pytest.fixture(scope="module")
def mixed(in_one_pass: Mapping[str, GoldenSeries]) -> GoldenSeries:
    return in_one_pass["scale_in"]


def test_each_event_has_its_own_downtime_and_moves(mixed: GoldenSeries) -> None:
    out, in_ = mixed.measured(RUN, "e1"), mixed.measured(RUN, "e2")
    assert (out["downtime_s"], in_["downtime_s"]) == (8, 6)
    assert (out["tasks_moved"], in_["tasks_moved"], in_["tasks_moved_to_old_machines"]) == (2, 2, 2)
    assert (out["machines_joined"], out["machines_released"]) == (1, 0)
    assert (in_["machines_joined"], in_["machines_released"], in_["machines_given_back"]) == (0, 1, 1)
    assert (in_["workers_before"], in_["workers_unaffected"], in_["workers_restarted"]) == (8, 6, 0)
    assert (out["attempts"], in_["attempts"]) == (1, 2)


def test_before_the_second_event_is_after_the_first(mixed: GoldenSeries) -> None:
    out, in_ = mixed.measured(RUN, "e1"), mixed.measured(RUN, "e2")
    assert out["throughput_before"] == pytest.approx(100.18, abs=0.01)
    assert out["throughput_after"] == pytest.approx(160, abs=0.5)
    assert in_["throughput_before"] == pytest.approx(160, abs=0.5)
    assert in_["throughput_after"] == pytest.approx(160, abs=0.5)
    assert abs(in_["gain_percent"]) < 0.5
    rows = mixed.rows("intervals", "event_id = 'e2' and phase = 'before'")
    assert [(row["start_s"] >= -scale_in.AT_S, row["live_steady"]) for row in rows] == [(True, True)]


def test_windows_of_an_event_end_with_the_next(mixed: GoldenSeries) -> None:
    rows = mixed.rows("event_throughput", "scope = 'total' and complete")
    seen = {name: [row["window_s"] for row in rows if row["event_id"] == name] for name in ("e1", "e2")}
    assert (min(seen["e1"]), max(seen["e1"])) == (-110, 80)
    assert (min(seen["e2"]), max(seen["e2"])) == (-90, 60)
    whole = [row["window_s"] for row in mixed.rows("throughput", "scope = 'total' and complete")]
    assert (min(whole), max(whole)) == (-110, 160)


def test_from_the_request_to_the_last_executor_running(mixed: GoldenSeries) -> None:
    in_ = mixed.measured(RUN, "e2")
    assert in_["request_to_decision_s"] == pytest.approx(1.0)
    assert in_["request_to_applied_s"] == pytest.approx(1.5)
    assert in_["request_to_running_s"] == pytest.approx(scale_in.SILENT_S + 1, abs=0.05)
    assert in_["rebalance_s"] == pytest.approx(in_["request_to_running_s"] - 1.0)
    assert not any(row["censored"] for row in mixed.rows("running"))
    # All tasks that the generator lets report are of executors' first tasks only: the topology never loads wholly.
    assert "submit_to_loaded_s" not in mixed.measured(RUN, "e0")


def test_what_is_lost_in_one_event_is_not_counted_in_the_next(mixed: GoldenSeries) -> None:
    lost = {name: mixed.measured(RUN, name) for name in ("e1", "e2")}
    assert lost["e1"]["lost_before"] == 0
    assert lost["e2"]["lost_before"] == pytest.approx(lost["e1"]["lost_after"])


def test_every_metric_that_is_measured_is_in_the_table_of_directions(
    mixed: GoldenSeries, golden_series: GoldenSeries
) -> None:
    measured = {row["metric"] for series in (mixed, golden_series) for row in series.rows("measurements")}
    assert len(measured) > 20 and measured <= set(METRICS)
