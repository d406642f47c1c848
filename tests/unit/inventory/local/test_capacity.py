from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import CapacityError, ConfigurationError
from inventory.local import preflight
from inventory.local.testbed import LocalTestbed
from inventory.machines import MACHINE_TYPES, MEMORY_FLOOR_MB, MachineRequest, scale_type


def _cluster(workers: int, factor: float) -> list[MachineRequest]:
    small = scale_type(MACHINE_TYPES["type_1"], factor)
    return [
        MachineRequest("master", MACHINE_TYPES["master"]),
        *(MachineRequest(f"m{n + 1}", small) for n in range(workers)),
    ]


def test_a_resting_master_and_five_thirds_fill_two_cores() -> None:
    preflight.check_cores(_cluster(5, 0.34), 2.0)


def test_too_many_machines_for_the_box_says_what_would_fit() -> None:
    with pytest.raises(CapacityError) as refused:
        preflight.check_cores(_cluster(5, 0.4), 2.0)
    assert str(refused.value) == (
        "local: 6 machines need 2.3 cores, this box has 2: the first 5 would fit; "
        "ask for fewer, or make the workers' share 0.85 of what it is"
    )


def test_a_box_that_the_master_fills() -> None:
    with pytest.raises(CapacityError, match=r"the first 1 would fit; ask for fewer, or use a larger box"):
        preflight.check_cores(_cluster(1, 0.25), 0.3)


def test_memory() -> None:
    requests = [MachineRequest(f"m{n}", replace(MACHINE_TYPES["type_1"], memory_mb=1000)) for n in range(5)]
    preflight.check_memory(requests, 6000)
    with pytest.raises(CapacityError, match=r"need 5000 MB of memory, this box can give 3600: the first 3 would fit"):
        preflight.check_memory(requests, 4000)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "DISK_MB_PER_MACHINE", 10**9)
    with pytest.raises(CapacityError, match=r"MB free, 2 machines need 2000000000; free some or set BAROGRAPH_STATE"):
        preflight.check_disk(_cluster(1, 0.25), tmp_path / "not" / "yet")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "no machine is asked for"),
        (["m1", "m1"], "asked for twice"),
        (["M1"], "not allowed"),
        (["../m"], "not allowed"),
    ],
)
def test_names(names: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        preflight.check_names([MachineRequest(name, MACHINE_TYPES["type_1"]) for name in names])


def test_more_machines_than_addresses() -> None:
    with pytest.raises(CapacityError, match="201 machines are asked for, at most 200"):
        preflight.check_names([MachineRequest(f"m{n}", MACHINE_TYPES["type_1"]) for n in range(201)])


@pytest.mark.parametrize("state", ["/a/path/that/is/longer/than/podman/takes", "/tmp/with space", "/tmp/a,b"])
def test_state_folders_that_podman_would_trip_over(state: str) -> None:
    with pytest.raises(ConfigurationError, match="set BAROGRAPH_STATE"):
        preflight.check_state(Path(state))


def test_a_missing_mount_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", "/tmp/barograph-state")
    testbed = LocalTestbed(mounts={Path("/no/storm"): "/opt/barograph/storm"})
    with pytest.raises(ConfigurationError, match="/no/storm, to be mounted into the machines, is missing"):
        testbed.check(_cluster(1, 0.2))


@pytest.mark.parametrize(("kind", "factor"), [("type_1", 0.18), ("type_2", 0.045)])
def test_nine_machines_of_four_workers_fit_two_cores_and_24_gb(kind: str, factor: float) -> None:
    """SP table I's largest clusters, on the smallest box the local testbed is meant for."""
    small = scale_type(MACHINE_TYPES[kind], factor)
    assert (small.slots, small.memory_mb) == (4, MEMORY_FLOOR_MB)
    requests = [
        MachineRequest("master", MACHINE_TYPES["master"]),
        *(MachineRequest(f"m{n}", small) for n in range(1, 10)),
    ]
    preflight.check_cores(requests, 2.0)
    preflight.check_memory(requests, 24 * 1024)
    with pytest.raises(CapacityError, match="11 machines need"):
        preflight.check_cores([*requests, MachineRequest("m10", small)], 2.0)
