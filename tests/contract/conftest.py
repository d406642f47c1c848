"""A testbed for all contract tests, and machines that the tests of a file share."""

from collections.abc import Iterator

import pytest

from inventory.leases import registry
from inventory.machines import Machine
from tests.contract.sites import EVERY, WANTED, Site, opened, taken


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
