"""`python -m manyheads` is the command line."""

import sys

from manyheads.cli import main

if __name__ == "__main__":
    sys.exit(main())
