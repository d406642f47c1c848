"""Traffic by pairs of tasks, workers and machines, bytes, and what a new placement cost, from raw lines to numbers."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.golden import placed_anew
from tests.golden.series import GoldenSeries

pytestmark = pytest.mark.spark
RUN = placed_anew.RUN


@pytest.fixture(scope="module")
def series(in_one_pass: Mapping[str, GoldenSeries]) -> GoldenSeries:
    return in_one_pass["placed_anew"]


def test_each_pair_of_tasks_has_its_rate_and_where_both_were(series: GoldenSeries) -> None:
    rows = series.rows("task_traffic")
    for phase, where in (("before", placed_anew.BEFORE), ("after", placed_anew.AFTER)):
        found = {
            (row["from"], row["to"]): (row["tuples_per_s"], row["from_slot"], row["to_slot"])
            for row in rows if row["phase"] == phase
        }  # fmt: skip
        assert found == {
            (one, other): (pytest.approx(n), where[one], where[other])
            for (one, other), n in placed_anew.TRAFFIC.items()
        }
    assert {(row["to"], row["to_machine"]) for row in rows if row["phase"] == "after"} == {
        (2, "m1"), (3, "m2"), (4, "m1"),
    }  # fmt: skip


def test_what_passes_between_workers_and_machines(series: GoldenSeries) -> None:
    """Of 60 tuples/s: before 20 + 20 + 10 between machines, after 10 + 10, and 20 between two workers of one."""
    measured = series.measured(RUN)
    shares = {name: value for name, value in measured.items() if name.startswith(("between_", "traffic_"))}
    assert shares == {
        "traffic_per_s_before": pytest.approx(60.0), "traffic_per_s_after": pytest.approx(60.0),
        "between_machines_per_s_before": pytest.approx(50.0), "between_machines_per_s_after": pytest.approx(20.0),
        "between_machines_percent_before": pytest.approx(100 * 50 / 60),
        "between_machines_percent_after": pytest.approx(100 * 20 / 60),
        "between_workers_percent_before": pytest.approx(100 * 50 / 60),
        "between_workers_percent_after": pytest.approx(100 * 40 / 60),
    }  # fmt: skip


def test_bytes_and_cpu_of_machines(series: GoldenSeries) -> None:
    """m1 sends 3000 and receives as many, m2 2000, m3 nothing: of 6000, 4000 and 0 the mean is 3333. The master counts
    in neither."""
    measured = series.measured(RUN)
    assert measured["network_mb_per_s_before"] == pytest.approx(0.005)
    assert measured["network_mb_per_s_after"] == pytest.approx(0.002)
    assert measured["network_busiest_mb_per_s_before"] == pytest.approx(0.006)
    assert measured["network_imbalance_before"] == pytest.approx(1.8)
    assert measured["cpu_imbalance_before"] == pytest.approx(1.5)
    assert measured["cpu_imbalance_after"] == pytest.approx(1.0)


def test_what_storms_ackers_execute_is_processed_too_and_nothing_else(series: GoldenSeries) -> None:
    """30 by work, 30 by the sink, 90 by the acker, whose queue of 7 is no component's."""
    measured = series.measured(RUN)
    assert measured["processed_per_s_before"] == measured["processed_per_s_after"] == pytest.approx(150.0)
    assert {row["queue"] for row in series.rows("activity", "component is null")} == {None}
    assert measured["throughput_after"] == pytest.approx(30.0)


def test_the_decision_and_what_it_moved(series: GoldenSeries) -> None:
    measured = series.measured(RUN)
    assert (measured["decision_ms"], measured["executors_moved"], measured["rescheduled_percent"]) == (12.5, 3.0, 100.0)
    assert (measured["downtime_s"], measured["lost_after"]) == (6.0, 0.0)


def test_rates_as_the_paper_counts_them_have_the_interruption_in_them(series: GoldenSeries) -> None:
    """4 s of the first window and 17 windows: 120 + 5100 tuples, 8000 + 340,000 bytes, in 180 s."""
    measured = series.measured(RUN)
    assert measured["published_emitted_per_s"] == pytest.approx(5220 / 180)
    assert measured["published_network_mb_per_s"] == pytest.approx(0.348 / 180)


def test_when_the_saving_has_paid_for_the_interruption(series: GoldenSeries) -> None:
    """A tuple needed 166.7 bytes. After one window 120 are emitted and 180 missing: -10,000, less 8000 sent. After two
    420 - 180 are 40,000 bytes, and 28,000 were sent."""
    assert series.measured(RUN)["payback_s"] == 20.0
    windows = {row["window_s"]: row for row in series.rows("network_windows")}
    assert [windows[start_s]["tx_bytes"] for start_s in (-10.0, 0.0, 10.0)] == [50_000, 8_000, 20_000]
    assert {row["machines"] for row in windows.values()} == {3}


def test_without_counts_of_traffic_or_ackers_there_is_no_number(
    series: GoldenSeries, in_one_pass: Mapping[str, GoldenSeries]
) -> None:
    without = in_one_pass["placed_anew_uncounted"].measured(RUN)
    assert series.measured(RUN).keys() - without.keys() == {
        name for name in series.measured(RUN) if name.startswith(("between_", "traffic_", "processed_"))
    }


def test_the_communication_graph_of_raw_lines_for_metis(series: GoldenSeries, tmp_path: Path) -> None:
    """294 s with tuples in the whole run: 100 before and 194 after the event. Weights of both directions are added up,
    though here each pair has one."""
    from analysis.pipeline import communication_graph

    path = tmp_path / "run.graph"
    assert communication_graph(series.root, RUN, path) == (4, 4)
    head, *lines = path.read_text().splitlines()
    assert head == f"% {series.root.name}/{RUN}/pairs: vertices are its 4 tasks, ascending from task 1 on"
    n = {pair: rate * 294 for pair, rate in placed_anew.TRAFFIC.items()}
    assert lines == [
        "4 4 011",
        f"{n[1, 2] + n[1, 3]} 2 {n[1, 2]} 3 {n[1, 3]}",
        f"{n[1, 2] + n[2, 4]} 1 {n[1, 2]} 4 {n[2, 4]}",
        f"{n[1, 3] + n[3, 4]} 1 {n[1, 3]} 4 {n[3, 4]}",
        f"{n[2, 4] + n[3, 4]} 2 {n[2, 4]} 3 {n[3, 4]}",
    ]


def test_the_graph_of_one_side_and_of_what_is_not_there(series: GoldenSeries, tmp_path: Path) -> None:
    from analysis.pipeline import communication_graph
    from barograph.errors import ConfigurationError

    path = tmp_path / "side.graph"
    (part,) = series.rows("intervals", "phase = 'after'")
    assert communication_graph(series.root, RUN, path, part=("e1", "after")) == (4, 4)
    first = path.read_text().splitlines()[2].split()
    assert int(first[2]) == 20 * (part["end_s"] - part["start_s"])
    with pytest.raises(ConfigurationError, match=f"no run 'x'; there are {RUN}"):
        communication_graph(series.root, "x", path)
    with pytest.raises(ConfigurationError, match="topology is 'other'; allowed: pairs"):
        communication_graph(series.root, RUN, path, topology="other")
    with pytest.raises(ConfigurationError, match=rf"{RUN}/pairs has no part e9.after; there are e1.before, e1.after"):
        communication_graph(series.root, RUN, path, part=("e9", "after"))
