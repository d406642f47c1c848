"""Start the policy service: `python3 -m scheduler_plugins.service`."""

import sys

from scheduler_plugins.service.server import main

if __name__ == "__main__":
    sys.exit(main())
