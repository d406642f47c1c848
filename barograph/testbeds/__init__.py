"""The testbed that an experiment chooses: its machines, whether the experiment can run there, and what it costs."""
