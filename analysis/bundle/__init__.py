"""A series, or one run of it, as an artifact with everything from which its numbers and figures are made.

`content` selects the files, `reduction` makes a series of one run, `environment` and `readme` describe it, `archive`
writes it with the same bytes every time. `remake.py` is part of the bundle and starts `reproduction`.
"""
