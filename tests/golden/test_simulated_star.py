"""A simulated star through the whole analysis: what it says is what the closed form says, and that it was simulated;
and that it is the same where workers write every ten seconds.
"""

from collections.abc import Mapping

import pytest

from scheduler_plugins.simulator.work import Costs
from tests.golden.series import GoldenSeries

pytestmark = pytest.mark.spark
# Two executors of centre, 8.05 ms a tuple and what a sleep takes longer, and each tuple to two sinks.
AT_REST = 2 * 2 * 1000 / (8.05 + Costs().sleep_slack_ms)
# What stela/star offers, both spouts together.
OFFERED = 2 * 250


@pytest.fixture(scope="module")
def simulated(in_one_pass: Mapping[str, GoldenSeries]) -> GoldenSeries:
    return reported(in_one_pass["star"])


@pytest.fixture(scope="module")
def in_long_lines(in_one_pass: Mapping[str, GoldenSeries]) -> GoldenSeries:
    return reported(in_one_pass["star_in_long_lines"])


def reported(series: GoldenSeries) -> GoldenSeries:
    from analysis.report import series_page

    series_page.build_report(series.root)
    return series


def test_throughput_and_its_gain_are_the_closed_forms(simulated: GoldenSeries) -> None:
    even, stela = (simulated.measured(f"{name}-r1", "e1") for name in ("even_rebalance", "stela"))
    for measured, gain in ((even, 0), (stela, 100)):  # centre 2 → 4
        assert measured["throughput_before"] == pytest.approx(AT_REST, rel=0.01)
        assert measured["gain_percent"] == pytest.approx(gain, abs=3), "costs of single tuples scatter it by 1.5 points"
    assert stela["tasks_moved_to_old_machines"] == 0 and even["tasks_moved"] > stela["tasks_moved"]


def test_what_is_counted_adds_up(simulated: GoldenSeries) -> None:
    """No damaged line, none missing; a queue that grows is no loss."""
    damaged = simulated.rows("damaged", "damaged > 0 or missing > 0")
    assert damaged == []
    before = simulated.rows("losses", "phase = 'before' and run_id = 'stela-r1'")
    assert before and all(not row["lost"] for row in before)


def test_the_report_says_that_it_was_simulated(simulated: GoldenSeries) -> None:
    page = (simulated.root / "report.html").read_text()
    top = page[: page.index('<p class="answer">')]
    assert "Simulated, not measured" in top and "receive_ms 0.02" in top and "docs/simulator.md" in top
    assert '<p class="answer">Simulated. ' in page


def test_lines_of_ten_seconds_say_the_same(simulated: GoldenSeries, in_long_lines: GoldenSeries) -> None:
    """When it is steady is found at another second, so the two have their events at other times."""
    lengths = [row["dt_s"] for row in in_long_lines.rows("worker_samples", "run_id = 'stela-r1'")]
    assert sorted(lengths)[len(lengths) // 2] == 10
    for run in ("even_rebalance-r1", "stela-r1"):
        second, long = (series.measured(run, "e1") for series in (simulated, in_long_lines))
        assert second.keys() == long.keys()
        for metric in (
            "throughput_before",
            "throughput_after",
            "spouts_before",
            "cpu_percent_after",
            "cpu_cores_before",
        ):
            assert long[metric] == pytest.approx(second[metric], rel=0.02), metric
        for metric in ("tasks_moved", "executors_moved", "workers_restarted", "unaffected_workers_restarted"):
            assert long[metric] == second[metric], metric
        assert long["due_before"] == long["due_after"] == pytest.approx(OFFERED, rel=0.001)
        assert long["request_to_running_s"] == pytest.approx(second["request_to_running_s"], abs=3)
        assert long["lost_after"] == pytest.approx(second["lost_after"], abs=long["lost_after_uncertainty"])
        assert long["downtime_s"] == pytest.approx(second["downtime_s"], abs=10)


def test_lines_of_ten_seconds_add_up(in_long_lines: GoldenSeries) -> None:
    assert in_long_lines.rows("damaged", "damaged > 0 or missing > 0") == []
    before = in_long_lines.rows("losses", "phase = 'before' and run_id = 'stela-r1'")
    assert before and all(not row["lost"] and row["uncertainty"] > 0 for row in before)
