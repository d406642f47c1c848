"""Order of steps only: experiment, runs and their sequence, and what to do when one fails."""
