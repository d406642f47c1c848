"""Carry out series, and cells of campaigns, each an experiment with its labels in a series' folder.

`steps` has every step of a series. `execution` does them one after the other in a process of its own; Airflow's DAGs
map the same steps to tasks. `simulation` does runs side by side in a pool of processes, of a series or of many `cells`.
`sweep` is the campaign of one file at many values.
"""
