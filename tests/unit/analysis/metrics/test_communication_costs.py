"""What passes between machines, and when a new placement has paid for itself: every number is reckoned by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from analysis.metrics import communication_costs, measurements
from analysis.metrics.communication_costs import Payback, payback

RUN = "metis-r1/payload"
KEY = {"run_id": RUN, "topology": "", "event_id": "e1"}
BEFORE = {**KEY, "phase": "before", "start_s": -30.0, "end_s": 0.0, "steady": True}
# 100 bytes a tuple between machines before, 1000 tuples a window.
CALM = dict.fromkeys((-30.0, -20.0, -10.0), 1000.0)
DEAR = dict.fromkeys((-30.0, -20.0, -10.0), 100000.0)


def after(*numbers: float) -> dict[float, float]:
    return {10.0 * place: number for place, number in enumerate(numbers)}


def paid(emitted: Sequence[float], sent: Sequence[float], lost: float = 0.0) -> Payback | None:
    return payback({**CALM, **after(*emitted)}, {**DEAR, **after(*sent)}, BEFORE, lost)


def test_what_was_not_emitted_and_what_was_lost_has_to_be_saved_first() -> None:
    """A window without a tuple owes 1000 x 100 bytes, 200 lost tuples 20,000 more. Each window after that sends 40,000
    bytes where it would have been 100,000: -120,000, -60,000, 0."""
    assert paid([0, 1000, 1000, 1000], [0, 40_000, 40_000, 40_000], lost=200) == Payback(30.0, is_horizon=False)
    assert paid([0, 1000, 1000, 1000], [0, 40_000, 40_000, 40_000], lost=201) == Payback(40.0, is_horizon=False)


def test_what_is_emitted_later_is_owed_no_longer() -> None:
    """1000 tuples late: after the second window nothing is missing, and 200,000 bytes would have been needed."""
    assert paid([0, 2000], [0, 199_999]) == Payback(20.0, is_horizon=False)
    assert paid([0, 2000], [0, 200_000]) == Payback(20.0, is_horizon=True)


def test_a_balance_that_falls_again_was_not_paid_by_then() -> None:
    """+60,000, then -40,000, then +20,000 and more."""
    assert paid([1000, 1000, 1000], [40_000, 200_000, 40_000]) == Payback(30.0, is_horizon=False)


def test_what_neither_costs_nor_saves_has_no_time() -> None:
    """The same tuples and bytes as before: there is nothing to pay and nothing to pay it with. A lost tuple is owed for
    ever; so are more bytes."""
    assert paid([1000] * 3, [100_000] * 3) is None
    assert paid([1000] * 3, [100_000] * 3, lost=1) == Payback(30.0, is_horizon=True)
    assert paid([999, 1001, 1000], [99_900, 100_100, 100_000]) == Payback(30.0, is_horizon=True)
    assert paid([1000] * 3, [100_000, 100_000, 100_001]) == Payback(30.0, is_horizon=True)


def test_what_windows_before_differ_by_is_no_saving_and_no_cost() -> None:
    """Before, a tuple needed 95 to 105 bytes (twice the standard error: 4.7), and a window had 950 to 1050 tuples
    (twice the deviation: 82)."""
    tuples = {-30.0: 1050.0, -20.0: 1000.0, -10.0: 950.0}
    sizes = {-30.0: 1050.0 * 95.0, -20.0: 100_000.0, -10.0: 950.0 * 105.0}

    def scattered(emitted: Sequence[float], sent: Sequence[float]) -> Payback | None:
        return payback({**tuples, **after(*emitted)}, {**sizes, **after(*sent)}, BEFORE, 0.0)

    assert scattered([960, 1000], [96_000, 96_000]) is None, "98 bytes a tuple, at most 40 tuples missing"
    assert scattered([900, 1000], [90_000, 96_000]) == Payback(20.0, is_horizon=True), "100 missing and nothing saved"
    assert scattered([1000, 1000], [94_000, 94_000]) == Payback(10.0, is_horizon=False)


@pytest.mark.parametrize("number", [6, 60, 360])
def test_a_saving_is_seen_however_long_was_watched_before(number: int) -> None:
    """6 of 100 bytes a tuple, where windows before have 92 to 108."""
    starts = [-10.0 * place for place in range(number, 0, -1)]
    sizes = {start_s: 100_000.0 + 8_000.0 * (place % 3 - 1) for place, start_s in enumerate(starts)}
    tuples, before = dict.fromkeys(starts, 1000.0), {**BEFORE, "start_s": starts[0]}
    found = payback({**tuples, **after(1000, 1000)}, {**sizes, **after(94_000, 94_000)}, before, 0.0)
    assert found == Payback(10.0, is_horizon=False)


def test_without_all_windows_there_is_no_balance() -> None:
    assert payback({**CALM, **after(0, 1000)}, {**DEAR, 10.0: 40_000.0}, BEFORE, 0.0) is None, "the first is missing"
    assert payback({**CALM, **after(1, 1, 1)}, {**DEAR, 0.0: 1.0, 20.0: 1.0}, BEFORE, 0.0) is None, "one between"
    assert payback(CALM, DEAR, BEFORE, 0.0) is None, "nothing was watched"
    assert payback(after(1000), after(1000), BEFORE, 0.0) is None, "nobody knows what a tuple needed"
    nothing_between = dict.fromkeys(DEAR, 0.0)
    assert payback({**CALM, **after(1000)}, {**nothing_between, **after(1)}, BEFORE, 0.0) is None


# --- from tables ------------------------------------------------------------------------------------------------------


def windows(
    key: Mapping[str, Any], emitted: Mapping[float, float], sent: Mapping[float, float]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rates = [
        {**key, "window_s": start_s, "scope": "spouts", "component": "", "rate": tuples / 10.0, "complete": True}
        for start_s, tuples in emitted.items()
    ]
    sizes = [
        {**key, "window_s": start_s, "machines": 2, "silent": [], "rx_bytes": 0, "tx_bytes": size}
        for start_s, size in sent.items()
    ]
    return rates, sizes


def tables(**changes: list[dict[str, Any]]) -> Mapping[str, list[dict[str, Any]]]:
    rates, sizes = windows(KEY, {**CALM, **after(*[0.0] + [1000.0] * 17)}, {**DEAR, **after(*[0.0] + [40_000.0] * 17)})
    event: dict[str, Any] = {**KEY, "kind": "reschedule", "zero_s": 0.0, "until_s": None, "joined": [], "released": []}
    found = {
        "event_throughput": rates,
        "network_windows": sizes,
        "scale_events": [event],
        "intervals": [BEFORE],
        "moves": [{**KEY, "executors_moved": 3}],
        "losses": [{**KEY, "phase": "after", "lost": 200.0}, {**KEY, "phase": "before", "lost": 9e9}],
        "events": [
            {**KEY, "t_s": 1.0, "kind": "decision", "decision_id": "d2", "ok": None},
            {**KEY, "t_s": 2.0, "kind": "applied", "decision_id": "d2", "ok": True},
            {**KEY, "t_s": 2.0, "kind": "applied", "decision_id": "d3", "ok": False},
        ],
        "decisions": [
            {"run_id": RUN, "decision_id": "d1", "duration_ms": 1.0},
            {"run_id": RUN, "decision_id": "d2", "duration_ms": 37.5},
        ],
        "tuple_rates": [
            {**KEY, "phase": "after", "traffic_per_s": 800.0, "between_workers_per_s": 300.0,
             "between_machines_per_s": 150.0, "unplaced_per_s": 50.0, "executed_per_s": 800.0,
             "ackers_executed_per_s": 900.0},
        ],
        "machines": [{"run_id": RUN, "machine": name, "joins_at_scale": False} for name in ("m1", "m2")],
        "network": [],
    }  # fmt: skip
    return found | changes


def numbers_of(found: Mapping[str, list[dict[str, Any]]]) -> dict[str, float]:
    return {
        metric: value
        for key, numbers, _ in communication_costs.numbers(lambda name: found[name])
        for metric, value in numbers.items()
        if key == ((RUN, ""), "e1") and value is not None
    }


def test_numbers_of_an_event() -> None:
    found = numbers_of(tables())
    assert found == {
        "traffic_per_s_after": 800.0,
        "between_machines_per_s_after": 150.0,
        "between_workers_percent_after": 40.0,  # of the 750 of which it is known where they went
        "between_machines_percent_after": 20.0,
        "processed_per_s_after": 1700.0,
        "published_emitted_per_s": pytest.approx(17_000 / 180),
        "published_network_mb_per_s": pytest.approx(0.68 / 180),
        "decision_ms": 37.5,
        "rescheduled_percent": 100.0,
        "payback_s": 30.0,
    }


def test_of_a_shorter_watch_there_is_no_published_rate() -> None:
    rates, sizes = windows(KEY, {**CALM, **after(*[1000.0] * 17)}, {**DEAR, **after(*[1000.0] * 17)})
    found = numbers_of(tables(event_throughput=rates, network_windows=sizes))
    assert not {"published_emitted_per_s", "published_network_mb_per_s"} & found.keys()


def test_a_window_in_which_a_machine_was_silent_has_no_bytes() -> None:
    rates, sizes = windows(KEY, {**CALM, **after(*[1000.0] * 18)}, {**DEAR, **after(*[1000.0] * 18)})
    sizes[-1]["silent"] = ["m2"]
    found = numbers_of(tables(event_throughput=rates, network_windows=sizes))
    assert "published_emitted_per_s" in found and "published_network_mb_per_s" not in found


def test_a_machine_that_is_not_in_the_cluster_or_is_down_may_be_silent() -> None:
    """m3 joins with the event: it is missing before it, and after it must not be. m2 crashed."""
    rates, sizes = windows(KEY, {**CALM, **after(*[1000.0] * 18)}, {**DEAR, **after(*[1000.0] * 18)})
    machines = [*tables()["machines"], {"run_id": RUN, "topology": "", "machine": "m3", "joins_at_scale": True}]
    joined = [{**tables()["scale_events"][0], "joined": ["m3"]}]
    early = [{**row, "silent": ["m3"] if row["window_s"] < 0.0 else []} for row in sizes]
    changes = {"event_throughput": rates, "machines": machines, "scale_events": joined}
    assert {"published_network_mb_per_s", "payback_s"} <= numbers_of(tables(**changes, network_windows=early)).keys()
    late = [{**row, "silent": ["m3"]} for row in sizes]
    assert "published_network_mb_per_s" not in numbers_of(tables(**changes, network_windows=late))
    crash = {**KEY, "t_s": 1.0, "kind": "crashed", "machine": "m2", "event_id": "e1"}
    down = [{**row, "silent": ["m2"]} for row in sizes]
    found = numbers_of(tables(event_throughput=rates, network_windows=down, events=[*tables()["events"], crash]))
    assert "published_network_mb_per_s" in found


def test_who_moves_nothing_was_not_placed_anew_and_pays_nothing() -> None:
    found = numbers_of(tables(moves=[{**KEY, "executors_moved": 0}]))
    assert found["rescheduled_percent"] == 0.0 and "payback_s" not in found
    scale_out = [{**tables()["scale_events"][0], "kind": "scale_out"}]
    assert "rescheduled_percent" not in numbers_of(tables(scale_events=scale_out))


def test_what_ackers_executed_is_not_guessed() -> None:
    row = {**tables()["tuple_rates"][0], "ackers_executed_per_s": None, "traffic_per_s": None}
    found = numbers_of(tables(tuple_rates=[row]))
    assert not {"processed_per_s_after", "traffic_per_s_after", "between_machines_percent_after"} & found.keys()


def test_bytes_of_several_topologies_are_the_clusters() -> None:
    """Both lose tuples: 100 and 100."""
    cluster, other, one = ({"run_id": "r1", "topology": name, "event_id": "e1"} for name in ("all", "b", "a"))
    rates, sizes = windows(cluster, {**CALM, **after(0, 1000, 1000)}, {**DEAR, **after(0, 40_000, 40_000)})
    found = tables(
        event_throughput=rates, network_windows=sizes, intervals=[{**BEFORE, **cluster}],
        moves=[{**one, "executors_moved": 1}, {**other, "executors_moved": 0}], scale_events=[], tuple_rates=[],
        losses=[{**each, "phase": "after", "lost": 100.0} for each in (one, other)],
    )  # fmt: skip
    paid_back = [(key, numbers) for key, numbers, _ in communication_costs.numbers(lambda name: found[name])
                 if "payback_s" in numbers]  # fmt: skip
    assert paid_back == [((("r1", "all"), "e1"), {"payback_s": 30.0})]


def network(machine: str, sent: float | None, received: float, interface: str = "exp0") -> dict[str, Any]:
    return {**KEY, "phase": "after", "machine": machine, "interface": interface, "tx_bytes_per_s": sent,
            "rx_bytes_per_s": received}  # fmt: skip


def test_bytes_of_machines() -> None:
    """m1 sends 3 and receives 1 MB/s, m2 1 and 1: of 4 and 2 the mean is 3. Without the master and the control LAN."""
    rows = [network("m1", 3e6, 1e6), network("m2", 1e6, 1e6), network("master", 9e6, 9e6),
            network("m1", 7e6, 7e6, "ctl0")]  # fmt: skip
    found = {row["metric"]: row["value"] for row in measurements.network_loads(lambda name: tables(network=rows)[name])}
    assert found == {
        "network_mb_per_s_after": 4.0,
        "network_busiest_mb_per_s_after": 4.0,
        "network_imbalance_after": pytest.approx(4.0 / 3.0),
    }


def test_where_a_machine_does_not_say_there_is_no_sum() -> None:
    rows = [network("m1", 3e6, 1e6), network("m2", None, 1e6)]
    assert list(measurements.network_loads(lambda name: tables(network=rows)[name])) == []
    assert list(measurements.network_loads(lambda name: tables(network=rows[:1])[name])) == [], "m2 has no row"
