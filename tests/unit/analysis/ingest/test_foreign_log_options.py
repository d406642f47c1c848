import gzip
from pathlib import Path

import pytest

from analysis.ingest import readers
from barograph.errors import ConfigurationError
from tests.golden import foreign_logs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return foreign_logs.write(tmp_path / "output_bolt", foreign_logs.stela_lines())


def refusal(format: str, *files: Path, name: str = "old/star", **given: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        readers.read(format, list(files), Path("/nonexistent"), name=name, options=given)
    assert caught.value.blame == "configuration"
    return str(caught.value)


def test_unknown_format_names_the_known_ones(log: Path) -> None:
    assert refusal("stela", log) == "format is 'stela'; there are storm_metrics, stela_statistics, henge"


@pytest.mark.parametrize("name", ["star", "a/b/c", "../x", "old/", "old/st ar"])
def test_a_name_has_two_parts(log: Path, name: str) -> None:
    assert f"name is {name!r}; give family/name" in refusal("stela_statistics", log, name=name)


def test_no_file_missing_file_and_a_file_twice(log: Path) -> None:
    assert "no file was given" in refusal("stela_statistics")
    assert "nowhere: no such file" in refusal("stela_statistics", Path("nowhere"))
    assert "given twice" in refusal("stela_statistics", log, log)


@pytest.mark.parametrize("text", ["", "\n  \n"])
def test_an_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "empty.log"
    file.write_text(text)
    assert "empty.log: is empty; wanted are storm_metrics lines such as" in refusal("storm_metrics", file)


def test_a_file_of_another_format_says_which(log: Path) -> None:
    message = refusal("storm_metrics", log)
    assert "output_bolt: line 1 is '0:stela:sink_output_1,sink_output_2,:star-1-1763702000:0'" in message
    assert "it looks like stela_statistics" in message


def test_mixed_files_are_refused_by_the_one_that_differs(log: Path, tmp_path: Path) -> None:
    other = foreign_logs.write(tmp_path / "worker.log.metrics", foreign_logs.old_storm_lines())
    assert refusal("stela_statistics", log, other).startswith(f"{other}: line 1 is")


def test_a_packed_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "old.log.gz"
    file.write_bytes(gzip.compress("".join(foreign_logs.stela_lines()).encode())[:60])
    assert "old.log.gz: cannot be read" in refusal("stela_statistics", file)


@pytest.mark.parametrize(
    ("companion", "said"),
    [
        ("scaled_at: 300", "unknown option 'scaled_at'; there are scaled_at_s, "),
        ("interval_s: -1", "interval_s is -1: input should be greater than 0"),
        ("sinks: median", "sinks is 'median': input should be 'mean' or 'sum'"),
        ("- 300", "holds a list; give options as `name: value` lines"),
        ("a: [", "cannot be read as YAML"),
    ],
)
def test_a_companion_that_does_not_fit_is_named(log: Path, companion: str, said: str) -> None:
    beside = log.with_name("output_bolt.yaml")
    beside.write_text(companion)
    message = refusal("stela_statistics", log)
    assert message.startswith(f"{beside}: ")
    assert said in message


def test_options_of_the_caller_are_checked_too(log: Path) -> None:
    assert refusal("stela_statistics", log, interval_s=0).startswith("options: interval_s is 0")
