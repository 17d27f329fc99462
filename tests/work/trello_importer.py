"""Imports boards into a studio and reads the result."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec

from tests.harness import forge
from tests.work.studio import Studio
from tests.work.trello import encoded
from workhook.cli.imports import ImportTarget, import_boards
from workhook.core.disclosure import public_form
from workhook.http.calls import Services
from workhook.work.portability.imports.apply import Imported
from workhook.work.portability.imports.plan import Choices, ImportPlan
from workhook.work.portability.imports.trello import plan_of, read_export

Object = dict[str, Any]


class Importer:
    """Imports into the studio's organization while its server runs."""

    def __init__(self, studio: Studio, folder: Path) -> None:
        self.studio = studio
        self.folder = folder
        self.environment = studio.server.environment()

    def file(self, board: Object | bytes, name: str = "board.json") -> str:
        path = self.folder / name
        path.write_bytes(board if isinstance(board, bytes) else encoded(board))
        return str(path)

    def run(self, *words: str, source: str = "trello") -> subprocess.CompletedProcess[str]:
        command = ["import", source, *words]
        if "--organization" not in words:
            command += ["--organization", self.studio.world.organization]
        return forge.run(command, self.environment, timeout_s=110)

    def board(self, board: Object, **wanted: Any) -> Any:
        """Import a board in this process, which starts faster, and return the command's JSON without the `file` key."""
        return self.plan(plan_of(read_export(encoded(board)), Choices()), **wanted)

    def plan(self, plan: ImportPlan, **wanted: Any) -> Any:
        """Import a plan of any source in this process."""
        place, base = ImportTarget(self.studio.world.organization, **wanted), self.studio.server.url

        async def write(services: Services) -> Imported:
            [made] = await import_boards(services.database, [plan], place, base, lambda what, done, total: None)
            return made

        return msgspec.to_builtins(self.studio.server.run(write), enc_hook=public_form)

    def refused(self, *words: str, status: int = 1, source: str = "trello") -> str:
        done = self.run(*words, source=source)
        assert (done.returncode, done.stdout) == (status, ""), done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr


def small(*cards: Object, **more: Any) -> Object:
    """Return a board with two lists. Cards are in the first unless they name another."""
    lists = [{"id": "l1", "name": "Ideas", "pos": 1}, {"id": "l2", "name": "Done", "pos": 2}]
    made = [{"id": f"c{at}", "idList": "l1", "name": f"Card {at}", "pos": at, **card} for at, card in enumerate(cards)]
    return {"id": "b1", "name": "Website relaunch", "lists": lists, "cards": made, **more}


def comment(number: int, text: str, card: str = "c0", author: Object | None = None) -> Object:
    date = f"2024-01-0{number}T10:00:00.000Z"
    return {
        "id": f"a{number}", "type": "commentCard", "date": date, "memberCreator": author,
        "data": {"text": text, "card": {"id": card}},
    }  # fmt: skip


def columns_of(studio: Studio, project_id: str) -> list[Object]:
    found: list[Object] = studio.owner.get(f"/projects/{project_id}/columns")["columns"]
    return found


def board_of(studio: Studio, project_id: str) -> dict[str, list[str]]:
    """Return the titles of the tasks by the title of their column, each in order."""
    return {
        each["title"]: [task["title"] for task in tasks_of(studio, each)] for each in columns_of(studio, project_id)
    }


def tasks_of(studio: Studio, column: Object) -> list[Object]:
    found: list[Object] = studio.owner.get(f"/columns/{column['id']}/tasks")["tasks"]
    return found


def comments_of(studio: Studio, task_id: str) -> list[Object]:
    found: list[Object] = studio.owner.get(f"/tasks/{task_id}/task_comments")["task_comments"]
    return found


def logins(studio: Studio) -> dict[str, str]:
    """Return the logins by the role in the studio."""
    callers = {"owner": studio.owner, "member": studio.member}
    return {name: each.login for name, each in callers.items()}
