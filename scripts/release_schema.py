"""Write the SQL that creates this version's database schema: `python -m scripts.release_schema VERSION`.

Run it for each release.

The scripts for both databases are stored in `tests/migrations/released` and never change afterwards. Tests upgrade them
to every later schema.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from packaging.version import Version

from workhook.bootstrap import import_tables
from workhook.storage import schema
from workhook.storage.migrate import HEAD

RELEASED = Path(__file__).parent.parent / "tests" / "migrations" / "released"


def script(kind: str) -> str:
    """Return the SQL that creates this version's schema on `sqlite` or `postgresql`."""
    import_tables()
    return ";\n\n".join(schema.statements(kind, HEAD, "public")) + ";\n"


def main(version: str) -> None:
    RELEASED.mkdir(exist_ok=True)
    for kind in ("sqlite", "postgresql"):
        with (RELEASED / f"{version}.{kind}.sql").open("x", encoding="utf-8") as file:  # never overwrite
            file.write(script(kind))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m scripts.release_schema", description="Freeze a release's schema.")
    parser.add_argument("version", type=Version, help="the released version, such as 0.2.0")
    main(str(parser.parse_args().version))
