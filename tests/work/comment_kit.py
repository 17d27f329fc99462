"""Places to comment on, for the tests of comments and of search."""

from __future__ import annotations

from typing import Any

from tests.work.studio import Studio


def add_column(studio: Studio, project: str | None = None) -> str:
    """`project`: the path of another project than the studio's. The column's path."""
    made = studio.owner.post(f"{project or studio.project}/columns", json={"title": "To do"})
    return f"/columns/{made['column']['id']}"


def add_task(studio: Studio, title: str = "Task", *, column: str | None = None, **more: Any) -> str:
    """The task's id."""
    made = studio.owner.post(f"{column or add_column(studio)}/tasks", json={"title": title, **more})
    return str(made["task"]["id"])


def add_file(studio: Studio, title: str = "plan.txt", *, project: str | None = None, **more: Any) -> str:
    """Likewise. The file's id."""
    made = studio.owner.post(
        f"{project or studio.project}/files",
        files={"file": ("plan.txt", b"a file", "text/plain")},
        data={"title": title, **more},
    )
    return str(made["file"]["id"])
