"""What a new project starts with."""

from __future__ import annotations

from typing import NamedTuple

from workhook.core.errors import NotFound
from workhook.identity.context import Write
from workhook.web.frame.texts import gettext, text
from workhook.work.board.columns.api import ColumnCreate, add_column
from workhook.work.board.projects.api import ProjectCreate, add_project
from workhook.work.board.projects.schemas import Project


class ProjectTemplate(NamedTuple):
    """`columns`: titles, each with whether its tasks are finished."""

    name: str
    label: str
    columns: tuple[tuple[str, bool], ...] = ()

    @property
    def names(self) -> str:
        return ", ".join(gettext(title) for title, _ in self.columns)


PROJECT_TEMPLATES = (
    ProjectTemplate(
        "board", text("To do, Doing, Done"), ((text("To do"), False), (text("Doing"), False), (text("Done"), True))
    ),
    ProjectTemplate("", text("Empty")),
)


async def add_from_template(write: Write, create: ProjectCreate, name: str) -> Project:
    """The new project with its columns, all in one transaction. Raises `NotFound` for no template of this name."""
    template = next((each for each in PROJECT_TEMPLATES if each.name == name), None)
    if template is None:
        raise NotFound()
    project = await add_project(write, create)
    await add_columns(write, project.id, template)
    return project


async def add_columns(write: Write, project_id: str, template: ProjectTemplate) -> None:
    """The columns of the template, at the end of the board."""
    for title, finished in template.columns:
        await add_column(write, project_id, ColumnCreate(title=gettext(title), finished=finished))
