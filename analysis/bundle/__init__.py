"""A series, or one run of it, as an artifact with everything from which its numbers and figures are made.

`content` selects the files and writes them with the same bytes every time, `readme` describes them. `remake.py` is part
of the bundle and starts `reproduction`, which also makes a series of one run.
"""
