"""One Storm cluster on emulated machines for all tests of this folder: a master, two workers and one that joins."""

from collections.abc import Iterator

import pytest

from inventory.machines import MACHINE_TYPES, MachineRequest, scale_type
from tests.integration.cluster_site import CORES, JOINING, WORKERS, Site, deployed
from tests.support import planted


@pytest.fixture(scope="package")
def site() -> Iterator[Site]:
    workers = [MachineRequest(name, scale_type(MACHINE_TYPES["type_1"], CORES)) for name in WORKERS]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in planted.ENVIRONMENT.items():
            patch.setenv(name, value)
        with deployed(workers, JOINING, ("10.223.0.0/24", "10.224.0.0/24")) as one:
            yield one
