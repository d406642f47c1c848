"""Software onto machines: Ansible playbooks, and the two files that run them (`run.py`, `cluster.py`)."""
