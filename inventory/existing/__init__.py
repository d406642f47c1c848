"""The `existing` testbed: the user's machines, from an Ansible inventory file."""

from inventory.existing.testbed import ExistingTestbed

__all__ = ["ExistingTestbed"]
