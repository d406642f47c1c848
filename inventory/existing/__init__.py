"""The `existing` testbed: machines that one already has, from an Ansible inventory file."""

from inventory.existing.testbed import ExistingTestbed

__all__ = ["ExistingTestbed"]
