"""Simulate a recorded run under other policies: its experiment runs once for each policy, from the placement of the
run, with its events at the times at which they happened. The recorded policy is simulated too, so that a reader sees
the simulator's error on this very run.
"""
