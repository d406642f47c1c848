"""Barograph's pages inside Airflow, behind its login: the results in its navigation, a report on every DAG run."""

# Under this key of its XComs the task that opens what a DAG run makes says it: a series' folder, or the id of a night.
RESULT_KEY = "barograph_result"
NIGHT_DAGS = "nightly."  # the id of a suite's DAG is this and its name
COMPARISON_DAG = "compare_branches"


def dag_id_of(experiment: str) -> str:
    return experiment.replace("/", ".")
