"""What components do to tuples: read out of Flux YAML, and their texts' lengths against LogLines.java."""

import math
import re
from pathlib import Path

import pytest
import yaml

from topologies import catalogue, work
from topologies.errors import UnknownWork

JAVA = Path(work.__file__).parent / "src/main/java/barograph/topologies"


def constant(file: str, name: str) -> float:
    found = re.search(rf" {name} = ([0-9.]+);", (JAVA / file).read_text())
    assert found, name
    return float(found[1])


def test_texts_are_as_long_as_the_sources_are() -> None:
    shortest, longest = constant("LogLines.java", "SHORTEST"), constant("LogLines.java", "LONGEST")
    longest_short = constant("LogLines.java", "LONGEST_SHORT")
    assert (work.SHORT[0], work.SHORT[-1], work.LONG[0], work.LONG[-1]) == (
        shortest, longest_short, longest_short + 1, longest,
    )  # fmt: skip
    assert float(work.SHORT_SHARE) == constant("LogLines.java", "SHORT_SHARE")
    assert sum(work.SOURCE_LENGTHS.values()) == pytest.approx(1.0)
    assert work.mean(work.SOURCE_LENGTHS) == pytest.approx(work.SOURCE_CHARACTERS) == 40.25


def test_the_spread_of_lengths_is_that_of_two_uniform_distributions() -> None:
    """Variance within: (n² − 1) / 12 of each; between: 0.7 × 0.3 × (80.5 − 23)²."""
    variance = 0.7 * (35**2 - 1) / 12 + 0.3 * (80**2 - 1) / 12 + 0.21 * 57.5**2
    assert work.squared_variation(work.SOURCE_LENGTHS) == pytest.approx(variance / 40.25**2)


def test_a_line_is_as_long_as_its_text_and_its_other_fields() -> None:
    fields = re.search(r"new Fields\((.*)\)", (JAVA / "Line.java").read_text())
    assert fields and fields[1] == '"text", "id", "count", SOURCE_MACHINE, DUE_MS'
    assert work.tuple_bytes({40: 0.5, 60: 0.5}) - work.tuple_bytes({0: 1.0}) == 50
    assert work.tuple_bytes({0: 1.0}) == 25


def test_star_is_read_with_its_parameters_and_settings() -> None:
    config = {work.BUFFER: 512, work.ACKERS: 2, work.TRAFFIC: True}
    given = {"cost_model": "busy", "on_restart": "skip"}
    star = work.topology_work(catalogue.render("star", given, {"workers": 3, "config": config}))
    assert (star.workers, star.buffer, star.ackers, star.has_traffic) == (3, 512.0, 2, True)
    assert [work.queue_length(size) for size in (2, 3, 256, 5000, "unbounded")] == [2, 4, 256, 8192, math.inf]
    spout, centre, sink = (star.component(name) for name in ("spout_1", "centre", "sink_2"))
    assert (spout.rate_per_s, spout.on_restart, spout.is_unthrottled) == (360.0, "skip", False)
    assert (centre.cost_model, centre.ms_per_character, centre.tasks, centre.executors) == ("busy", 0.2, 4, 2)
    assert (sink.ms_per_character, sink.kind) == (0.0, "bolt")


def test_lengths_follow_a_text_along_the_topology() -> None:
    """page_load: transform keeps 0.8, aggregate appends 8. Rounding takes no more than half a character."""
    lengths = {name: work.mean(each) for name, each in _page_load().lengths.items()}
    assert lengths["transform"] == pytest.approx(40.25)
    assert lengths["filter"] == pytest.approx(0.8 * 40.25, abs=0.5)
    assert lengths["aggregate"] == pytest.approx(lengths["filter"])
    assert lengths["sink"] == pytest.approx(lengths["aggregate"] + 8)


def test_where_streams_join_their_texts_are_mixed_by_their_rates() -> None:
    """join_output gets 0.8 of the lines by one branch and 0.64 by the other."""
    work_ = work.topology_work(catalogue.render("network_monitoring"))
    lengths = {name: work.mean(each) for name, each in work_.lengths.items()}
    by_success = work.mean(work_.component("parse_success").sent_on(work_.lengths["parse_success"]))
    by_failure = work.mean(work_.component("functor").sent_on(work_.lengths["functor"]))
    assert lengths["join_output"] == pytest.approx((0.8 * by_success + 0.64 * by_failure) / 1.44)


def test_lines_are_split_into_words() -> None:
    """Counted one word at a time, as SplitBolt does it."""
    sent = work.topology_work(catalogue.render("word_count", {"word_characters": 7}))
    split, words = sent.component("split"), dict.fromkeys(range(1, 8), 0.0)
    for length, share in work.SOURCE_LENGTHS.items():
        for begin in range(0, length, 7):
            words[min(begin + 7, length) - begin] += share
    assert split.passes == pytest.approx(sum(words.values()))
    assert sent.lengths["count"] == pytest.approx({size: n / split.passes for size, n in words.items()})
    assert work.mean(sent.lengths["output"]) == pytest.approx(40.25 / split.passes + 8)


def test_words_of_lines_that_are_no_source_s_are_not_known() -> None:
    flux = yaml.safe_load(catalogue.render("word_count"))
    flux["streams"][0]["to"], flux["streams"][1]["from"], flux["streams"][1]["to"] = "count", "count", "split"
    flux["streams"][2]["from"] = "split"
    with pytest.raises(UnknownWork, match="component split: how many words"):
        work.topology_work(yaml.safe_dump(flux))


def test_a_join_sends_each_line_on() -> None:
    sent = work.topology_work(catalogue.render("joins"))
    assert sent.component("join").passes == 1
    assert work.mean(sent.lengths["output"]) == pytest.approx(40.25 + 8)


def test_state_is_not_modelled_and_refused_with_what_to_do() -> None:
    with pytest.raises(UnknownWork, match=r"topology word_count_stateful has state: .* Take machines \(testbed local"):
        work.topology_work(catalogue.render("word_count_stateful"))


def test_texts_are_rounded_half_up_as_in_java() -> None:
    """5 × 0.5 is 2.5, which Python rounds to 2 and Java to 3."""
    component = work.ComponentWork("transform", "bolt", 1, 1, keeps=0.5)
    assert component.sent_on({5: 1.0, 4: 0.0}) == {3: 1.0, 2: 0.0}


def test_a_class_that_is_not_ours_is_refused_in_words() -> None:
    flux = yaml.safe_load(catalogue.render("star"))
    flux["bolts"][0]["className"] = "org.example.TheirBolt"
    with pytest.raises(UnknownWork, match=r"component centre: what org\.example\.TheirBolt .*known are SourceSpout"):
        work.topology_work(yaml.safe_dump(flux))


def test_components_that_feed_each_other_are_refused_in_words() -> None:
    flux = yaml.safe_load(catalogue.render("page_load"))
    flux["streams"].append({"from": "join", "to": "filter", "grouping": {"type": "SHUFFLE"}})
    with pytest.raises(UnknownWork, match='contains cycles in components "filter,join"; how long the texts'):
        work.topology_work(yaml.safe_dump(flux))


def _page_load() -> work.TopologyWork:
    return work.topology_work(catalogue.render("page_load"))
