"""`python -m barograph`: the command line."""

import sys

from barograph.cli import main

if __name__ == "__main__":
    sys.exit(main())
