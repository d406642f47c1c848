"""Ansible playbooks that install software on machines, and the two files that run them (`runner.py`, `cluster.py`)."""
