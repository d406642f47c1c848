"""Is B better than A? One experiment becomes another one, whose variants are two codes side by side in every block.

sides      A and B as people say them: a git ref, or a YAML file of a scheduler that is not ours
derive     the experiment of a comparison; pure
budget     how much a comparison may take
record     `comparison.json` and `enough.json` of its series
opening    all that is done before a machine is touched
stopping   after a block: is it certain, is the budget spent
timing     where the wall time went
"""
