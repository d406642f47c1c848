"""Carry out series, and cells of campaigns: a cell is an experiment with its labels in the folder of a series.

`steps` has every step of a series. `execution` does them one after the other in a separate process; Airflow's DAGs map
the same steps to tasks. `simulation` simulates runs side by side in a pool of processes, for one series or many
`cells`. `sweep` is the campaign of one file at many values.
"""
