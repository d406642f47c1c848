"""What runs on machines of others: facts, the claim, and what takes everything off again."""

import json
import os
import subprocess
import sys
import time
from getpass import getuser
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from barograph.errors import ConfigurationError, InfrastructureError
from inventory.existing import ownership, survey
from inventory.existing.hosts import Host
from inventory.existing.survey import actual_type
from inventory.leases import guard
from inventory.leases.registry import Lease
from inventory.machines import MACHINE_TYPES, MachineRequest
from inventory.remote.ssh import Remote

SAID = """\
os ubuntu debian
system Ubuntu 24.04 LTS
apt yes
python 3.12
java 17
cores 1.5
memory_mb 7936
addresses 10.0.0.7 172.17.0.1
filters yes
lease {"lease_id": "ab", "owner": "o", "harness": "h", "expires_s": 12.0}
"""
LISTEN = """
import socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
"""
HOST = Host("beta", "192.0.2.7", 22, "ubuntu")


def test_facts_of_this_box() -> None:
    done = subprocess.run(["sh", "-c", survey.FACTS_SCRIPT.read_text()], capture_output=True, text=True)
    seen = survey.parse_facts(done.stdout)
    assert 0 < seen.cores <= (os.cpu_count() or 1)
    assert 100 < seen.memory_mb <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    assert seen.python == sys.version_info[:2] or seen.python >= (3, 8)
    assert set(seen.families) & {"debian", "ubuntu"}


def test_a_machine_is_what_it_really_is() -> None:
    seen = survey.parse_facts(SAID)
    assert survey.platform_problems(seen) == []
    real = actual_type(MachineRequest("m1", MACHINE_TYPES["type_1"]), seen, slots=None)
    assert (real.name, real.cores, real.memory_mb, real.slots) == ("type_1", 1.5, 7936, MACHINE_TYPES["type_1"].slots)
    assert actual_type(MachineRequest("m1", MACHINE_TYPES["type_1"]), seen, slots=2).slots == 2
    assert actual_type(MachineRequest("master", MACHINE_TYPES["master"]), seen, slots=2).slots == 0


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("os ubuntu debian", "os fedora", "it runs Ubuntu 24.04 LTS, must be Debian or Ubuntu"),
        ("python 3.12", "python 3.10", "python3 is 3.10, must be 3.11"),
        ("python 3.12\n", "", "python3 is not there"),
        ("java 17", "java 21", "it has Java 21; Storm runs on Java 17"),
        ("java 17\n", "", "no Java, and apt knows no openjdk-17"),
        ("filters yes\n", "", "no CAP_NET_ADMIN, so it cannot keep others from Storm: whoever reaches the machine"),
    ],
)
def test_what_storm_cannot_run_on_is_said(line: str, instead: str, said: str) -> None:
    (problem,) = survey.platform_problems(survey.parse_facts(SAID.replace(line, instead)))
    assert said in problem


def test_java_may_come_from_apt_and_silence_is_no_machine() -> None:
    assert survey.platform_problems(survey.parse_facts(SAID.replace("java 17\n", "java17 yes\n"))) == []
    with pytest.raises(InfrastructureError, match="does not say what it is"):
        survey.parse_facts("cores 1\n")


def test_services_are_bound_to_the_machines_own_addresses() -> None:
    seen = survey.parse_facts(SAID)
    inside = Host("beta", "10.0.0.7", 22, "u")
    assert survey.machine_addresses(inside, seen) == ("10.0.0.7", "10.0.0.7")
    assert survey.machine_addresses(Host("b", "192.0.2.7", 22, "u", None, "10.0.0.7"), seen) == ("10.0.0.7", "10.0.0.7")
    with pytest.raises(ConfigurationError, match=r"192.0.2.7 is not its own address; it has 10.0.0.7, 172.17.0.1; set"):
        survey.machine_addresses(HOST, seen)
    with pytest.raises(ConfigurationError, match=r"experiment_address is 10.9.9.9, its own addresses are 10.0.0.7"):
        survey.machine_addresses(Host("b", "10.0.0.7", 22, "u", None, "10.9.9.9", "10.0.0.7"), seen)
    only = survey.parse_facts(SAID.replace(" 172.17.0.1", ""))
    assert survey.machine_addresses(HOST, only) == ("10.0.0.7", "10.0.0.7")


def test_somebodys_storm_is_named_by_process_user_and_port() -> None:
    said = (
        "storm 4711 ann 6627,6699 org.apache.storm.daemon.nimbus.Nimbus\n"
        "listener 6627 4711 ann java\nlistener 2181 812 zookeeper java\n"
        "program nimbus /etc/supervisor/conf.d/their storm.conf\n"
    )
    assert survey.occupation_problems(survey.parse_facts(SAID)) == []
    problems = survey.occupation_problems(survey.parse_facts(SAID + said))
    assert [problem.partition(";")[0] for problem in problems] == [
        "process 4711 of user ann is somebody's org.apache.storm.daemon.nimbus.Nimbus (ports 6627,6699)",
        "port 2181, which Storm needs, is taken by process 812 of user zookeeper (java)",
        "/etc/supervisor/conf.d/their storm.conf has a program 'nimbus' of supervisord, as Barograph's is called",
    ]
    assert all(problem.endswith("or name another machine") for problem in problems)


def test_an_account_that_is_called_as_ours_is_refused() -> None:
    said = "account storm 1001 /home/storm\naccount barograph 1002 none\n"
    first, second = survey.occupation_problems(survey.parse_facts(SAID + said))
    assert first.startswith("there is a user or group 'storm' (number 1001, home /home/storm) that Barograph did not")
    assert "'barograph' (number 1002, home none)" in second and second.endswith("or name another machine")


def test_a_machine_that_does_not_say_which_process_listens_says_whose_it_is() -> None:
    said = (
        "storm 4711 ann unknown org.apache.storm.daemon.nimbus.Nimbus\n"
        "listener 6627 unknown ann unknown\nlistener 2181 unknown root unknown\n"
    )
    first, second = survey.occupation_problems(survey.parse_facts(SAID + said))
    assert first.startswith("process 4711 of user ann is somebody's org.apache.storm.daemon.nimbus.Nimbus (ports 6627)")
    assert second.startswith("port 2181, which Storm needs, is taken by process unknown of user root")


@pytest.mark.parametrize("folder", ["/srv/storm/lib", "/opt/barograph/storm/lib"])
def test_facts_tell_somebodys_storm_from_ours(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that looks like Nimbus and listens on one of its ports."""
    nimbus = "org.apache.storm.daemon.nimbus.Nimbus"
    argv = [sys.executable, "-c", LISTEN, f"-Dlib={folder}", nimbus]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        done = subprocess.run(["sh", "-c", survey.FACTS_SCRIPT.read_text()], capture_output=True, text=True)
        process.communicate()
    mine = [line for line in survey.parse_facts(done.stdout).storm if line[0] == str(process.pid)]
    assert mine == ([] if "barograph" in folder else [(str(process.pid), getuser(), port, nimbus)])


def claim(
    folder: Path, what: str, lease_id: str, expires_s: float, *more: str, now_s: float = 100.0
) -> tuple[int, str]:
    text = json.dumps({"lease_id": lease_id, "owner": "o", "harness": "h", "expires_s": expires_s})
    done = subprocess.run(
        [sys.executable, "-c", ownership.OWNER_SCRIPT.read_text(), what, str(now_s), text, *more],
        capture_output=True, text=True, env={**os.environ, "BAROGRAPH_GUARD": str(folder)},
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_machine_has_one_holder_until_its_lease_ends(tmp_path: Path) -> None:
    assert claim(tmp_path, "take", "aa", 200.0)[0] == 0
    assert claim(tmp_path, "take", "aa", 200.0)[0] == 0
    code, said = claim(tmp_path, "take", "bb", 300.0)
    assert code == ownership.IN_USE_CODE
    holder = ownership.Owner.parse(said)
    assert holder is not None and holder.lease_id == "aa" and holder.is_live(199.0) and not holder.is_live(201.0)
    assert claim(tmp_path, "prolong", "bb", 900.0)[0] == ownership.IN_USE_CODE
    assert claim(tmp_path, "prolong", "aa", 400.0)[0] == 0
    assert claim(tmp_path, "take", "bb", 900.0, now_s=300.0)[0] == ownership.IN_USE_CODE
    assert claim(tmp_path, "take", "bb", 900.0, "aa", now_s=300.0)[0] == 0
    assert claim(tmp_path, "take", "cc", 1900.0, now_s=901.0)[0] == 0
    assert json.loads((tmp_path / "lease.json").read_text())["lease_id"] == "cc"


def test_many_claims_at_once_have_one_winner(tmp_path: Path) -> None:
    text = {n: json.dumps({"lease_id": f"{n}", "owner": "", "harness": "", "expires_s": 200.0}) for n in range(6)}
    argv = [sys.executable, "-c", ownership.OWNER_SCRIPT.read_text(), "take", "100"]
    env = {**os.environ, "BAROGRAPH_GUARD": str(tmp_path / "guard")}
    running = [subprocess.Popen([*argv, one], env=env, stdout=subprocess.DEVNULL) for one in text.values()]
    codes = [process.wait() for process in running]
    assert sorted(codes) == [0] + [ownership.IN_USE_CODE] * 5
    assert json.loads((tmp_path / "guard" / "lease.json").read_text())["lease_id"] == str(codes.index(0))


def test_a_damaged_claim_holds_nobody(tmp_path: Path) -> None:
    (tmp_path / "lease.json").write_text("{")
    assert ownership.Owner.parse("x") is None
    assert claim(tmp_path, "take", "aa", 200.0, now_s=time.time())[0] == 0


def test_the_guard_of_before_stops_before_the_machine_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[str] = []
    for owner, name in ((guard, "stop"), (guard, "start"), (ownership, "clear_machine")):
        monkeypatch.setattr(owner, name, lambda *_, name=name: did.append(name))
    ownership.prepare_machine(cast(Remote, None), cast(Lease, SimpleNamespace(expires_s=1.0)))
    assert did == ["stop", "clear_machine", "start"]


def clear(root: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "BAROGRAPH_ROOT": str(root)}
    return subprocess.run(["sh", "-c", ownership.CLEAR_SCRIPT.read_text()], capture_output=True, text=True, env=env)


def test_clearing_takes_what_is_ours_and_may_be_repeated(tmp_path: Path) -> None:
    own = "127.0.0.1 localhost\n127.0.1.1 beta\n"
    for place in (
        "etc/barograph",
        "opt/barograph/homes/storm-1",
        "var/lib/barograph/storm",
        "var/log/barograph",
        "opt/other",
        "run",
    ):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "file").write_text("")
    (tmp_path / "run" / "file").rename(tmp_path / "run" / "barograph-firewall")
    (tmp_path / "etc" / "supervisor" / "conf.d").mkdir(parents=True)
    (tmp_path / "etc/supervisor/conf.d/barograph.conf").write_text("[program:supervisor]\ncommand=x\n")
    (tmp_path / "etc/supervisor/conf.d/other.conf").write_text("")
    (tmp_path / "etc/hosts").write_text(f"# BEGIN Barograph\n10.0.0.1 master\n# END Barograph\n{own}")
    for _ in range(2):
        done = clear(tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()) == [
            "etc/hosts", "etc/supervisor/conf.d/other.conf", "opt/other/file",
        ]  # fmt: skip
        assert (tmp_path / "etc/hosts").read_text() == own
