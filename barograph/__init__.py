"""The harness: plans experiments, acquires machines, runs experiments and keeps their records. Only `web` and `cli`
know Airflow. `plan`, `yaml_files` and `errors` are below every other package but policies and topologies.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent  # of the repository
