"""Nimbus with its rounds and rebalances, and the bridge inside it, in Python: on a real cluster both are in Java.

Simulators, fakes and replays drive the real policy service with it, as PolicyScheduler does in Storm's Nimbus: the same
rounds, plans and words. Both languages are held together by `tests/contract/round_cases`.

    nimbus.py   what Nimbus does by itself
    cluster.py  a cluster as a scheduler sees it in a round, what is placed in it, which workers restart
    rounds.py   the bridge's rounds, and the policy service in process

Nothing here reads a clock, sleeps or draws random numbers.
"""
