"""Keys that change machine (DT 7.1.3), by every rule, and the placement of tasks that Storm's own needs."""

from collections import Counter
from statistics import fmean

import pytest

from analysis.claims.exact import KEYS, MACHINES, TASKS, even_places, keys_moved, keys_moved_percent


def machines(number: int) -> list[str]:
    return [f"m{n}" for n in range(1, number + 1)]


def test_a_machine_that_joins_gets_its_share_of_tasks_and_no_other_moves() -> None:
    for size in (1, 3, 10, 63, 300):
        old = [machines(size)[task % size] for task in range(TASKS)]
        new = even_places(old, machines(size + 1))
        counts = Counter(new)
        assert max(counts.values()) - min(counts[name] for name in machines(size + 1)) <= 1
        assert {b for a, b in zip(old, new, strict=True) if a != b} <= {f"m{size + 1}"}


def test_a_machine_that_leaves_gives_its_tasks_to_the_others_and_no_other_moves() -> None:
    old = [machines(7)[task % 7] for task in range(TASKS)]
    left = [name for name in machines(7) if name != "m3"]
    new = even_places(old, left)
    assert all((a != b) == (a == "m3") for a, b in zip(old, new, strict=True))
    counts = Counter(new)
    assert set(counts) == set(left) and max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("size", [2, 5, 20, 64])
def test_ring_and_storms_own_move_a_share_and_mod_n_nearly_all(size: int) -> None:
    before, after = machines(size), machines(size + 1)
    fair = KEYS / (size + 1)
    assert keys_moved("ring", before, after) == pytest.approx(fair, rel=0.3)
    assert keys_moved("fields", before, after) == pytest.approx(fair, rel=0.3)
    # hash mod N and hash mod N + 1 are the same where hash mod N (N + 1) is below N
    cycle = size * (size + 1)
    assert keys_moved("mod", before, after) == sum((31 + key) % cycle >= size for key in range(KEYS))
    assert keys_moved("fields_anew", before, after) > 0.6 * KEYS
    assert all(keys_moved(rule, before, before) == 0 for rule in ("ring", "mod", "fields", "fields_anew"))


def test_over_all_sizes_the_ring_moves_what_is_stated() -> None:
    """Of N machines each has a part, so a new one gets 1 / (N + 1), and one that leaves has had 1 / N."""
    of_joining, of_leaving = (100 * fmean(1 / (size + more) for size in MACHINES) for more in (1, 0))
    assert keys_moved_percent("ring", 1) == pytest.approx(of_joining, abs=0.1)
    assert keys_moved_percent("ring", -1) == pytest.approx(of_leaving, abs=0.2)
    assert keys_moved_percent("fields", 1) == pytest.approx(of_joining, abs=0.4)
