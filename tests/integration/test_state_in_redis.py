"""Word counts whose state is in Redis, on real Storm: they survive a rebalance, and no run finds another's."""

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.machines import MACHINE_TYPES, MachineRequest, scale_type
from playbooks import cluster
from playbooks.runner import PlayFailed
from playbooks.storm_home import commands
from tests.integration.cluster_site import CORES, Site, deployed
from topologies import catalogue

pytestmark = pytest.mark.integration

NAME, ENOUGH, LIMIT_S = "word_count_stateful", 300, 150.0
# Prints all hashes of counts: {key of Redis: {field in hexadecimal: value in hexadecimal}}.
READ = """
import json, pathlib, socket
secret = pathlib.Path('/etc/barograph/redis').read_text().split()[1]
lines = socket.create_connection(('master', 6790), 5).makefile('rwb')
def read():
    head = lines.readline().strip()
    if head[:1] == b'*':
        return [read() for _ in range(int(head[1:]))]
    if head[:1] == b'$':
        return lines.read(int(head[1:]) + 2)[:-2]
    return head
def call(*words):
    lines.write(b'*%d\\r\\n' % len(words) + b''.join(b'$%d\\r\\n%s\\r\\n' % (len(word), word) for word in words))
    lines.flush()
    return read()
assert call(b'AUTH', secret.encode()) == b'+OK'
keys = [key for key in call(b'KEYS', b'*/count-*') if b'$' not in key]
found = {key.decode(): call(b'HGETALL', key) for key in keys}
print(json.dumps({key: {a.hex(): b.hex() for a, b in zip(each[::2], each[1::2])} for key, each in found.items()}))
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    workers = [MachineRequest(name, scale_type(MACHINE_TYPES["type_1"], CORES)) for name in ("m1", "m2")]
    with deployed(workers, (), ("10.225.0.0/24", "10.226.0.0/24"), has_redis=True) as one:
        yield one


def counts(site: Site) -> dict[tuple[str, str], int]:
    """Return the committed count of each word, by the task's key in Redis and the word's id."""
    document = json.loads(site.run("master", "python3", "-c", READ))
    return {
        (key, field): count(bytes.fromhex(value)) for key, found in document.items() for field, value in found.items()
    }


def count(value: bytes) -> int:
    """Return the number in what Storm's state encodes: at its end an array of bytes with its length, and in there the
    class of an int and a zigzag varint of Kryo's."""
    size = next(size for size in range(2, 7) if value[-size - 1] == size + 1 and value[-size] == 2)
    number = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(value[1 - size :]))
    return number >> 1 ^ -(number & 1)


def workers(site: Site) -> set[str]:
    found = (site.run(name, "pgrep", "-f", "[o]rg.apache.storm.daemon.worker.Worker").split() for name in ("m1", "m2"))
    return {f"{name}:{pid}" for name, pids in zip(("m1", "m2"), found, strict=True) for pid in pids}


def test_the_encoded_count_is_read_as_kryo_writes_it() -> None:
    """41 and 300 in zigzag are 82 and 600."""
    assert [count(bytes.fromhex(f"01020a{text}")) for text in ("030252", "0402d804")] == [41, 300]


def test_counts_survive_a_rebalance_and_no_other_run_finds_them(site: Site, tmp_path: Path) -> None:
    cluster.reset(site.inventory, site.directory, "r1")
    assert counts(site) == {}
    flux = tmp_path / "topology.yaml"
    flux.write_text(catalogue.render(NAME, {"rate_per_s": 20.0, "cost_model": "none"}, {"workers": 2}))
    cluster.submit(site.inventory, site.directory, "r1", flux)
    last = grown(site, {}, ENOUGH)
    before = workers(site)
    conf, storm = commands.CONF, commands.HOME
    rebalance = [f"{storm}/bin/run", "flux", conf, *commands.TOOL_FLAGS, f"-Dstorm.home={storm}",
                 "org.apache.storm.command.Rebalance", NAME, "-w", "0", "-e", "count=2"]  # fmt: skip
    site.run("master", "sh", "-c", f"STORM_CONF_DIR={conf} {shlex.join(rebalance)}")
    deadline = time.monotonic() + LIMIT_S
    while before <= workers(site):  # the one that had all of `count` begins anew
        assert time.monotonic() < deadline, "no worker has begun anew"
        last = grown(site, last, 0)
    grown(site, last, sum(last.values()) + ENOUGH)
    password = (site.directory / cluster.REDIS_NAME).read_text()
    cluster.reset(site.inventory, site.directory, "r2")
    assert counts(site) == {} and (site.directory / cluster.REDIS_NAME).read_text() != password


def grown(site: Site, last: dict[tuple[str, str], int], total: int) -> dict[tuple[str, str], int]:
    """Return the counts once their sum is that large; none may ever become smaller."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        now = counts(site)
        smaller = {word: (n, now.get(word)) for word, n in last.items() if now.get(word, 0) < n}
        assert not smaller, "a task has begun from nothing"
        if sum(now.values()) >= total:
            return now
        assert time.monotonic() < deadline, f"{sum(now.values())} words are counted, {total} were waited for"
        last = now
        time.sleep(1.0)


def test_a_redis_that_does_not_start_ends_the_run_before_its_topologies(site: Site) -> None:
    site.run("master", "mv", "/usr/bin/redis-server", "/usr/bin/redis-server.away")
    try:
        with pytest.raises(PlayFailed, match=r"Redis at master:6790 cannot be reached") as failure:
            cluster.reset(site.inventory, site.directory, "r3")
    finally:
        site.run("master", "mv", "/usr/bin/redis-server.away", "/usr/bin/redis-server")
    assert failure.value.blame == "infrastructure"
    cluster.reset(site.inventory, site.directory, "r4")
    assert counts(site) == {}
