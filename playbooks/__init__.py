"""Software onto machines: Ansible playbooks, and the two files that run them (`runner.py`, `cluster.py`)."""
