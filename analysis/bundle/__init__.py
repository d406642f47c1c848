"""A series, or one run of it, as an artifact with everything that its numbers and figures are made of.

`content` selects the files, `reduction` makes a series of one run, `environment` and `readme` describe it, `archive`
writes it with the same bytes every time. `remake.py` travels in the bundle and starts `reproduction`.
"""
