"""apply.py's steps on files: each says whether it changed anything, and a second time nothing is changed."""

import getpass
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.on_machine import load

apply = load("machine", "apply")
ME = getpass.getuser()


def test_a_directory(tmp_path: Path) -> None:
    wanted = {"path": str(tmp_path / "a" / "b"), "owner": ME, "mode": "0750"}
    assert apply.directory(wanted)
    assert not apply.directory(wanted)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o750
    assert apply.directory({**wanted, "mode": "0700"})


def test_a_file_changes_with_content_or_permissions_only(tmp_path: Path) -> None:
    path = tmp_path / "storm.yaml"
    wanted: dict[str, Any] = {"path": str(path), "owner": ME, "content": "a: é\n"}
    assert apply.file(wanted)
    assert not apply.file(wanted)
    assert path.read_text() == "a: é\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert apply.file({**wanted, "mode": "0600"})
    assert apply.file({**wanted, "mode": "0600", "content": "b"})
    assert path.stat().st_mode & 0o777 == 0o600


def pack(archive: Path, files: dict[str, str], scratch: Path) -> None:
    with tarfile.open(archive, "w:gz") as packed:
        for name, text in files.items():
            (scratch / "part").write_text(text)
            packed.add(scratch / "part", name)


def test_an_archive_replaces_its_folders_and_nothing_else(tmp_path: Path) -> None:
    archive, to = tmp_path / "delivery.tar.gz", tmp_path / "opt"
    (to / "storm").mkdir(parents=True)
    wanted = {"path": str(archive), "to": str(to)}
    pack(archive, {"jars/old.jar": "1", "scheduler_plugins/service.py": "2"}, tmp_path)
    assert apply.archive(wanted)
    assert not apply.archive(wanted)
    pack(archive, {"jars/new.jar": "3"}, tmp_path)
    assert apply.archive(wanted)
    assert sorted(path.name for path in to.iterdir() if not path.name.startswith(".")) == [
        "jars",
        "scheduler_plugins",
        "storm",
    ]
    assert [path.name for path in (to / "jars").iterdir()] == ["new.jar"]


CONFIGURATION = """\
; ours
[program:supervisor]
command=/bin/true
autostart=false
autorestart=true

[program:probe]
command=/bin/true
autostart=true
"""


def test_what_a_program_was_last_told_outlives_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "barograph.conf"
    path.write_text(CONFIGURATION)
    assert not apply.at_boot({"name": "supervisor", "running": False}, path)
    assert not apply.at_boot({"name": "probe", "running": True}, path)
    assert path.read_text() == CONFIGURATION
    assert apply.at_boot({"name": "supervisor", "running": True}, path)
    assert path.read_text() == CONFIGURATION.replace("false", "true")
    assert apply.at_boot({"name": "supervisor", "running": False}, path)
    assert path.read_text() == CONFIGURATION


class Supervisord:
    """The calls of supervisord's XML-RPC that apply.py makes."""

    def __init__(self, states: dict[str, str], reload: tuple[list[str], list[str], list[str]]) -> None:
        self.states, self.reload, self.calls = states, reload, []  # type: ignore[var-annotated]  # list of words

    def reloadConfig(self) -> list[tuple[list[str], list[str], list[str]]]:
        return [self.reload]

    def getProcessInfo(self, name: str) -> dict[str, str]:
        return {"statename": self.states[name]}

    def __getattr__(self, call: str) -> Any:
        return lambda name, *_: self.calls.append(f"{call} {name}")


def test_changed_programs_are_replaced_and_removed_ones_go() -> None:
    supervisord = Supervisord({}, (["probe"], ["nimbus"], ["supervisor"]))
    assert apply.reload_programs(supervisord) == ["program probe", "program nimbus", "program supervisor"]
    assert supervisord.calls == [
        "stopProcessGroup supervisor", "removeProcessGroup supervisor", "stopProcessGroup nimbus",
        "removeProcessGroup nimbus", "addProcessGroup probe", "addProcessGroup nimbus",
    ]  # fmt: skip


def test_programs_of_others_stay_as_they_are_whatever_became_of_their_files() -> None:
    supervisord = Supervisord({}, (["their_new", "probe"], ["their_site"], ["their_old"]))
    assert apply.reload_programs(supervisord) == ["program probe"]
    assert supervisord.calls == ["addProcessGroup probe"]


def test_a_program_is_touched_only_if_it_is_not_as_wanted() -> None:
    supervisord = Supervisord({"a": "RUNNING", "b": "STOPPED", "c": "STARTING", "d": "FATAL"}, ([], [], []))
    assert not apply.program(supervisord, {"name": "a", "running": True})
    assert not apply.program(supervisord, {"name": "b", "running": False})
    assert not apply.program(supervisord, {"name": "c", "running": True})
    assert apply.program(supervisord, {"name": "d", "running": True})
    assert apply.program(supervisord, {"name": "a", "running": False})
    assert supervisord.calls == ["startProcess d", "stopProcess a"]


@pytest.fixture
def nft(tmp_path: Path) -> Path:
    """Stands in for nft: `loaded` is what it has, `broken` is what it says when it cannot."""
    program = tmp_path / "nft"
    program.write_text(f"""#!/bin/sh
    cd {tmp_path}
    [ "$1" = list ] && exec cat loaded 2>/dev/null
    [ ! -e broken ] || {{ cat broken >&2; exit 1; }}
    cp "$2" loaded
    """)
    program.chmod(0o755)
    return program


def test_rules_are_loaded_when_they_are_others_or_gone(tmp_path: Path, nft: Path) -> None:
    path = tmp_path / "firewall.nft"
    assert apply.firewall("rules 1", path, str(nft))
    assert not apply.firewall("rules 1", path, str(nft))
    assert apply.firewall("rules 2", path, str(nft))
    assert (tmp_path / "loaded").read_text() == "rules 2"
    (tmp_path / "loaded").unlink()
    assert apply.firewall("rules 2", path, str(nft)), "a boot has lost them"
    assert (tmp_path / "loaded").exists()


def flushed(loaded: Path) -> None:
    loaded.unlink()


def opened(loaded: Path) -> None:
    loaded.write_text("tcp dport 6627 accept\nrules")


@pytest.mark.parametrize("change", [flushed, opened])
def test_rules_that_somebody_took_away_end_the_step_and_are_loaded_again(
    change: Callable[[Path], None], tmp_path: Path, nft: Path
) -> None:
    path, stops = tmp_path / "firewall.nft", []
    apply.firewall("rules", path, str(nft))
    apply.require_firewall(lambda: stops.append(1), path, str(nft), 0)
    change(tmp_path / "loaded")
    with pytest.raises(SystemExit, match="the firewall was gone, or other than it was loaded"):
        apply.require_firewall(lambda: stops.append(1), path, str(nft), 0)
    assert (tmp_path / "loaded").read_text() == "rules"
    apply.require_firewall(lambda: stops.append(1), path, str(nft), 0)
    assert stops == []


def test_a_step_that_brings_rules_says_first_that_those_of_before_are_gone(
    tmp_path: Path, nft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As deploy and switch bring them; a machine that has had none gets them."""
    path = tmp_path / "firewall.nft"
    monkeypatch.setattr(apply, "FIREWALL", path)
    for name, more in (("firewall", ()), ("require_firewall", (0,))):
        whole = getattr(apply, name)
        monkeypatch.setattr(apply, name, lambda first, whole=whole, more=more: whole(first, path, str(nft), *more))

    def bring() -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"firewall": "rules"})))
        apply.main()

    monkeypatch.setattr(apply, "CLOSED", tmp_path / "closed")
    bring()
    bring()
    (tmp_path / "loaded").unlink()
    with pytest.raises(SystemExit, match="the firewall was gone"):
        bring()
    bring()
    assert (tmp_path / "loaded").read_text() == "rules"


def test_storm_stops_where_the_rules_cannot_be_loaded_again(tmp_path: Path, nft: Path) -> None:
    path, stops = tmp_path / "firewall.nft", []
    apply.firewall("rules", path, str(nft))
    (tmp_path / "loaded").unlink()
    (tmp_path / "broken").write_text("Error: Operation not permitted\n")
    with pytest.raises(SystemExit, match="cannot load the firewall"):
        apply.require_firewall(lambda: stops.append(1), path, str(nft), 0)
    assert stops == [1]


def test_a_machine_without_packet_filters_is_refused_also_the_second_time(tmp_path: Path, nft: Path) -> None:
    (tmp_path / "broken").write_text("Error: Could not process rule: Operation not permitted\nand more\n")
    for _ in range(2):
        with pytest.raises(SystemExit, match=r"cannot load the firewall: Error: .*not permitted$"):
            apply.firewall("rules", tmp_path / "firewall.nft", str(nft))


def test_links_in_an_archive_are_not_made(tmp_path: Path) -> None:
    archive, to = tmp_path / "delivery.tar.gz", tmp_path / "opt"
    to.mkdir()
    with tarfile.open(archive, "w:gz") as packed:
        link = tarfile.TarInfo("jars/outside")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        packed.addfile(link)
        packed.addfile(tarfile.TarInfo("jars/outside/written"))
    assert apply.archive({"path": str(archive), "to": str(to)})
    assert not (tmp_path / "written").exists() and not (to / "jars" / "outside").is_symlink()


OWN = "127.0.0.1 localhost\n127.0.1.1 m1  # by the installer\n::1 ip6-localhost\n"


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "hosts"
    path.write_text(OWN)
    path.chmod(0o644)
    monkeypatch.setattr(apply, "own", lambda *_: False)  # who owns it is not this test's
    return path


def test_names_come_before_the_machines_own_lines_and_go_again(hosts: Path) -> None:
    names = {"master": "10.0.0.1", "m1": "10.0.0.2"}
    assert apply.names(names, hosts)
    assert hosts.read_text() == f"# BEGIN Barograph\n10.0.0.1 master\n10.0.0.2 m1\n# END Barograph\n{OWN}"
    assert not apply.names(names, hosts)
    assert apply.names({**names, "m2": "10.0.0.3"}, hosts)
    assert apply.addresses(hosts.read_text())["m2"] == "10.0.0.3"
    assert hosts.read_text().endswith(OWN) and hosts.read_text().count("BEGIN") == 1
    assert apply.addresses(hosts.read_text())["m1"] == "10.0.0.2"


def test_a_machine_that_was_made_with_the_names_is_left_as_it_is(hosts: Path) -> None:
    made = "127.0.0.1 localhost\n10.0.0.1 master\n10.0.0.2 m1\n"
    hosts.write_text(made)
    assert not apply.names({"master": "10.0.0.1", "m1": "10.0.0.2"}, hosts)
    assert hosts.read_text() == made
    assert apply.names({"master": "10.0.0.9"}, hosts)


@pytest.mark.parametrize("kind", ["directories", "files"])
def test_a_link_is_refused_and_what_it_names_stays_as_it_was(kind: str, tmp_path: Path) -> None:
    named = tmp_path / "named"
    named.mkdir(mode=0o755) if kind == "directories" else named.touch(mode=0o644)
    (tmp_path / "link").symlink_to(named)
    wanted = {"path": str(tmp_path / "link"), "owner": ME, "mode": "0700"}
    with pytest.raises(OSError, match=r"[Ll]inks|Not a directory"):
        apply.directory(wanted) if kind == "directories" else apply.file({**wanted, "keep": True})
    assert named.stat().st_mode & 0o777 == (0o755 if kind == "directories" else 0o644)
