"""What testbeds with an ability keep: one that has it not is skipped before it starts a machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import ConfigurationError, InfrastructureError
from barograph.plan.events.kind import Disturbance
from inventory.leases import registry
from inventory.machines import Machine, MachineRequest, machine_type
from inventory.testbed import (
    SupportsDisturbances,
    SupportsFaults,
    SupportsGrow,
    SupportsPricing,
    SupportsProlong,
    SupportsRecall,
)
from tests.contract.sites import M2, M3, WANTED, Site, gone, taken

Held = tuple[registry.Lease, tuple[Machine, ...]]


def _able(site: Site, ability: type) -> Any:
    if not isinstance(site.testbed, ability):
        pytest.skip(f"{site.testbed.name} has not the ability {ability.__name__}")
    return site.testbed


# Fixtures are made in the order in which a test names them: abilities go before machines.


@pytest.fixture
def faulting(site: Site) -> SupportsFaults:
    return _able(site, SupportsFaults)


@pytest.fixture
def disturbing(site: Site) -> SupportsDisturbances:
    return _able(site, SupportsDisturbances)


@pytest.fixture
def giving_back(site: Site) -> SupportsGrow:
    return _able(site, SupportsGrow)


@pytest.fixture
def growing(site: Site) -> SupportsGrow:
    return _able(site, SupportsGrow)


@pytest.fixture
def two(alone: Site) -> Iterator[Held]:
    with taken(alone, WANTED) as both:
        yield both


@pytest.fixture
def three(alone: Site) -> Iterator[Held]:
    with taken(alone, (*WANTED, M2)) as both:
        yield both


def test_twice_the_hours_cost_twice_as_much(site: Site) -> None:
    pricing: SupportsPricing = _able(site, SupportsPricing)
    requests = [MachineRequest("master", machine_type("master")), MachineRequest("m1", machine_type("type_1"))]
    one, two = pricing.estimate(requests, 1.0), pricing.estimate(requests, 2.0)
    assert one.total_usd > 0 and two.total_usd == pytest.approx(2 * one.total_usd)
    assert pricing.estimate(requests[:1], 1.0).total_usd < one.total_usd
    assert pricing.budget_usd() > 0 and all(one.lines) and len(one.prices_of) == len("2026-11-21")


def test_nothing_is_recalled_that_nobody_takes_away(site: Site, request: pytest.FixtureRequest) -> None:
    recalling: SupportsRecall = _able(site, SupportsRecall)
    lease, _ = request.getfixturevalue("held")
    assert recalling.recalled(lease) == ()


def test_a_longer_lease_may_be_told_again(site: Site, request: pytest.FixtureRequest) -> None:
    prolonging: SupportsProlong = _able(site, SupportsProlong)
    lease, machines = request.getfixturevalue("held")
    longer = registry.renew(lease, 5000)
    prolonging.prolong(longer, machines)
    prolonging.prolong(longer, machines)
    assert [gone(site, machine) for machine in machines] == [False] * len(machines)


# The tests below take the testbed's lease themselves, so they come after those that share one.


def test_a_crashed_machine_is_silent_and_comes_back_with_its_disk(
    faulting: SupportsFaults, alone: Site, three: Held, tmp_path: Path
) -> None:
    _, (master, m1, _) = three
    (tmp_path / "mark").write_text("kept")
    before = alone.connect(m1)
    before.put(tmp_path / "mark", "/root/mark")
    faulting.crash(m1)
    faulting.crash(m1)
    assert gone(alone, m1)
    assert not gone(alone, master)
    faulting.restart(m1)
    faulting.restart(m1)
    with alone.connect(m1) as after:
        assert after.run(["cat", "/root/mark"]).stdout == "kept"
        assert after.run(["hostname"]).stdout == "m1\n"
    with pytest.raises(InfrastructureError, match="m1"):
        before.run(["true"], timeout_s=5)
    before.close()
    faulting.crash(m1)
    assert gone(alone, m1), "one that was restarted can crash again"
    faulting.restart(m1)
    assert not gone(alone, m1)


DISTURBANCES = (
    Disturbance("cpu_load", 0.1), Disturbance("slow_cpu", 0.5), Disturbance("memory_limit", 200),
    Disturbance("lan_cut"), Disturbance("partition"), Disturbance("sample_loss"),
)  # fmt: skip


def test_a_disturbed_machine_goes_on_and_is_as_before_again(
    disturbing: SupportsDisturbances, alone: Site, three: Held
) -> None:
    """What they do to it is in `tests/integration/test_local_testbed.py`."""
    lease, (master, m1, m2) = three
    for disturbance in DISTURBANCES:
        others = [master] if disturbance.kind == "sample_loss" else [m2]
        disturbing.end_disturbance(m1, disturbance, others)
        for _ in range(2):
            disturbing.disturb(m1, disturbance, others)
        assert [gone(alone, machine) for machine in (master, m1, m2)] == [False] * 3
        for _ in range(2):
            disturbing.end_disturbance(m1, disturbance, others)
    alone.testbed.release(lease)
    for act in (disturbing.disturb, disturbing.end_disturbance):
        with pytest.raises(InfrastructureError, match=r"no .*machine m1 \(given back or released\)"):
            act(m1, DISTURBANCES[1])


def test_a_machine_that_crashed_can_be_given_back_and_released(
    faulting: SupportsFaults, giving_back: SupportsGrow, alone: Site, three: Held
) -> None:
    lease, (_, m1, m2) = three
    faulting.crash(m1)
    faulting.crash(m2)
    giving_back.give_back(lease, [m1])
    assert registry.lease_machines(lease) == ("master", "m2")
    alone.testbed.release(lease)
    giving_back.give_back(lease, [m2])
    assert alone.testbed.leftovers() == ()


def test_machines_given_back_are_gone_and_the_rest_stays(giving_back: SupportsGrow, alone: Site, three: Held) -> None:
    lease, (master, m1, m2) = three
    assert registry.lease_machines(lease) == ("master", "m1", "m2")
    giving_back.give_back(lease, [m1])
    giving_back.give_back(lease, [m1])
    assert registry.lease_machines(lease) == ("master", "m2")
    assert [gone(alone, machine) for machine in (master, m1, m2)] == [False, True, False]
    assert alone.testbed.leftovers() == ()
    for broken in (giving_back.crash, giving_back.restart) if isinstance(giving_back, SupportsFaults) else ():
        with pytest.raises(InfrastructureError, match=r"no .*machine m1 \(given back or released\)"):
            broken(m1)
    alone.testbed.release(lease)
    assert [gone(alone, machine) for machine in (master, m2)] == [True, True]
    assert registry.lease_machines(lease) == ()


def test_added_machines_are_given_back_or_go_with_the_lease(growing: SupportsGrow, alone: Site, two: Held) -> None:
    lease, (_, m1) = two
    (m2,) = growing.grow(lease, [M2])
    assert m2.name == "m2" and (m2.boot_s is None or m2.boot_s >= 0)
    assert registry.lease_machines(lease) == ("master", "m1", "m2")
    with alone.connect(m2) as remote:
        assert remote.run(["hostname"]).stdout.strip() == "m2"
    with pytest.raises(ConfigurationError, match="has m2 already"):
        growing.grow(lease, [M2])
    growing.give_back(lease, [m2])
    assert registry.lease_machines(lease) == ("master", "m1")
    assert [gone(alone, machine) for machine in (m2, m1)] == [True, False]
    (m3,) = growing.grow(lease, [M3])
    assert registry.lease_machines(lease) == ("master", "m1", "m3")
    alone.testbed.release(lease)
    assert gone(alone, m3) and registry.lease_machines(lease) == () and alone.testbed.leftovers() == ()
