"""The `existing` testbed: the user's machines, from an Ansible inventory file."""
