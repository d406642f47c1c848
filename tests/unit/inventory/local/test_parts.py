"""The pure parts of the local testbed: names, addresses, shaping, flags, apt sources."""

from pathlib import Path

import pytest

from inventory.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.leases import processes
from inventory.local import lan, podman, rootfs

LEASE = "ab12cd34"


def test_seats_have_an_address_on_each_lan() -> None:
    seat = lan.lan_endpoint(LEASE, "m3", 4, 100)
    assert (seat.netns, seat.control_address, seat.experiment_address) == (
        "baro-ab12cd34-m3",
        "10.213.0.14",
        "10.214.0.14",
    )


def test_interface_names_fit() -> None:
    longest = [f"b{LEASE}{end}" for end in ("ctl", "exp", f"c{lan.MAX_MACHINES}", f"e{lan.MAX_MACHINES}")]
    assert max(map(len, longest)) <= 15


@pytest.mark.parametrize(("mbit", "least"), [(10, 131072), (100, 131072), (1000, 500_000), (10_000, 5_000_000)])
def test_the_token_bucket_reaches_the_rate(mbit: int, least: int) -> None:
    assert lan.burst_bytes(mbit) == least


@pytest.mark.parametrize("value", ["10.0.0.0/8", "10.1.2.3/24", "near"])
def test_a_range_that_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("BAROGRAPH_CONTROL_LAN", value)
    with pytest.raises(ConfigurationError, match=f"BAROGRAPH_CONTROL_LAN is '{value}'"):
        lan.network(lan.CONTROL)


def test_limits_and_mounts_in_the_flags() -> None:
    container = podman.Container(
        "baro-x-m1", "m1", Path("/run/netns/baro-x-m1"), 0.25, 768, Path("/rootfs"), Path("/keys/m1"),
        {Path("/storm"): "/opt/barograph/storm"},
    )  # fmt: skip
    flags = podman.run_flags(container, LEASE)
    for flag in (
        "--cpu-quota=25000", "--memory=768m", "--hostname=m1", "--network=ns:/run/netns/baro-x-m1", "--no-hosts",
        "--init", "--mount=type=bind,src=/storm,dst=/opt/barograph/storm,ro=true",
        "--mount=type=bind,src=/keys/m1,dst=/opt/barograph/machine,ro=true", f"--cgroup-parent=/barograph-{LEASE}",
    ):  # fmt: skip
        assert flag in flags


def test_only_the_distributions_own_archives_are_used() -> None:
    lines = [
        "http://example.org/debian/|bookworm|main|Debian",
        "http://example.org/debian/|bookworm|main|Debian",
        "http://example.org/debian/|bookworm|non-free|Debian",
        "https://apt.example.org/|bookworm|main|Example",
        "file:/srv/debian/|bookworm|main|Debian",
        "http://security.example.org/|bookworm-security|main|Debian",
    ]
    assert rootfs.distribution_sources(lines) == (
        ("http://example.org/debian/", "bookworm", "main"),
        ("http://security.example.org/", "bookworm-security", "main"),
    )


def test_no_archive_at_all_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="run `apt-get update`"):
        rootfs.distribution_sources([])


def test_a_program_that_fails_is_infrastructure_with_its_words() -> None:
    with pytest.raises(InfrastructureError, match=r"`cat /nowhere` failed: .*No such file"):
        processes.run(["cat", "/nowhere"], LEASE)
    assert processes.run(["cat"], LEASE, "text") == "text"


def test_a_program_that_is_missing_is_configuration() -> None:
    with pytest.raises(ConfigurationError, match="no-such-program is not installed"):
        processes.run(["no-such-program"], LEASE)


def test_a_full_disk_is_capacity() -> None:
    with pytest.raises(CapacityError, match="the disk is full"):
        processes.run(["dd", "if=/dev/zero", "of=/dev/full", "count=1"], LEASE)


def test_a_program_that_hangs_is_infrastructure() -> None:
    with pytest.raises(InfrastructureError, match=r"`sleep 60` did not end within 0.2 s"):
        processes.run(["sleep", "60"], LEASE, timeout_s=0.2)


def test_what_was_started_for_a_lease_is_found_and_killed() -> None:
    import os
    import subprocess

    with subprocess.Popen(["sleep", "60"], env={**os.environ, processes.MARK: "feedbeef"}) as stray:
        processes.kill_all("feedbeef", [])
        assert stray.wait(timeout=5) == -9


@pytest.mark.parametrize(("hierarchy", "file", "most"), [("cpu/", "cpu.shares", "262144"), ("", "cpu.weight", "10000")])
def test_machines_go_before_other_work_on_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hierarchy: str, file: str, most: str
) -> None:
    folder = tmp_path / f"{hierarchy}barograph-{LEASE}"
    folder.mkdir(parents=True)
    (folder / file).write_text("1024")
    monkeypatch.setattr(processes, "CGROUPS", tmp_path)
    processes.put_first(LEASE)
    assert (folder / file).read_text() == most
