"""Barograph's pages inside Airflow, behind its login: the results in its navigation, a report on every DAG run."""
