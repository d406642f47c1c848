"""The harness: plans experiments, takes machines, runs them and keeps their records. Only `web` and `cli` know
Airflow."""
