"""A project: the record, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import sqlalchemy as sa
from msgspec import Meta

from workhook.core import json
from workhook.core.records import HIDDEN, LINK, EventSchema, JsonForm, Record, Timestamp, resource_id
from workhook.http.parameters import ON_ONE_LINE
from workhook.identity.queries import repositories, repository_of
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import projects
from workhook.storage import Reader, Row
from workhook.storage.metadata import big
from workhook.work.kernel.access import is_client

LabelColor = Literal["red", "orange", "yellow", "lime", "green", "teal", "sky", "blue", "purple", "pink"]
LABEL_COLORS_MAX = 200
LabelColors = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=255), ON_ONE_LINE], LabelColor],
    Meta(
        max_length=LABEL_COLORS_MAX,
        description="Colours of labels by their names. Other labels have a colour that follows from the name.",
    ),
]


class Project(Record, frozen=True):
    """`repository_id` is the id that the webhook API shows; `full_name` is `owner/name`."""

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
        EventSchema(
            {"description": "colours of labels by their names; other labels have one that follows from the name"}
        ),
    ]
    created_at: Timestamp
    updated_at: Timestamp
    repository: Annotated[Repository, HIDDEN]  # its `role` is what the caller may do; None: the caller is a client


PROJECTS = repositories.add_columns(projects.c.avatar, projects.c.label_colors, is_client.label("is_client"))
"""The projects that exist, with what `project_of` needs."""


_label_colors = sa.select(projects.c.label_colors).where(projects.c.repository_id == big("repository_id"))


async def find_label_colors(reader: Reader, repository_id: int) -> Mapping[str, LabelColor]:
    """Return the colours that a project has chosen for its labels, by their names."""
    row = await reader.fetch_one(_label_colors, {"repository_id": repository_id})
    colors: Mapping[str, LabelColor] = json.decode(row["label_colors"] or "{}") if row else {}
    return colors


def project_of(row: Row, actor: Actor) -> Project | None:
    """None for a project in which the caller has no role: to the caller it does not exist."""
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
