"""Record a server's responses to every operation, or compare two records.

python -m tests.recorded record --tree DIR --out FILE

python -m tests.recorded compare OLD NEW
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.recorded.compare import differences
from tests.recorded.record import record


def main() -> int:
    """Return the exit status: 1 if two records differ."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.recorded", description=__doc__.split("\n")[0] if __doc__ else ""
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record", help="start the server of a tree, ask everything, write the answers")
    one.add_argument("--tree", type=Path, required=True, help="a checkout of the repository")
    one.add_argument("--out", type=Path, required=True, help="the file to write, JSON lines")
    two = commands.add_parser("compare", help="print each difference of two records")
    two.add_argument("old", type=Path)
    two.add_argument("new", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        print(f"{record(given.tree, given.out)} requests")
        return 0
    found = 0
    for each in differences(given.old, given.new):
        print(each)
        found += 1
    print(f"{found} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
