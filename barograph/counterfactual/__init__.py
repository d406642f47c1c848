"""What other policies would have made of a recorded run: its experiment is simulated once a policy, from the placement
that the run had, with its events at the times at which they happened. The recorded policy is simulated too, so that a
reader sees beside what was recorded how far the simulator is off on this very run.
"""
