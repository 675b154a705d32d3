"""`python -m planner`, the same as the command `planner`."""

from __future__ import annotations

import sys

from planner.cli import main

if __name__ == "__main__":
    sys.exit(main())
