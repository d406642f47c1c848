"""A testbed for all contract tests, and machines that the tests of a file share."""

from collections.abc import Iterator

import pytest

from inventory import leases
from inventory.machines import Machine
from tests.contract.sites import EVERY, WANTED, Site, opened, taken


@pytest.fixture(scope="package", params=EVERY)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with opened(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def held(site: Site) -> Iterator[tuple[leases.Lease, tuple[Machine, ...]]]:
    """For tests that change nothing: those that take a lease themselves (`alone`) come after them in their file."""
    with taken(site, WANTED) as both:
        yield both


@pytest.fixture(scope="module")
def machines(held: tuple[leases.Lease, tuple[Machine, ...]]) -> tuple[Machine, ...]:
    return held[1]


@pytest.fixture
def alone(site: Site) -> Site:
    for lease in leases.read_all():
        site.testbed.release(lease)
        leases.drop(lease)
    return site
