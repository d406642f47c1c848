"""Order only: which experiment, which runs, in which sequence, and what to do when one fails."""
