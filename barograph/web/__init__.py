"""Barograph's pages inside Airflow, behind its login: the results in its navigation, a report on every DAG run."""

# The task that opens a DAG run's result stores it under this key of its XComs: a series' folder, or the id of a night.
RESULT_KEY = "barograph_result"
NIGHT_DAGS = "nightly."  # prefix of the id of a suite's DAG
COMPARISON_DAG = "compare_branches"


def dag_id_of(experiment: str) -> str:
    return experiment.replace("/", ".")
