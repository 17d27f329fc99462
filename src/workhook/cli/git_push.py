"""`python -m workhook.cli.git_push`: Git hooks that an older version installed name the sender so."""

import sys

from workhook.git_push.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
