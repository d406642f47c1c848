"""Measurements in long form, one number a run, event and metric: the basis of claims, comparisons and the table of
runs.

Numbers of a run as a whole have the event `e0`. Plain Python over small tables: a few rows an event or a window.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from analysis.metrics import communication_costs, ramps, untimed
from analysis.metrics.definitions import ATTAINED, LATENCIES, LATENCY_COLUMNS, metric
from analysis.record.event_timeline import FIRST_EVENT, REST, WHOLE_RUN, absent_machines, crashed_machines
from analysis.record.small_tables import Row, unit_columns, unit_of
from barograph.plan.experiment import WHOLE_CLUSTER

Reader = Callable[[str], list[Row]]
Key = tuple[Any, ...]
Numbers = Mapping[str, float | None]


def by_event(rows: Iterable[Row], *more: str) -> dict[Key, list[Row]]:
    """Return rows by (unit, event) and further columns."""
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        groups[unit_of(row), row["event_id"], *(row[name] for name in more)].append(row)
    return groups


def measurements(read: Reader) -> list[Row]:
    """Return every number. `censored`: the value is no time but the horizon that the run reached without converging, a
    lower bound. `steady`: whether the sides that it rests on were."""
    parts = (
        throughput_levels, offered_rates, convergence_times, downtimes, tuple_losses, tuple_drops, late_emissions,
        latencies, untimed_shares, machine_loads, network_loads, communication, executor_moves, worker_restarts,
        machine_changes, running_times, loading_times, service_levels, policy_costs, growing_loads,
    )  # fmt: skip
    found = [row for part in parts for row in part(read) if row["value"] is not None]
    steady = {(unit_of(row), row["event_id"], row["phase"]): row["steady"] for row in read("intervals")}
    for row in found:  # False where any side was not steady; None where it rests on none, or one was not tested
        sides = [steady.get((unit_of(row), row["event_id"], side)) for side in metric(row["metric"]).steady_sides]
        row["steady"] = False if False in sides else True if sides and None not in sides else None
    return found


def _metric_rows(row: Row | Key, numbers: Numbers, censored: Iterable[str] = ()) -> Iterator[Row]:
    """Yield a row a number; `row` is one with the keys, or the keys themselves."""
    unit, event_id = row[:2] if isinstance(row, tuple) else (unit_of(row), row["event_id"])
    for name, value in numbers.items():
        of_metric = {"metric": name, "value": None if value is None else float(value), "censored": name in censored}
        yield {**unit_columns(unit), "event_id": event_id, **of_metric}


def _of_sides(found: Iterable[Row]) -> Iterator[Row]:
    """Yield rows without the rests, which are parts of sides."""
    return (row for row in found if row["phase"] != REST)


def _column_values(found: Iterable[Row], column: str) -> list[float]:
    return [row[column] for row in found if row[column] is not None]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _total(values: Sequence[float]) -> float | None:
    return sum(values) if values else None


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def throughput_levels(read: Reader) -> Iterator[Row]:
    """Yield mean throughput of the part that counts before and after, tuples/s, and the gain in percent."""
    for key, sides in by_event(read("intervals")).items():
        mean = {row["phase"]: row["mean"] for row in sides}
        ratio = _share(mean.get("after"), mean.get("before"))
        gain = None if ratio is None else 100 * (ratio - 1)
        yield from _metric_rows(key, {"throughput_before": mean.get("before"), "throughput_after": mean.get("after"),
                               "gain_percent": gain})  # fmt: skip


def offered_rates(read: Reader) -> Iterator[Row]:
    """Yield rates at the spouts, emitted and due, over the same parts."""
    windows = by_event(read("event_throughput"), "scope")
    for span in read("intervals"):
        for scope in ("spouts", "due"):
            rates = [row for row in windows[unit_of(span), span["event_id"], scope]
                     if span["start_s"] <= row["window_s"] < span["end_s"]]  # fmt: skip
            yield from _metric_rows(span, {f"{scope}_{span['phase']}": _mean(_column_values(rates, "rate"))})


def convergence_times(read: Reader) -> Iterator[Row]:
    for row in read("convergence"):
        name = f"convergence_{row['definition']}_s"
        value = row["horizon_s"] if row["time_s"] is None else row["time_s"]
        yield from _metric_rows(row, {name: value}, [name] if row["censored"] else ())


def downtimes(read: Reader) -> Iterator[Row]:
    for row in read("downtime"):
        names = ("downtime_s", "longest_s", "windows_at_zero_s")
        yield from _metric_rows(row, {name: row[name] for name in names}, names if row["lasts"] else ())


def tuple_losses(read: Reader) -> Iterator[Row]:
    """Yield tuples lost on all edges in each phase; after the event also their possible error and share."""
    for (unit, event_id, phase), edges in by_event(_of_sides(read("losses")), "phase").items():
        lost, sent = _total(_column_values(edges, "lost")), _total(_column_values(edges, "sent"))
        numbers: dict[str, float | None] = {f"lost_{phase}": lost}
        if phase == "after":
            numbers["lost_after_uncertainty"] = _total(_column_values(edges, "uncertainty"))
            numbers["lost_after_percent"] = untimed.percent(lost, sent)
        yield from _metric_rows((unit, event_id), numbers)


def tuple_drops(read: Reader) -> Iterator[Row]:
    """Yield tuples that limits on queues dropped in each phase and in the whole run, and their share of those sent to
    components with such a limit."""
    limited = [row for row in _of_sides(read("losses")) if row["dropped"] is not None]
    parts: dict[tuple[Any, str, str], list[Row]] = {}
    for (unit, event_id, phase), edges in by_event(limited, "phase").items():
        parts[unit, event_id, f"_{phase}"] = edges
        if phase == "after" or event_id == FIRST_EVENT:  # what is before another event is after the one before it
            parts.setdefault((unit, WHOLE_RUN, ""), []).extend(edges)
    for (unit, event_id, side), edges in parts.items():
        dropped, sent = (sum(_column_values(edges, name)) for name in ("dropped", "sent"))
        numbers = {f"dropped{side}": dropped, f"dropped_percent{side}": untimed.percent(dropped, sent)}
        yield from _metric_rows((unit, event_id), numbers)


def late_emissions(read: Reader) -> Iterator[Row]:
    """Yield tuples that sources never emitted, or late, in each phase; none unless known of every source."""
    for (unit, event_id, phase), sources in by_event(_of_sides(read("emissions")), "phase").items():
        for name in ("missed", "late"):
            counts = _column_values(sources, name)
            total = _total(counts) if len(counts) == len(sources) else None
            yield from _metric_rows((unit, event_id), {f"{name}_{phase}": total})


def latencies(read: Reader) -> Iterator[Row]:
    """Yield the latencies that half and 95 % of all tuples keep to in the part that counts."""
    for row in read("interval_latency"):
        yield from _metric_rows(row, {f"{name}_{row['phase']}": row[LATENCY_COLUMNS[name]] for name in LATENCIES})


def untimed_shares(read: Reader) -> Iterator[Row]:
    """Yield shares of the tuples due in the part that counts that never came to a sink; none if unknown. Lost tuples
    are not included: they are known for a whole side only, and most of them are due to the event."""
    behind, waiting = untimed.queues(read("activity"))
    tuples = untimed.tuples_of_windows(read("event_throughput"))
    timed = {(unit_of(row), row["event_id"], row["phase"]): row["n"] for row in read("interval_latency")}
    for span in read("intervals"):
        key, part = (unit_of(span), span["event_id"]), (span["start_s"], span["end_s"])
        due, emitted, dropped = (tuples.get((*key, scope), {}) for scope in ("due", "spouts", "dropped"))
        never = untimed.never_emitted(due, emitted, behind.get(key, {}), 0.0, *part)
        kept, gone = untimed.growth(waiting.get(key, {}), *part), untimed.total(dropped, *part) or 0.0
        offered, of_sinks = untimed.total(due, *part), timed.get((*key, span["phase"]))
        if never is not None and kept is not None and offered and of_sinks:
            missing = never + kept + gone
            share = untimed.percent(missing, min(offered, of_sinks + missing))
            yield from _metric_rows(key, {f"untimed_percent_{span['phase']}": share})


def machine_loads(read: Reader) -> Iterator[Row]:
    """Yield utilisation in percent of quota, its mean over the workers' machines, its spread, and the highest over the
    mean; their memory in percent of limit, mean; of all machines, including the master: the highest steal, and cores
    and MB together. Except for steal each needs all of its machines: one that was not measured may have been the
    busiest.

    A machine counts from when it joined until an event released it, even if it is there and measured all the time.
    """
    described = read("machines")
    absent, crashed = absent_machines(read("scale_events"), described), crashed_machines(read("events"))
    for (unit, event_id, phase), found in by_event(read("cpu"), "phase").items():
        gone = absent.get((unit, event_id, phase), set())
        machines = [row for row in found if row["machine"] not in gone]
        silent = _workers(described, unit[0]) - {row["machine"] for row in machines} - gone - crashed[unit[0]]
        workers = [row for row in machines if row["joins_at_scale"] is not None]  # the master is in no run's machines
        used, memory_used = (
            [] if silent or None in shares else [100 * share for share in shares]
            for shares in ([row[name] for row in workers] for name in ("utilisation_mean", "memory_share_mean"))
        )
        values = ([row[name] for row in machines] for name in ("cores_mean", "memory_bytes_mean"))
        cores, memory = (None if silent or not each or None in each else sum(each) for each in values)
        numbers = {
            "cpu_percent": _mean(used),
            "cpu_spread_percent": max(used) - min(used) if used else None,
            "cpu_imbalance": _share(max(used, default=None), _mean(used)),
            "cpu_steal_percent": max(_column_values(machines, "steal_percent_mean"), default=None),
            "cpu_cores": cores,
            "memory_percent": _mean(memory_used),
            "memory_mb": None if memory is None else memory / 1e6,
        }
        yield from _metric_rows((unit, event_id), {f"{name}_{phase}": value for name, value in numbers.items()})


def network_loads(read: Reader) -> Iterator[Row]:
    """Yield traffic between the workers' machines, MB/s: all that left one of them; the busiest machine, both ways, and
    its excess over their mean. Machines count as in `machine_loads`; if one of them was not measured there are no
    numbers, unless it had crashed."""
    described = read("machines")
    absent, crashed = absent_machines(read("scale_events"), described), crashed_machines(read("events"))
    on_lan = [row for row in read("network") if row["interface"] == communication_costs.EXPERIMENT_LAN]
    for (unit, event_id, phase), found in by_event(on_lan, "phase").items():
        there = _workers(described, unit[0]) - absent.get((unit, event_id, phase), set())
        machines = [row for row in found if row["machine"] in there]
        silent = there - {row["machine"] for row in machines} - crashed[unit[0]]
        sent, received = (_column_values(machines, f"{name}_bytes_per_s") for name in ("tx", "rx"))
        if silent or not machines or not len(machines) == len(sent) == len(received):
            continue
        both = [one + other for one, other in zip(sent, received, strict=True)]
        numbers = {
            "network_mb_per_s": sum(sent) / 1e6,
            "network_busiest_mb_per_s": max(both) / 1e6,
            "network_imbalance": _share(max(both), _mean(both)),
        }
        yield from _metric_rows((unit, event_id), {f"{name}_{phase}": value for name, value in numbers.items()})


def _workers(described: Iterable[Row], run_id: str) -> set[str]:
    """Return the machines of a run without its master."""
    return {row["machine"] for row in described if row["run_id"] == run_id}


def communication(read: Reader) -> Iterator[Row]:
    """Yield tuples between tasks, workers and machines, and the costs and savings of a new placement."""
    for key, numbers, censored in communication_costs.numbers(read):
        yield from _metric_rows(key, numbers, censored)


def executor_moves(read: Reader) -> Iterator[Row]:
    """Yield moves, and the distance of the joined machines' instances from SP II-B's, new machines x instances /
    machines rounded up (algorithm 2 runs `while slot < Ninstances`)."""
    names = ("executors_before", "executors_after", "executors_moved", "tasks_moved", "tasks_moved_to_old_machines",
             "instances_on_joined")  # fmt: skip
    for row in read("moves"):
        instances, new_count, old_count = row["executors_before"], row["joined_machines"], row["old_machines"]
        target = -(-instances * new_count // old_count) if instances is not None and new_count and old_count else None
        excess = {"instances_on_joined_over_expected": None if target is None else row["instances_on_joined"] - target}
        yield from _metric_rows(row, {name: row[name] for name in names} | excess)


def worker_restarts(read: Reader) -> Iterator[Row]:
    """Yield workers that restarted after the event, and those of them whose own executors had not changed."""
    for key, workers in by_event(read("slots")).items():
        survivors = [row for row in workers if row["seen_before"]]
        restarts = [row for row in workers if row["restarts"] > 0]
        yield from _metric_rows(key, {
            "workers_before": len(survivors),
            "workers_unaffected": sum(not row["changed"] for row in survivors),
            "workers_restarted": len(restarts),
            "unaffected_workers_restarted": sum(not row["changed"] for row in restarts),
        })  # fmt: skip


def machine_changes(read: Reader) -> Iterator[Row]:
    """Yield machines that left for good or joined in an event, and the number of requests until it was carried out: for
    the cluster, if a run has several topologies."""
    spans = read("scale_events")
    units = {unit_of(row) for row in spans}
    for row in spans:
        cluster = (row["run_id"], WHOLE_CLUSTER)
        if row["event_id"] != WHOLE_RUN and (unit_of(row) == cluster or cluster not in units):
            released, joined = (None if row[name] is None else len(row[name]) for name in ("released", "joined"))
            yield from _metric_rows(row, {
                "machines_released": released, "machines_given_back": row["given_back"], "machines_joined": joined,
                "attempts": row["attempts"],
            })  # fmt: skip


def running_times(read: Reader) -> Iterator[Row]:
    """Yield the time from the request to the last executor running and its parts; censored if one never ran."""
    bounded = ("request_to_running_s", "rebalance_s")
    for row in read("running"):
        names = ("request_to_decision_s", "request_to_applied_s", *bounded)
        yield from _metric_rows(row, {name: row[name] for name in names}, bounded if row["censored"] else ())


def loading_times(read: Reader) -> Iterator[Row]:
    for row in read("loading"):
        yield from _metric_rows((unit_of(row), WHOLE_RUN), {"submit_to_loaded_s": row["submit_to_loaded_s"]})


def service_levels(read: Reader) -> Iterator[Row]:
    """Yield what was attained of service levels; none where a part of the time is not known."""
    for row in read("attainment"):
        if row["unknown"]:
            continue
        if row["phase"] == "before":
            yield from _metric_rows(row, {"utility_before": row["utility"]})
            continue
        numbers = {"utility_after": row["utility"], "met_percent_after": _percent(row["met"])}
        numbers |= {f"{name}_percent_after": _percent(row[name]) for name in ATTAINED}
        times = {"time_to_max_utility_s": row["time_to_max_s"], "settling_s": row["settling_s"]}
        censored = [name for name, is_open in (("time_to_max_utility_s", row["time_to_max_s"] is None),
                                               ("settling_s", row["restless"])) if is_open]  # fmt: skip
        numbers |= times | dict.fromkeys(censored, row["watched_s"])
        yield from _metric_rows(row, numbers | {"overshoot_percent_after": _percent(row["overshoot"])}, censored)


def policy_costs(read: Reader) -> Iterator[Row]:
    """Yield rounds, actions and executor-seconds after an event; of the run as a whole from when a policy may act."""
    for row in read("costs"):
        if row["phase"] == "after":
            names = ("rounds", "actions", "executor_s")
            yield from _metric_rows(row, {f"{name}_after": row[name] for name in names})


def growing_loads(read: Reader) -> Iterator[Row]:
    """Yield levels and machines of a load that grows all the time; none of other runs."""
    for event, numbers, censored in ramps.numbers(read):
        yield from _metric_rows(event, numbers, censored)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share
