"""A harness that dies, or is hit by an error, between any two calls to EC2: nothing stays."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from barograph.errors import InfrastructureError
from inventory.ec2 import aws
from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from inventory.machines import Machine
from tests.conftest import AT_NIGHT
from tests.support.cloud.cloud import Cloud
from tests.unit.inventory.ec2.conftest import M1, M2, MASTER, Site

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


MOST_CALLS = 60


@pytest.fixture
def cloud(control_plane: Cloud) -> Cloud:
    """Anew for each test: it lists every instance that ever was, and here that would be hundreds."""
    return control_plane.anew()


class Killed(BaseException):
    """The process is dead: nothing of it runs any more, clean-up included."""


@dataclass
class Death:
    """Comes at the n-th call: before it is made, or after EC2 has done it and before its answer is read."""

    at: int
    answered: bool
    for_good: bool
    calls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def before(self, **_: Any) -> None:
        with self._lock:
            self.calls += 1
            if self.for_good and self.calls > self.at:
                raise Killed
            if not self.answered and self.calls == self.at:
                raise self._error

    def after(self, **_: Any) -> None:
        with self._lock:
            if self.answered and self.calls == self.at:
                raise self._error

    @property
    def _error(self) -> BaseException:
        return Killed() if self.for_good else OSError("the connection was reset")


@contextmanager
def dying(death: Death) -> Iterator[None]:
    """Clients that are made meanwhile are hit by that death."""
    real = aws.client

    def client(place: aws.Region) -> "EC2Client":
        made = real(place)
        made.meta.events.register("before-call.ec2", death.before)
        made.meta.events.register("after-call.ec2", death.after)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aws, "client", client)
        yield


Life = Callable[[Ec2Testbed, registry.Lease, tuple[Machine, ...]], object]

# What each phase does with a lease that has a master and m1, save for the first, which has nothing yet.
PHASES: dict[str, Life] = {
    "acquire": lambda testbed, lease, _: testbed.acquire(lease, [MASTER, M1]),
    "grow": lambda testbed, lease, _: testbed.grow(lease, [M2]),
    "give_back": lambda testbed, lease, machines: testbed.give_back(lease, machines[1:]),
    "release": lambda testbed, lease, _: testbed.release(lease),
}


def _to_the_end(site: Site, phase: str, death: Death, after: Callable[..., None]) -> bool:
    """One life of the phase with that death; False once the phase is over before death comes."""
    lease = site.take()
    before = () if phase == "acquire" else site.testbed(placement="cluster").acquire(lease, [MASTER, M1])
    with dying(death):
        try:
            PHASES[phase](site.testbed(placement="cluster"), lease, before)
            died = False
        except (Killed, InfrastructureError):
            died = True
    after(lease, died)
    registry.drop(lease)
    assert not site.cloud.left(), f"{phase}: {death} left {site.cloud.left()}"
    return died


def _number_of_deaths(site: Site, phase: str, answered: bool, for_good: bool, after: Callable[..., None]) -> int:
    """Lives with a death at each call, by day at each fourth, until one is over before death comes."""
    return next(
        n
        for n in range(0, MOST_CALLS, 1 if AT_NIGHT else 4)
        if not _to_the_end(site, phase, Death(n + 1, answered, for_good), after)
    )


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("phase", PHASES)
def test_killed_between_any_two_calls_a_release_by_another_process_leaves_nothing(
    site: Site, phase: str, answered: bool
) -> None:
    def release(lease: registry.Lease, died: bool) -> None:
        site.releasing().release(lease)

    assert _number_of_deaths(site, phase, answered, True, release) > 2


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_an_acquire_that_fails_at_any_call_has_cleaned_up_itself(site: Site, answered: bool) -> None:
    def nothing_left(lease: registry.Lease, died: bool) -> None:
        if died:
            assert not site.cloud.left() and registry.lease_machines(lease) == ()
            assert not registry.key_dir(lease.lease_id).exists()
        else:
            site.releasing().release(lease)

    assert _number_of_deaths(site, "acquire", answered, False, nothing_left) > 4


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_a_grow_that_fails_at_any_call_leaves_the_lease_as_it_was(site: Site, answered: bool) -> None:
    def as_before(lease: registry.Lease, died: bool) -> None:
        assert registry.lease_machines(lease) == (("master", "m1") if died else ("master", "m1", "m2"))
        assert len(site.cloud.left().instances) == (2 if died else 3)
        site.releasing().release(lease)

    assert _number_of_deaths(site, "grow", answered, False, as_before) > 4
