"""The project record, its parameters, and how it is read from rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
import sqlalchemy as sa
from msgspec import UNSET, Meta, UnsetType

from workhook.core import json
from workhook.core.errors import compose
from workhook.core.records import HIDDEN, LINK, EventSchema, JsonForm, Record, Timestamp, Wire, resource_id
from workhook.http.parameters import ON_ONE_LINE, Rule, Title, WebAddress
from workhook.identity.queries import repositories, repository_of
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import projects
from workhook.storage import Reader, Row
from workhook.storage.metadata import bigint_param
from workhook.work.kernel.access import is_client

LabelColor = Literal["red", "orange", "yellow", "lime", "green", "teal", "sky", "blue", "purple", "pink"]
LABEL_COLORS_MAX = 200
LabelColors = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=255), ON_ONE_LINE], LabelColor],
    Meta(
        max_length=LABEL_COLORS_MAX,
        description="Label colors by name. The color of other labels is derived from their name.",
    ),
]


class Project(Record, frozen=True):
    """A project. `repository_id` is its ID in the webhook API, and `full_name` is `owner/name`."""

    id: Annotated[str, resource_id("prj")]
    repository_id: int
    title: str
    name: str
    full_name: str
    avatar: Annotated[str | None, LINK]
    private: bool
    archive: bool
    label_colors: Annotated[
        str,
        JsonForm(dict[str, LabelColor], json.decode),
        EventSchema({"description": "label colors by name; the color of other labels is derived from their name"}),
    ]
    created_at: Timestamp
    updated_at: Timestamp
    repository: Annotated[Repository, HIDDEN]  # `role` is the caller's role; None for a client


NAME_MAX_CHARS = 100

_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_MAX_CHARS}}}")
ProjectName = Annotated[
    str,
    Meta(
        description="The repository's name, unique under its owner without regard to case.",
        extra_json_schema={"pattern": f"^{_NAME.pattern}$"},
    ),
    Rule.accepts(
        lambda text: _NAME.fullmatch(text) and text not in (".", "..") and not text.lower().endswith(".git"),
        compose("1 to {} characters from A-Z a-z 0-9 . _ - and must not end with .git", NAME_MAX_CHARS),
    ),
]


class ProjectEdit(msgspec.Struct, kw_only=True):
    """Omitted fields are left unchanged. Changing the title does not change the name."""

    title: Title | UnsetType = UNSET
    avatar: WebAddress | UnsetType | None = UNSET
    private: bool | UnsetType = UNSET
    archive: bool | UnsetType = UNSET
    name: ProjectName | UnsetType = UNSET
    label_colors: LabelColors | UnsetType = UNSET


class ProjectCreate(ProjectEdit, kw_only=True):
    """Without `name`, one is derived from the title. `organization` is required only if you belong to several."""

    title: Title
    organization: (
        Annotated[str, Meta(description="Login of the owner: an organization, or the caller's own.")] | UnsetType
    ) = UNSET


class ProjectAnswer(msgspec.Struct):
    project: Wire[Project]
    success: bool = True


class ProjectsAnswer(msgspec.Struct):
    projects: list[Wire[Project]]
    success: bool = True


PROJECTS = repositories.add_columns(projects.c.avatar, projects.c.label_colors, is_client.label("is_client"))
"""Select the existing projects, with the columns that `project_of` reads."""

_label_colors = sa.select(projects.c.label_colors).where(projects.c.repository_id == bigint_param("repository_id"))


async def find_label_colors(reader: Reader, repository_id: int) -> Mapping[str, LabelColor]:
    """Return a project's label colors, by label."""
    row = await reader.fetch_one(_label_colors, {"repository_id": repository_id})
    colors: Mapping[str, LabelColor] = json.decode(row["label_colors"] or "{}") if row else {}
    return colors


def project_of(row: Row, actor: Actor) -> Project | None:
    """Read a project from a row. Returns None if the caller has no role in it, and so must not learn that it exists."""
    repository = repository_of(row, actor.user.id)
    return project_from(repository, row["avatar"], row["label_colors"]) if repository.role or row["is_client"] else None


def project_from(repository: Repository, avatar: str | None, label_colors: str | None) -> Project:
    return Project(
        id=repository.project_id,
        repository_id=repository.id,
        title=repository.title,
        name=repository.name,
        full_name=repository.full_name,
        avatar=avatar,
        private=repository.private,
        archive=repository.archive,
        label_colors=label_colors or "{}",
        created_at=repository.created_at,
        updated_at=repository.updated_at,
        repository=repository,
    )
