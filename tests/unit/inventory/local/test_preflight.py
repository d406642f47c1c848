from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inventory.local.preflight import Box, Problem, box_problems, check_box

GOOD = Box(
    system="Linux", user_id=0, missing_programs=(), cgroup_version=2, controllers=frozenset({"cpu", "memory", "pids"}),
    works=frozenset({"tbf", "filter", "veth", "bridge", "overlay"}), bridge_filtered=False, memory_mb=24000,
    state=Path("/var/lib/barograph"), state_free_mb=50000, cache=Path("/var/cache/barograph"), cache_free_mb=50000,
    rootfs_cached=False,
)  # fmt: skip


def test_a_good_box_has_no_problem() -> None:
    assert box_problems(GOOD) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"system": "Darwin"}, "this is Darwin, machines are emulated on Linux only; use a Linux box"),
        ({"user_id": 1000}, "this is user 1000, not root; start it as root or with sudo"),
        ({"missing_programs": ("podman", "tc")}, "not installed: podman, tc; apt-get install iproute2 podman"),
        ({"cgroup_version": 0}, "no cgroups under /sys/fs/cgroup; mount them"),
        ({"controllers": frozenset({"cpu"})}, "cgroup controllers are missing: memory, pids (version 2)"),
        ({"cgroup_version": 1}, "cgroup controllers are missing: cpuacct, freezer (version 1)"),
        ({"works": GOOD.works - {"tbf"}}, "no tbf queueing discipline: bandwidth cannot be shaped"),
        ({"works": GOOD.works - {"filter"}}, "no packet filter: machines would reach every program of this box"),
        ({"works": GOOD.works - {"overlay"}}, "no overlay mounts on /var/lib/barograph"),
        ({"bridge_filtered": True}, "iptables drops forwarded packets"),
        ({"state_free_mb": 10}, "/var/lib/barograph has 10 MB free, 2000 are needed; free some"),
        ({"cache_free_mb": 10}, "/var/cache/barograph has 10 MB free, 1500 are needed; free some"),
        ({"memory_mb": 1000}, "this box has 1000 MB of memory, 4000 are needed"),
    ],
)
def test_each_problem_is_said_with_what_to_do(change: dict[str, Any], text: str) -> None:
    (found,) = box_problems(replace(GOOD, **change))
    assert str(found).startswith(text)


def test_a_cached_root_filesystem_needs_no_room() -> None:
    assert box_problems(replace(GOOD, cache_free_mb=10, rootfs_cached=True)) == []


def test_looking_at_this_box_leaves_nothing(tmp_path: Path) -> None:
    found = check_box(tmp_path / "state", tmp_path / "cache")
    assert all(isinstance(one, Problem) for one in found)
    assert list(tmp_path.iterdir()) == []
