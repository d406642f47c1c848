"""A series, or one run of it, as an artifact: all that its numbers and figures are made of, and what re-makes them.

`content` chooses files and `secrets` looks through them · `reduced` makes a series of one run · `facts` tells the
environment, `readme` all of it in words, `requirements` what Python needs · `archive` writes, the same bytes from the
same series · `remake` goes along as a script of the standard library's; it runs `remaking` with the code in the bundle,
which compares by `comparing`.
"""
