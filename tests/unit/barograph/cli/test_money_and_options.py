"""Options and money on the command line: what is wrong is said before anything is rented, in one line."""

from pathlib import Path

import pytest

from barograph import cli
from barograph.cli.experiments import experiments_of_this_box
from barograph.cli.preparation import prepare
from barograph.cli.terminal import stdout_console
from barograph.machines.provision import open_requested
from barograph.series import hold
from inventory.leases import registry
from tests.support.fakes.testbed import FakeTestbed

FAKE = ["stela/star", "--testbed", "fake"]


pytestmark = pytest.mark.usefixtures("strangers_box")


BAD = [
    ([*FAKE, "--option", "budget_usd=0"], "testbed.options.fake.budget_usd is 0: Input should be greater than 0"),
    ([*FAKE, "--option", "budget_usd=word"], "testbed.options.fake.budget_usd is 'word'"),
    ([*FAKE, "--option", "regoin=x"], "testbed.options.fake.regoin is not known; known are budget_usd"),
    ([*FAKE, "--option", "budget_usd=1", "--option", "budget_usd=2"], "--option gives budget_usd twice"),
    ([*FAKE, "--option", "budget_usd=[1"], "value '[1' is not YAML"),
    ([*FAKE, "--option", "budget_usd=0.001"], "not even one repetition fits: raise it to"),
    ([*FAKE, "--variants", "nobody"], "stela/star has the variants"),
    (["stela/star", "--testbed", "moon"], "testbed.name is 'moon'; known: "),
    (["stela/star", "--testbed", "local", "--option", "region=x"], "local has no options"),
]

# Of the options of somebody else's machines; what needs an answer of theirs is tested with each testbed.
EC2 = ["stela/star", "--testbed", "ec2", "--option"]
EXISTING = ["stela/star", "--testbed", "existing"]
BAD += [
    (EC2[:-1], "testbed.options.ec2.budget_usd is missing: the most that one series may cost"),
    ([*EC2, "budget_usd=0"], "testbed.options.ec2.budget_usd is 0: Input should be greater than 0"),
    ([*EC2, "budget_usd=5"], "testbed.options.ec2.region is missing and there is no default; set it, or AWS_REGION"),
    ([*EC2, "budget_usd=50", "--option", "region=eu-west-1"], "Unable to locate credentials; set AWS_PROFILE, or"),
    ([*EC2, "budget_usd=50", "--option", "region=eu-middle-9"], "has no price for region eu-middle-9; it has"),
    (
        [*EC2, "budget_usd=50", "--option", "region=eu-west-1", "--option", "instance_types={type_1: z9.huge}"],
        "has no price for z9.huge in eu-west-1; it has",
    ),
    (EXISTING, "testbed.options.existing.inventory is missing: give the path of an Ansible inventory"),
    ([*EXISTING, "--option", "inventory=/nonexistent/hosts.ini"], "there is no such file; give an Ansible inventory"),
    (["stela/star", "--testbed", "emulab"], "testbed.options.emulab is missing; it says how to reach it"),
]


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_bad_options_are_said_before_anything_is_rented(
    command: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main([command, *arguments]) == 2
    screen = capsys.readouterr()
    assert screen.err.startswith("configuration: ") and said in screen.err and screen.err.count("\n") == 1
    assert registry.read_all() == () and not (tmp_path / "results").exists()


def test_a_testbed_is_checked_once_before_a_series_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a provider that is many requests, among others' machines a login on each."""
    checked: list[int] = []
    monkeypatch.setattr(FakeTestbed, "check", lambda _testbed, requests: checked.append(len(requests)))
    monkeypatch.setattr("barograph.cli.preparation.java.require", lambda: None)
    changes = {"testbed": "fake", "variants": ["stela"]}
    series = prepare("stela/star", changes, new=True, console=stdout_console())
    hold.drop(series.folder)
    assert len(checked) == 1
    open_requested("stela/star", changes, new=True)
    assert len(checked) == 2


def test_check_says_what_it_may_cost_and_that_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", *FAKE, "--repetitions", "2", "--option", "core_hour_usd=1"]) == 0
    out = capsys.readouterr().out
    assert "stela/star: can run on fake" in out
    assert "money: about $" in out and "budget $100.00 (4 runs" in out and "prices of 2026-11-21" in out
    assert "warning: the reaper DAG has never succeeded here" in out and registry.read_all() == ()


def test_check_says_what_an_experiment_cannot_show_of_its_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", *FAKE, "--repetitions", "2", "--option", "core_hour_usd=1"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: S")]
    assert [line for line in notes if line.startswith("note: S03") and "2 blocks: no interval" in line]


def test_status_of_the_reaper(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reap"]) == 0
    assert cli.main(["reap", "--status"]) == 0
    out = capsys.readouterr().out
    assert "reaper DAG: no pass yet" in out and "barograph reap: last pass 0 s ago" in out


def test_check_without_a_name_asks_no_provider() -> None:
    said: list[str] = []
    shown = experiments_of_this_box({"testbed": None}, said.append)
    assert "stela/star" in shown and "rented/star" not in shown
    assert said == ["rented/star: is for ec2; barograph check rented/star asks there"]
    assert "rented/star" in experiments_of_this_box({"testbed": "fake"}, said.append)
