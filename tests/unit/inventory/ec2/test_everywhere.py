"""`barograph reap --everywhere`: what a lost state folder has forgotten is found in every region of the account."""

from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from tests.unit.inventory.ec2.conftest import M1, PACE, Site


def test_what_another_region_has_is_found_by_who_roams(site: Site) -> None:
    lease = site.take()
    site.testbed().acquire(lease, [M1])
    registry.drop(lease)
    (site.state / "ec2-places.json").unlink()
    stranger = Ec2Testbed(timing=PACE)
    assert len(stranger.roam()) > 1
    assert stranger.leftovers() == (f"machines of {lease.lease_id}",) == stranger.sweep()
    assert not site.cloud.left()
