"""Options and prices: what is wrong is said by field and value, before anything else."""

import errno
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from barograph.errors import ConfigurationError
from inventory import machines
from inventory.ec2 import launch, survey
from inventory.ec2.options import PRICES_FILE, Ec2Options, load_prices
from inventory.ec2.testbed import Ec2Testbed
from inventory.machines import MachineRequest
from inventory.remote import ssh

CLUSTER = [
    MachineRequest("master", machines.machine_type("master")),
    *(MachineRequest(f"m{n}", machines.machine_type("type_1")) for n in range(1, 6)),
]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"region": "us-east-1"}, r"testbed\.options\.ec2\.budget_usd is missing: the most that one series may cost"),
        ({"budget_usd": 0}, r"testbed\.options\.ec2\.budget_usd is 0: .*greater than 0"),
        ({"budget_usd": True}, r"budget_usd is True"),
        ({"budget_usd": "5"}, r"budget_usd is '5': .*number"),
        ({"budget_usd": 5, "regoin": "x"}, r"ec2\.regoin is not known; known are .*region"),
        ({"budget_usd": 5, "region": "Frankfurt"}, r"region is 'Frankfurt'"),
        ({"budget_usd": 5, "zones": ["us-east-1"]}, r"zones\.0 is 'us-east-1'"),
        ({"budget_usd": 5, "instance_types": {"type_1": "large"}}, r"instance_types\.type_1 is 'large'"),
        ({"budget_usd": 5, "market": "cheap"}, r"market is 'cheap': .*'on_demand' or 'spot'"),
        ({"budget_usd": 5, "price_limit_usd": 0.1}, r"price_limit_usd is 0\.1 and market is on_demand; .*market: spot"),
        ({"budget_usd": 5, "vpc": "vpc-1", "subnet": "subnet-1"}, r"a subnet says its VPC: remove vpc"),
        ({"budget_usd": 5, "ingress_from": "0.0.0.0/0"}, r"lets 4294967296 addresses in; at most a /16"),
        ({"budget_usd": 5, "ingress_from": "myself"}, r"ingress_from is 'myself'.*198\.51\.100\.7/32"),
        ({"budget_usd": 5, "disk_gb": 1}, r"disk_gb is 1: .*greater than or equal to 8"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Ec2Testbed(options)


def test_without_options_the_budget_is_asked_for_only_when_it_is_needed(state: Path) -> None:
    testbed = Ec2Testbed()
    assert testbed.leftovers() == () == testbed.sweep()
    with pytest.raises(ConfigurationError, match=r"testbed\.options\.ec2\.budget_usd is missing"):
        testbed.check(CLUSTER)


def test_without_a_region_it_says_where_to_put_one(state: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ec2\.region is missing .*AWS_REGION"):
        Ec2Testbed({"budget_usd": 5}).estimate(CLUSTER, 1.0)


def test_an_estimate_by_hand(state: Path) -> None:
    found = Ec2Testbed({"budget_usd": 5, "region": "us-east-1"}).estimate(CLUSTER, 2.0)
    assert found.lines == {
        "1 × m7a.medium, 2.0 h, on demand (data transfer is not counted)": pytest.approx(2 * 0.05796),
        "5 × c7a.medium, 2.0 h, on demand (data transfer is not counted)": pytest.approx(5 * 2 * 0.05132),
        "6 × 16 GB of disk, 2.0 h": pytest.approx(6 * 16 * 0.08 / 730 * 2),
        "6 × public address, 2.0 h": pytest.approx(6 * 2 * 0.005),
    }
    assert found.prices_of == "2026-11-21"


def test_spot_counts_with_its_limit_or_with_the_price_on_demand(state: Path) -> None:
    spot = {"budget_usd": 5, "region": "eu-west-1", "market": "spot", "addresses": "private"}
    limited = Ec2Testbed({**spot, "price_limit_usd": 0.02}).estimate(CLUSTER[1:], 1.0)
    assert limited.lines["5 × c7a.medium, 1.0 h, spot, at most 0.02 an hour each (data transfer is not counted)"] == 0.1
    assert len(limited.lines) == 2
    unlimited = Ec2Testbed(spot).estimate(CLUSTER[1:], 1.0)
    assert max(unlimited.lines.values()) == pytest.approx(5 * 0.05506)


def test_a_price_that_nobody_read_says_so(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Ec2Testbed({"budget_usd": 5, "region": "eu-west-1"})
    (disk,) = [line for line in there.estimate(CLUSTER, 2.0).lines if "of disk" in line]
    assert disk == "6 × 16 GB of disk, 2.0 h, price assumed (docs/testbeds.md)"
    (state / "prices.yaml").write_text(PRICES_FILE.read_text().replace("    disk_assumed: true\n", ""))
    monkeypatch.setenv("BAROGRAPH_PRICES", str(state / "prices.yaml"))
    assert "6 × 16 GB of disk, 2.0 h" in there.estimate(CLUSTER, 2.0).lines, "who has read it leaves the mark out"


def test_another_price_table_replaces_ours(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"read": "2020-01-02", "sources": [], "public_address_hour": 1.0,
            "regions": {"xx-here-1": {"disk_gb_month": 730.0, "instances": {"m7a.medium": 3.0}}}}  # fmt: skip
    (state / "prices.yaml").write_text(yaml.safe_dump(ours))
    monkeypatch.setenv("BAROGRAPH_PRICES", str(state / "prices.yaml"))
    testbed = Ec2Testbed({"budget_usd": 5, "region": "xx-here-1", "disk_gb": 10})
    assert testbed.estimate(CLUSTER[:1], 1.0).total_usd == pytest.approx(3 + 10 + 1)
    with pytest.raises(ConfigurationError, match=r"prices\.yaml has no price for c7a\.medium in xx-here-1; it has m7a"):
        testbed.estimate(CLUSTER, 1.0)
    with pytest.raises(ConfigurationError, match=r"no price for region us-east-1; it has xx-here-1; add it under"):
        Ec2Testbed({"budget_usd": 5, "region": "us-east-1"}).estimate(CLUSTER, 1.0)
    (state / "prices.yaml").write_text("read: '2020-01-02'\nregions: {}\nsources: []\npublic_address_hour: -1\n")
    with pytest.raises(ConfigurationError, match=r"prices\.yaml: public_address_hour is -1"):
        testbed.estimate(CLUSTER, 1.0)


def test_every_type_of_the_table_has_a_price_in_every_region() -> None:
    table = yaml.safe_load(survey.TYPES_FILE.read_text())["types"]
    assert set(table) == set(machines.MACHINE_TYPES)
    for region in load_prices().regions:
        assert all(load_prices().of(region, row["instance_type"]) > 0 for row in table.values())


def test_the_table_of_types_is_not_less_than_what_the_machines_are() -> None:
    for name, row in yaml.safe_load(survey.TYPES_FILE.read_text())["types"].items():
        asked = machines.machine_type(name)
        assert row["cores"] >= asked.cores and row["memory_mb"] >= asked.memory_mb


def test_an_unknown_machine_type_says_where_to_name_its_instance_type(state: Path) -> None:
    strange = MachineRequest("m1", machines.MachineType("huge", 64, 1, 1, 4))
    with pytest.raises(
        ConfigurationError, match=r"huge have no EC2 type; known are type_1.*instance_types: \{huge: …\}"
    ):
        Ec2Testbed({"budget_usd": 5, "region": "us-east-1"}).estimate([strange], 1.0)


def test_the_packages_of_the_first_boot_are_those_that_ansible_wants(repository: Path) -> None:
    wanted = yaml.safe_load((repository / "playbooks/roles/storm/defaults/main.yml").read_text())["storm_packages"]
    assert sorted(wanted) == sorted(launch.PACKAGES)
    prepare = (repository / "playbooks/roles/storm/files/prepare.sh").read_text()
    assert launch.PACKAGES_FOLDER in prepare  # where it looks whether they are on their way


def test_the_first_boot_is_a_shell_script_that_ec2_takes(state: Path) -> None:
    ssh.make_key_folder(state / "keys", "lease")
    ssh.add_host_keys(state / "keys", ["m1"], "lease")
    text = launch.user_data_script("m1", state / "keys/machines/m1", 1e9)
    assert text.startswith("#!/bin/sh\n") and len(text.encode()) < 16384
    assert not re.findall(r"@[A-Z_]+@", text)
    (state / "script").write_text(text)
    assert subprocess.run(["sh", "-n", str(state / "script")], capture_output=True).stderr == b""
    # The guard first: whatever else goes wrong, the machine ends. The host key last: it is what is waited for.
    marks = ("barograph-guard/expires", "authorized_keys", "no-metadata", "$state/pid", "kill -HUP")
    order = [text.index(mark) for mark in marks]
    assert order == sorted(order)


def test_the_options_model_is_what_the_documents_say(repository: Path) -> None:
    _, _, page = (repository / "docs/testbeds.md").read_text().partition("\n## ec2\n")
    rows = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    said = {name.strip(" `") for row in rows for name in row.split("|")[1].split(",")}
    assert set(Ec2Options.model_fields) == said


def test_private_addresses_need_a_way_into_the_vpc(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(_self: socket.socket, _address: object) -> None:
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    options, zone = Ec2Options(budget_usd=1.0, addresses="private"), survey.Zone("z", "s", "v", "10.219.0.0/24")
    with pytest.raises(ConfigurationError, match=r"addresses is private, .*no way into 10.219.0.0/24"):
        survey.harness_network(options, zone)
