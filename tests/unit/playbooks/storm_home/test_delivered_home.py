"""A Storm home from its folder to a machine that does not mount it: parcels, the way there, and the folder again."""

import os
import pwd
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from playbooks.storm_home import parcels
from tests.support.on_machine import load

unpack, serve = load("storm", "unpack"), load("storm", "serve")
JAVA = "OpenJDK 64-Bit Server VM (17.0.1+2) for linux-amd64 JRE (17.0.1+2), built by a test"


def file(path: Path, content: bytes, mtime: int, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    os.utime(path, (mtime, mtime))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """As the real one: links into other folders of the cache, jars that are in two folders at different times."""
    root = tmp_path / "cache" / "homes" / "storm-1"
    file(tmp_path / "cache" / "elsewhere.jar", b"jar" * 9000, 1_700_000_000)
    (root / "lib").mkdir(parents=True)
    os.link(tmp_path / "cache" / "elsewhere.jar", root / "lib" / "a.jar")
    file(root / "lib-worker" / "a.jar", b"jar" * 9000, 1_700_000_007)
    file(root / "bin" / "run", b"#!/bin/sh\n", 1_700_000_001, 0o755)
    file(root / "cds" / "worker.jsa", b"\x00\xf1" + JAVA.encode() + b"\x00rest", 1_700_000_002)
    file(root / "VERSION", b"1", 1_700_000_003)
    (root / "extlib").mkdir()
    return root


def tree(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), int(path.stat().st_mtime), path.stat().st_mode & 0o777)
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def plan(home: Path, made: tuple[parcels.Parcel, ...], machine: Path, url: str = "") -> dict[str, Any]:
    return {
        "homes": str(machine / "homes"), "home": home.name, "link": str(machine / "storm"),
        "kept": str(Path(made[0].path).parent),
        "version": unpack.digest(home / "VERSION"), "url": url,
        "parcels": [{"name": one.name, "sha256": one.sha256, "size": one.size} for one in made],
    }  # fmt: skip


def test_the_home_is_the_same_on_the_machine(home: Path, tmp_path: Path) -> None:
    made = parcels.make_parcels(home, tmp_path / "store")
    assert [one.java for one in made] == ["", JAVA, ""]
    unpack.deliver(plan(home, made, tmp_path / "machine"))
    assert tree(tmp_path / "machine" / "homes" / "storm-1") == tree(home)
    assert (tmp_path / "machine" / "storm" / "bin" / "run").read_text() == "#!/bin/sh\n"


def test_a_jar_in_two_folders_is_packed_once(home: Path, tmp_path: Path) -> None:
    libraries = parcels.make_parcels(home, tmp_path / "store")[0]
    with tarfile.open(libraries.path) as packed:
        assert {m.name: (m.islnk(), m.mtime) for m in packed} == {
            "lib/a.jar": (False, 1_700_000_000), "lib-worker/a.jar": (True, 1_700_000_007),
        }  # fmt: skip


def test_what_did_not_change_is_not_packed_again(home: Path, tmp_path: Path) -> None:
    first = parcels.make_parcels(home, tmp_path / "store")
    stamps = {one.name: Path(one.path).stat().st_mtime_ns for one in first}
    file(home / "extlib-daemon" / "bridge.jar", b"changed", 1_700_000_100)
    second = parcels.make_parcels(home, tmp_path / "store")
    assert [a.name == b.name for a, b in zip(first, second, strict=True)] == [True, True, False]
    assert all(Path(one.path).stat().st_mtime_ns == stamps[one.name] for one in second[:2])


@pytest.mark.parametrize("damage", ["", "[]", "{}"])
def test_what_a_killed_play_left_is_made_again_and_swept(damage: str, home: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = parcels.make_parcels(home, store)
    (store / f"{first[0].name}.json").write_text(damage)
    for name, age_s in (("old", 2 * parcels.ABANDONED_S), ("new", 0.0)):
        left = store / f".{first[0].name}-{name}"
        left.touch()
        os.utime(left, (time.time() - age_s,) * 2)
    again = parcels.make_parcels(home, store)
    assert again[0].name == first[0].name and again[0].size == Path(again[0].path).stat().st_size
    assert parcels.make_parcels(home, store) == again
    assert [path.name for path in store.glob(".*")] == [f".{first[0].name}-new"]


def test_without_class_data_there_is_no_parcel_of_it(home: Path, tmp_path: Path) -> None:
    (home / "cds" / "worker.jsa").unlink()
    made = parcels.make_parcels(home, tmp_path / "store")
    assert [one.java for one in made] == ["", ""]
    unpack.deliver(plan(home, made, tmp_path / "machine"))
    assert list((tmp_path / "machine" / "storm" / "cds").iterdir()) == []


def test_the_newest_are_kept_and_older_ones_are_not(home: Path, tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    for number in range(1, unpack.OTHERS + 3):
        home = home.rename(home.with_name(f"storm-{number}"))
        unpack.deliver(plan(home, parcels.make_parcels(home, tmp_path / "store"), machine))
        assert (machine / "storm").resolve() == machine / "homes" / f"storm-{number}"
        for older in (machine / "homes").iterdir():
            os.utime(older, (1000 + int(older.name[-1]), 1000 + int(older.name[-1])))
    kept = [f"storm-{number}" for number in range(2, unpack.OTHERS + 3)]
    assert sorted(path.name for path in (machine / "homes").iterdir()) == kept


def test_the_one_in_use_is_kept_however_old_it_is(home: Path, tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    for number in range(1, unpack.OTHERS + 2):
        home = home.rename(home.with_name(f"storm-{number}"))
        unpack.deliver(plan(home, parcels.make_parcels(home, tmp_path / "store"), machine))
    unpack.point(machine / "storm", machine / "homes" / "storm-1")
    os.utime(machine / "homes" / "storm-1", (1000, 1000))
    home = home.rename(home.with_name("storm-9"))
    unpack.deliver(plan(home, parcels.make_parcels(home, tmp_path / "store"), machine))
    assert "storm-1" in {path.name for path in (machine / "homes").iterdir()}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """What serve.py does in the background, in a thread."""
    store = tmp_path / "store"
    store.mkdir()
    server = serve.Server(("127.0.0.1", 0), serve.handler(store, "secret"))
    (store / serve.MARK).write_text("secret")
    background = threading.Thread(target=serve.serve, args=(server, store / serve.MARK, "secret", 60))
    background.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/secret", store
    serve.main("stop", str(store))
    background.join(10)
    assert not background.is_alive()
    server.shutdown()
    server.server_close()


def test_machines_fetch_from_the_master(home: Path, tmp_path: Path, served: tuple[str, Path]) -> None:
    url, store = served
    made = parcels.make_parcels(home, store)
    wanted = {**plan(home, made, tmp_path / "machine", url), "kept": "/nowhere"}
    unpack.deliver(wanted)
    assert tree(tmp_path / "machine" / "homes" / "storm-1") == tree(home)
    for other in (url.replace("secret", "guess"), url + "/../store"):
        with pytest.raises(unpack.Refused, match="cannot be fetched from the master: HTTP Error 404"):
            unpack.fetch(f"{other}/{made[0].name}", tmp_path / "stolen")
    with pytest.raises(unpack.Refused, match="404"):
        unpack.fetch(f"{url}/{serve.MARK}", tmp_path / "stolen")


def test_what_was_changed_on_the_way_is_refused_and_the_old_home_stays(
    home: Path, tmp_path: Path, served: tuple[str, Path]
) -> None:
    url, store = served
    machine = tmp_path / "machine"
    made = parcels.make_parcels(home, store)
    unpack.deliver(plan(home, made, machine))
    before = tree(machine)
    Path(made[0].path).write_bytes(Path(made[0].path).read_bytes() + b"x")
    wanted = {**plan(home, made, machine, url), "home": "storm-2", "kept": "/nowhere"}
    with pytest.raises(unpack.Refused, match="another digest"):
        unpack.deliver(wanted)
    assert tree(machine) == before


def test_the_master_hands_out_as_the_daemons_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`start` prints where, and detaches; here it stays in front."""
    did: list[object] = []
    monkeypatch.setattr(serve, "USER", pwd.getpwuid(os.getuid()).pw_name)
    monkeypatch.setattr(serve, "detach", lambda: did.append("detached"))
    serve.start(tmp_path, "127.0.0.1", 5.0)
    assert did == ["detached"] and len((tmp_path / serve.MARK).read_text()) >= 32
