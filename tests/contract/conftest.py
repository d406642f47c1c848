"""A testbed for all contract tests, and machines that the tests of a file share."""

from collections.abc import Iterator

import pytest

from inventory.leases import registry
from inventory.machines import Machine
from tests.contract.sites import EVERY, WANTED, Site, opened, taken

NIGHTLY = ("ec2", "existing")  # whose abilities: in the day their contract is kept, and parts of them by unit tests


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of abilities of those testbeds, of which each starts machines of its own."""
    parameters = getattr(item, "callspec", None)
    if item.path.name == "test_testbed_abilities.py" and parameters and parameters.params.get("site") in NIGHTLY:
        item.add_marker(pytest.mark.long)


@pytest.fixture(scope="package", params=EVERY)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with opened(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def held(site: Site) -> Iterator[tuple[registry.Lease, tuple[Machine, ...]]]:
    """For tests that change nothing: those that take a lease themselves (`alone`) come after them in their file."""
    with taken(site, WANTED) as both:
        yield both


@pytest.fixture(scope="module")
def machines(held: tuple[registry.Lease, tuple[Machine, ...]]) -> tuple[Machine, ...]:
    return held[1]


@pytest.fixture
def alone(site: Site) -> Site:
    for lease in registry.read_all():
        site.testbed.release(lease)
        registry.drop(lease)
    return site
