"""An experiment's testbed: its machines, whether the experiment can run there, and its cost."""
