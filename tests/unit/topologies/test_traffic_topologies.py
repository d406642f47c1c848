"""The topologies of Fischer and Bernstein (MP): stages, sizes and groupings, what is refused, and who sends to whom."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from topologies import catalogue, public_records, work
from topologies.errors import BadParameter, BrokenTemplate, UnknownWork
from topologies.keys import java_hash

NAMES = ("opengov", "parallel", "payload", "reference")


def flux(name: str, **more: Any) -> dict[str, Any]:
    rendered: dict[str, Any] = yaml.safe_load(catalogue.render(name, **more))
    return rendered


def edges(name: str, **parameters: Any) -> list[tuple[str, str, str, tuple[str, ...]]]:
    shape = catalogue.read_flux(catalogue.render(name, parameters))
    return [(edge.source, edge.target, edge.grouping, edge.fields) for edge in shape.edges]


@pytest.mark.parametrize("name", NAMES)
def test_there_is_an_executor_a_task_and_a_worker_a_machine(name: str) -> None:
    topology = catalogue.read_flux(catalogue.render(name, {"parallelism": 20}))
    assert topology.workers == 20
    assert all(component.tasks == component.executors for component in topology.components)


@pytest.mark.parametrize("name", ["parallel", "payload"])
@pytest.mark.parametrize("depth", [1, 3, 7, 12])
def test_a_chain_has_as_many_bolts_as_its_depth(name: str, depth: int) -> None:
    chain = ["spout", *(f"bolt_{stage}" for stage in range(1, depth + 1))]
    topology = catalogue.read_flux(catalogue.render(name, {"depth": depth}))
    assert [component.name for component in topology.components] == chain
    assert {component.tasks for component in topology.components} == {10}
    assert edges(name, depth=depth) == [(a, b, "fields", ("key",)) for a, b in pairwise(chain)]
    assert topology.sinks == (f"bolt_{depth}",)


def test_the_chain_has_the_papers_sizes() -> None:
    """MP IV-C2 and 3, table II."""
    assert [bolt["constructorArgs"] for bolt in flux("parallel")["bolts"]] == [[16]] * 7
    assert [bolt["constructorArgs"] for bolt in flux("payload")["bolts"]] == [[3072]] * 7
    large = flux("payload", parameters={"size_bytes": 10_000, "shift": 1})
    assert large["spouts"][0]["constructorArgs"] == [500.0, 1, False, "catch_up", 10_000, 1]
    assert large["bolts"][-1]["constructorArgs"] == [10_000]


def test_payloads_queues_fit_the_heap() -> None:
    """Eight executors a worker (MP IV-C2), each with a full queue of the default size, in a third of the heap."""
    config = flux("payload")["config"]
    heap_bytes = 128 * 2**20
    assert "-Xmx128m" in config["topology.worker.childopts"]
    assert 8 * config["topology.executor.receive.buffer.size"] * 3072 < heap_bytes / 3


@pytest.mark.parametrize("stages", [2, 3, 7, 8])
def test_reference_shuffles_to_even_stages_and_groups_to_odd_ones(stages: int) -> None:
    chain = ["spout", *(f"stage_{stage}" for stage in range(2, stages + 1)), "end"]
    found = {
        (source, target): (grouping, fields) for source, target, grouping, fields in edges("reference", stages=stages)
    }
    assert set(found) == set(pairwise(chain))
    for stage, target in enumerate(chain[1:-1], 2):
        assert found[chain[stage - 2], target] == (("shuffle", ()) if stage % 2 == 0 else ("fields", ("value",)))
    assert found[chain[-2], "end"] == ("fields", ("value",))
    assert catalogue.read_flux(catalogue.render("reference", {"stages": stages})).sinks == ("end",)


def test_reference_fans_out_at_one_stage() -> None:
    rendered = flux("reference", parameters={"fan_out": 3, "fan_out_stage": 5, "burst_ms": 100})
    assert [bolt.get("constructorArgs", []) for bolt in rendered["bolts"]] == [[n, 5, 3] for n in range(2, 8)] + [[]]
    assert rendered["spouts"][0]["constructorArgs"] == [500.0, False, "catch_up", 100]
    known = work.topology_work(catalogue.render("reference", {"fan_out": 3, "fan_out_stage": 5}))
    assert {each.name: each.passes for each in known.components} == {
        "spout": 1, "stage_2": 1, "stage_3": 1, "stage_4": 1, "stage_5": 3, "stage_6": 1, "stage_7": 1, "end": 1,
    }  # fmt: skip


def test_opengov_has_half_as_many_tasks_of_each_source_and_one_output() -> None:
    """MP IV-C1: six tasks a machine and one output more."""
    topology = catalogue.read("opengov")
    tasks = {component.name: component.tasks for component in topology.components}
    assert tasks == {
        "quotes": 5, "contracts": 5, "range": 10, "ratio": 10, "surges": 10, "parents": 10, "join": 10, "output": 1,
    }  # fmt: skip
    assert sum(tasks.values()) == 6 * topology.workers + 1
    assert edges("opengov") == [
        ("quotes", "range", "fields", ("symbol",)),
        ("range", "ratio", "fields", ("symbol",)),
        ("ratio", "surges", "fields", ("symbol",)),
        ("surges", "join", "fields", ("company",)),
        ("contracts", "parents", "fields", ("contractor",)),
        ("parents", "join", "fields", ("company",)),
        ("join", "output", "shuffle", ()),
    ]


def test_unthrottled_opengov_has_four_tasks_of_quotes_to_one_of_contracts_and_as_many_as_machines() -> None:
    """They set the mix: as near the 4.4 of the authors' graphs as ten sources come."""
    experiments = Path(__file__).parents[3] / "dags"
    of_machines = yaml.safe_load((experiments / "experiments/metis/opengov.yaml").read_text(encoding="utf-8"))
    sweep = yaml.safe_load((experiments / "sweeps/metis/opengov_machines.yaml").read_text(encoding="utf-8"))
    ((paths, points),) = ((paths, points) for paths, points in sweep["sweep"].items() if "," in paths)
    names = [path.rpartition(".")[2] for path in paths.split(", ")]
    sizes = [dict(zip(names, point, strict=True)) for point in points]
    for document in (of_machines, sweep):
        assert document["topology"]["parameters"]["unthrottled"] is True
        sizes.append(document["topology"]["parameters"] | {"before": document["machines"]["before"]})
    assert len(sizes) == 10
    for each in sizes:
        assert each["quote_sources"] == 4 * each["contract_sources"]
        assert each["quote_sources"] + each["contract_sources"] == each["before"] == each["parallelism"]
    assert work.topology_work(catalogue.render("opengov", sweep["topology"]["parameters"])), "it is simulated"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("parallel", {"depth": 0}, "parallel: parameter depth: 0 is not a whole number from 1 to 1,000"),
        ("parallel", {"depth": 2.5}, "depth: 2.5 is not a whole number from 1 to 1,000"),
        ("parallel", {"parallelism": 0}, "parallelism: 0 is not a whole number from 1 to 10,000"),
        ("parallel", {"parallelism": True}, "parallelism: True is not a whole number"),
        ("payload", {"size_bytes": 15}, "size_bytes: 15 is not a whole number from 16 to 1,000,000"),
        ("payload", {"shift": -1}, "shift: -1 is not a whole number from 0"),
        ("reference", {"stages": 1}, "stages: 1 is not a whole number from 2 to 1,000"),
        ("reference", {"fan_out": 0}, "fan_out: 0 is not a number from 0.001 to 1,000"),
        ("reference", {"burst_ms": 1001}, "burst_ms: 1001 is not a number from 0 to 1,000"),
        (
            "reference",
            {"stages": 4, "fan_out_stage": 5},
            "fan_out_stage: 5 is above stages, which is 4; lower the one or",
        ),
        ("opengov", {"companies": 0}, "companies: 0 is not a whole number from 1 to 20,000"),
        ("opengov", {"contract_skew": -0.1}, "contract_skew: -0.1 is not a number from 0 to 10"),
        ("opengov", {"contracts_per_s": 0}, "contracts_per_s: 0 is not above 0"),
        ("opengov", {"window_days": 1}, "window_days: 1 is not a whole number from 2 to 366"),
        ("opengov", {"day_s": 0}, "day_s: 0 is not a number from 0.01 to 86,400"),
        ("opengov", {"file": 3}, "file: 3 is not text"),
        (
            "opengov",
            {"companies": 4},
            "component quotes: none of its 4 symbols belongs to task .* of 5 .*lower quote_sources",
        ),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadParameter, match=message) as caught:
        catalogue.render(name, parameters)
    assert caught.value.blame == "configuration"


def test_stages_that_are_no_numbers_are_a_broken_template() -> None:
    for span in ("all", {"from": 1}, {"from": "a", "to": 2}, {"from": 1, "to": 2, "step": 0}):
        with pytest.raises(BrokenTemplate, match=r"stages is .*; allowed are whole numbers"):
            catalogue.substitute_parameters([{"stages": span, "id": "x"}], {})
    with pytest.raises(BrokenTemplate, match=r"\$\{deep\} has no default .* known are depth"):
        catalogue.substitute_parameters({"id": "a ${deep} b"}, {"depth": 1})


def test_a_part_of_a_text_may_be_a_parameter_and_a_whole_keeps_its_type() -> None:
    assert catalogue.substitute_parameters(["${n}", "a${n}b", {"c": "${n}${n}"}], {"n": 7}) == [7, "a7b", {"c": "77"}]


# What the simulator is told of them


def test_a_line_of_tasks_has_no_way_out() -> None:
    """Shifted by 31 in the first stage, straight in all others: the parts of the graph are as many as workers."""
    known = work.topology_work(catalogue.render("parallel", {"depth": 3}))
    assert known.routes["spout", "default", "bolt_1"] == tuple((((task + 31) % 10, 1.0),) for task in range(10))
    for before, after in pairwise(["bolt_1", "bolt_2", "bolt_3"]):
        assert known.routes[before, "default", after] == tuple(((task, 1.0),) for task in range(10))


def test_where_keys_go_is_not_made_up() -> None:
    with pytest.raises(UnknownWork, match=r"where the keys of spout go is known only where .* bolt_2 4"):
        work.topology_work(
            catalogue.render("parallel", {"depth": 2}, {"tasks": {"bolt_2": 4}, "executors": {"bolt_2": 4}})
        )


def test_tuples_of_a_chain_are_as_large_as_their_key_and_payload() -> None:
    """Table II of MP has 16 and 3072 bytes; the rest is Kryo's, the machine's name and the due time."""
    parallel, payload = (work.topology_work(catalogue.render(name)) for name in ("parallel", "payload"))
    assert parallel.sent_bytes("spout") == parallel.sent_bytes("bolt_3") == 16 + 18
    assert payload.sent_bytes("spout") == 3072 + 18 + 3
    small = work.topology_work(catalogue.render("payload", {"size_bytes": 112}))
    assert small.sent_bytes("spout") == 112 + 18 + 2
    assert work.topology_work(catalogue.render("reference")).sent_bytes("stage_2") == 20
    assert work.topology_work(catalogue.render("star")).sent_bytes("spout_1") == pytest.approx(40.25 + work.LINE_BYTES)


def test_reference_is_even_everywhere() -> None:
    assert work.topology_work(catalogue.render("reference")).routes == {}


def test_tasks_of_opengovs_sources_feed_few_tasks_of_the_next_component() -> None:
    """Of ten, the two whose place has the same remainder by five; up to the filter lines are straight."""
    routes = work.topology_work(catalogue.render("opengov")).routes
    for source, target in (("quotes", "range"), ("contracts", "parents")):
        for task, ways in enumerate(routes[source, "default", target]):
            assert [place for place, _ in ways] == [task, task + 5]
            assert sum(share for _, share in ways) == pytest.approx(1)
    for source, target in (("range", "ratio"), ("ratio", "surges")):
        assert [[place for place, _ in ways] for ways in routes[source, "default", target]] == [[n] for n in range(10)]
    for source in ("surges", "parents"):
        assert all(len(ways) > 5 for ways in routes[source, "default", "join"]), source
    assert ("join", "default", "output") not in routes


def test_skew_makes_shares_uneven() -> None:
    def spread(**parameters: float) -> float:
        routes = work.topology_work(catalogue.render("opengov", parameters)).routes
        shares = [share for ways in routes["quotes", "default", "range"] for _, share in ways]
        return max(shares) - min(shares)

    assert spread(quote_skew=0.0) < 0.1 < spread(quote_skew=1.5)


def test_as_many_quotes_pass_as_see_a_price_of_before() -> None:
    """19 of 800 days; of the companies that are quoted once a day on average some miss a day."""
    shares = {each.name: each.passes for each in work.topology_work(catalogue.render("opengov")).components}
    assert 0.95 * 19 / 800 < shares["surges"] < 19 / 800
    often = work.topology_work(catalogue.render("opengov", {"rate_per_s": 8000.0}))
    assert often.component("surges").passes == pytest.approx(19 / 800, rel=0.01)
    assert 0 < shares["join"] < 0.5
    assert {shares[name] for name in ("range", "ratio", "parents", "quotes", "contracts")} == {1.0}


def test_of_unthrottled_sources_the_join_emits_a_company_at_most_once_a_day_whatever_the_rate() -> None:
    """Of 760 companies, on days of 2 s, a twentieth at most has a match: 18 a second."""

    def emitted_per_s(quotes_per_s: float) -> float:
        rates = {"rate_per_s": quotes_per_s, "contracts_per_s": quotes_per_s / 4.0}
        known = work.topology_work(catalogue.render("opengov", {"unthrottled": True, **rates}))
        arriving = quotes_per_s * known.component("surges").passes + quotes_per_s / 4.0
        return arriving * known.component("join").passes

    most = 2 * 19 / 800 * 760 / 2.0
    assert 0.8 * most < emitted_per_s(20_000.0) < emitted_per_s(200_000.0) < most * 1.001


def test_of_unthrottled_sources_of_which_nobody_says_what_they_emit_the_join_is_not_simulated() -> None:
    """400 quotes/s are the template's, by which a source that has a rate goes."""
    with pytest.raises(UnknownWork, match=r"rate_per_s is 400, .* 1\.1 quotes a day; allowed is 1140 or more\. Give"):
        work.topology_work(catalogue.render("opengov", {"unthrottled": True}))
    assert work.topology_work(catalogue.render("opengov", {"unthrottled": True, "rate_per_s": 1140.0}))


def test_what_passes_is_what_drawn_records_do() -> None:
    """Event by event, 4000 days: quotes and contracts at random, prices that jump, the filter and the join."""
    companies, window, surge_days, days = 40, 20, 60, 4000
    given = {
        "companies": companies, "contractors": 1, "surge_days": surge_days, "day_s": 1.0, "quote_sources": 1,
        "contract_sources": 1,
        "rate_per_s": 40.0, "contracts_per_s": 20.0, "contract_skew": 1.0,
    }  # fmt: skip
    known = work.topology_work(catalogue.render("opengov", given))
    random = Random(1)
    weights = [1 / (number + 1) for number in range(companies)]
    seen: list[dict[int, int]] = [{} for _ in range(companies)]  # level of the price, and the last day that had it
    surged, awarded, emitted = ([-1000] * companies for _ in range(3))
    passed = joined = 0
    for day in range(days):
        events = [(True, number) for number in random.choices(range(companies), k=40)]
        events += [(False, number) for number in random.choices(range(companies), weights, k=20)]
        random.shuffle(events)
        for is_quote, number in events:
            if is_quote:
                seen[number][(day + number * 37 % surge_days) // surge_days % 2] = day
                if sum(day - last < window for last in seen[number].values()) < 2:
                    continue
                surged[number], passed = day, passed + 1
            else:
                awarded[number] = day
            if abs(surged[number] - awarded[number]) < window and surged[number] >= 0 and emitted[number] < day:
                emitted[number], joined = day, joined + 1
    assert passed / (40 * days) == pytest.approx(known.component("surges").passes, rel=0.03)
    assert joined / (passed + 20 * days) == pytest.approx(known.component("join").passes, rel=0.1)


# A file of one's own

ROWS = """event,symbol,company,parent,amount
quote,ACM,Acme Corporation,,10
quote,ACM,Acme Corporation,,25.5
quote,BOL,Bolt Industries,,30
contract,,Acme Metals,Acme Corporation,50000
contract,,Acme Metals,Acme Corporation,1000
contract,,Screws & Sons,"Bolt, Industries",70000
"""


def own(tmp_path: Path, rows: str = ROWS, **parameters: Any) -> dict[str, Any]:
    path = tmp_path / "records.csv"
    path.write_text(rows, encoding="utf-8")
    return flux("opengov", parameters={"file": str(path), "quote_sources": 1, "contract_sources": 1, **parameters})


def test_a_files_rows_travel_in_the_topology(tmp_path: Path) -> None:
    rendered = own(tmp_path)
    assert rendered["config"]["barograph.parameters"]["file"] == str(tmp_path / "records.csv")
    (content,) = {vertex["constructorArgs"][-1] for vertex in rendered["spouts"]}
    assert next(bolt for bolt in rendered["bolts"] if bolt["id"] == "parents")["constructorArgs"] == [760, content]
    records = public_records.unpack(content)
    assert [entry.weight for entry in records.quotes] == [2, 1]
    assert [entry.weight for entry in records.contracts] == [2, 1]
    assert records.surging == (1.0, 0.0, 0.0)
    assert java_hash("Bolt, Industries") == records.contracts[1].company
    assert own(tmp_path) == rendered, "the same bytes again"
    shares = {each.name: each.passes for each in work.topology_work(yaml.safe_dump(rendered)).components}
    assert shares["surges"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,b\n", "line 1 must be event,symbol,company,parent,amount"),
        ("", "line 1 must be event"),
        (ROWS.replace("quote,BOL", "price,BOL"), "line 4: event is 'price'; allowed are quote, contract"),
        (ROWS.replace("quote,BOL", "quote,"), "line 4: symbol is empty; a quote has one"),
        (ROWS.replace('"Bolt, Industries"', ""), "line 7: parent is empty; a contract has one"),
        (ROWS.replace("25.5", "many"), "line 3: amount is 'many'; allowed is a number above 0"),
        (ROWS.replace("25.5", "-1"), "line 3: amount is '-1'; allowed is a number above 0"),
        (ROWS.replace("25.5", "nan"), "line 3: amount is 'nan'"),
        (ROWS.replace(",,30", ",30"), "line 4: 4 cells; allowed are 5"),
        (
            ROWS.replace("Corporation,1000", "Cor,1000"),
            "line 6: parent is 'Acme Cor', but 'Acme Metals' belongs to 'Acme C",
        ),
        (ROWS.replace("Bolt Industries", '"Bolt\tIndustries"'), "line 4: a cell has a tab or a line break"),
        ("\n".join(ROWS.splitlines()[:4]), "has no row whose event is contract; give at least one of both"),
    ],
)
def test_a_file_that_is_wrong_says_where_and_what_is_allowed(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(BadParameter, match=f"opengov: parameter file: .*records.csv: {message}"):
        own(tmp_path, rows)


def test_a_file_that_is_not_there_or_too_large_or_for_too_many_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"none\.csv' cannot be read .*; give a CSV file with the columns event,"):
        catalogue.render("opengov", {"file": str(tmp_path / "none.csv")})
    (tmp_path / "latin.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(BadParameter, match=r"latin\.csv' cannot be read"):
        catalogue.render("opengov", {"file": str(tmp_path / "latin.csv")})
    many = ROWS + "".join(f"quote,S{n:06d},Company {n * 7919 % 999983},,{n % 97 + 1}\n" for n in range(60_000))
    with pytest.raises(BadParameter, match=r"has 60,006 rows, which take .* allowed are 200,000, .* leave rows out"):
        own(tmp_path, many)
    with pytest.raises(BadParameter, match="component contracts: none of its 2 contractors belongs to task"):
        own(tmp_path, ROWS + "".join(f"quote,S{n},Company {n},,1\n" for n in range(50)), contract_sources=3)
