"""Durations of runs that only have to pass through every phase: what a fake or simulated second takes, each costs."""

SHORT = {"warm_up_floor_s": 45, "warm_up_ceiling_s": 60, "after_floor_s": 50, "horizon_s": 90}
