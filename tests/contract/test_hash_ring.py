"""The machine of a key is the same in Python and in Java (MachineGroupingTest.java reads the same file)."""

import json
from pathlib import Path

from topologies.keys import java_hash, machine_by_mod, machine_by_ring

CASES = json.loads((Path(__file__).parent / "hash_ring.json").read_text())


def test_machines_of_keys_are_those_of_java() -> None:
    assert [case["machines"] for case in CASES] == [1, 2, 3, 10, 20, 64]
    for case in CASES:
        machines = [f"m{number}" for number in range(1, case["machines"] + 1)]
        by_mod, by_ring = machine_by_mod(machines), machine_by_ring(machines, 200)
        for key, mod, ring in case["key, mod, ring"]:
            hash_code = java_hash(key) if isinstance(key, str) else key
            assert (by_mod(hash_code), by_ring(hash_code)) == (mod, ring), key
