from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.errors import ConfigurationError
from inventory import TESTBEDS
from inventory.machines import (
    MACHINE_TYPES,
    MEMORY_FLOOR_MB,
    TYPES_FILE,
    describe_scaling,
    load_types,
    machine_type,
    scale_type,
)


def test_table_one_of_the_paper() -> None:
    assert [(MACHINE_TYPES[name].cores, MACHINE_TYPES[name].memory_mb) for name in ("type_1", "type_2")] == [
        (1, 2048),
        (4, 12288),
    ]
    assert {MACHINE_TYPES[name].bandwidth_mbit for name in ("type_1", "type_2", "master")} == {100}
    assert (MACHINE_TYPES["type_1"].slots, MACHINE_TYPES["master"].slots) == (4, 0)


@given(st.floats(min_value=0.001, max_value=1.0), st.sampled_from(["type_1", "type_2"]))
def test_scaling_keeps_everything_but_cores_and_memory(factor: float, name: str) -> None:
    result = scale_type(MACHINE_TYPES[name], factor)
    assert result.cores == MACHINE_TYPES[name].cores * factor
    assert MEMORY_FLOOR_MB <= result.memory_mb <= max(MACHINE_TYPES[name].memory_mb, MEMORY_FLOOR_MB)
    assert (
        replace(result, cores=MACHINE_TYPES[name].cores, memory_mb=MACHINE_TYPES[name].memory_mb) == MACHINE_TYPES[name]
    )


def test_the_memory_floor_is_said() -> None:
    assert describe_scaling(MACHINE_TYPES["type_1"], 0.25, 25) == (
        "type_1 x 0.25: 0.25 cores, 768 MB (the least; the factor alone gives 512 MB), 25 Mbit/s"
    )
    assert "least" not in describe_scaling(MACHINE_TYPES["type_2"], 0.25, 100)
    assert [
        describe_scaling(MACHINE_TYPES[name], factor, 100) for name, factor in (("type_1", 0.18), ("type_2", 0.045))
    ] == [
        "type_1 x 0.18: 0.18 cores, 768 MB (the least; the factor alone gives 369 MB), 100 Mbit/s",
        "type_2 x 0.045: 0.18 cores, 768 MB (the least; the factor alone gives 553 MB), 100 Mbit/s",
    ]


def test_fourteen_workers_have_their_memory() -> None:
    """110 MB for each beyond the four of the floor: an emulated machine that has less would end them."""
    assert scale_type(MACHINE_TYPES["quad_14_slots"], 0.05).memory_mb == 768 + 10 * 110
    assert "the least; the factor alone gives 614 MB" in describe_scaling(MACHINE_TYPES["quad_14_slots"], 0.05, 100)


def test_the_master_is_not_scaled() -> None:
    assert scale_type(MACHINE_TYPES["master"], 0.1) == MACHINE_TYPES["master"]
    assert describe_scaling(MACHINE_TYPES["master"], 0.1, 100).endswith("(not scaled)")


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.01, float("nan")])
def test_a_factor_out_of_range(factor: float) -> None:
    with pytest.raises(ConfigurationError, match="above 0 and at most 1"):
        scale_type(MACHINE_TYPES["type_1"], factor)


def test_an_unknown_type_lists_the_known() -> None:
    known = "type_1, type_2, type_1_one_slot, workstation, quad_14_slots, two_octa, master"
    with pytest.raises(ConfigurationError, match=f"'type_3' is not known; known are {known}"):
        machine_type("type_3")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cores: 1\n", "cores: 0\n", r"types\.type_1\.cores is 0\.?0?; allowed: .*greater than 0"),
        ("    slots: 4\n", "    slotz: 4\n", r"slotz; known here: cores, memory_mb"),
    ],
)
def test_a_bad_file_is_named_with_field_and_value(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = TYPES_FILE.read_text()
    assert old in text
    (tmp_path / "types.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigurationError, match=rf"types\.yaml: .*{message}"):
        load_types(tmp_path / "types.yaml")


@pytest.mark.parametrize("testbed", TESTBEDS.values(), ids=TESTBEDS)
def test_only_testbeds_with_other_machines_take_some_back(testbed: type) -> None:
    """After a scale-in the last run gives machines back: where it turns out invalid they are missing for another
    attempt, so that the last blocks would be lost more often than others."""
    assert hasattr(testbed, "grow") or not hasattr(testbed, "give_back")
