"""Writes what makes a database of this version's schema: `python -m scripts.release_schema VERSION`, in each release.

`tests/migrations/released` keeps it for both databases. From then on it never changes, and the tests upgrade it to
every later schema.
"""

from __future__ import annotations

import sys
from pathlib import Path

from workhook.bootstrap import import_tables
from workhook.storage import schema
from workhook.storage.migrate import HEAD

RELEASED = Path(__file__).parent.parent / "tests" / "migrations" / "released"


def script(kind: str) -> str:
    """What makes a database of `sqlite` or `postgresql` as this version does."""
    import_tables()
    return ";\n\n".join(schema.statements(kind, HEAD, "public")) + ";\n"


def main(version: str) -> None:
    RELEASED.mkdir(exist_ok=True)
    for kind in ("sqlite", "postgresql"):
        with (RELEASED / f"{version}.{kind}.sql").open("x", encoding="utf-8") as file:  # what is released stays
            file.write(script(kind))


if __name__ == "__main__":
    main(sys.argv[1])
