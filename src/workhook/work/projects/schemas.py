"""A project: the record, and how it is read."""

from __future__ import annotations

from typing import Annotated

from workhook.core.records import HIDDEN, LINK, Millis, Record, resource_id
from workhook.identity.queries import repositories, repository_of
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import projects
from workhook.storage import Row
from workhook.work.access import is_client


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
    created_at: Millis
    updated_at: Millis
    repository: Annotated[Repository, HIDDEN]  # its `role` is what the caller may do; None: the caller is a client


PROJECTS = repositories.add_columns(projects.c.avatar, is_client.label("is_client"))
"""The projects that exist, with what `project_of` needs."""


def project_of(row: Row, actor: Actor) -> Project | None:
    """None for a project in which the caller has no role: to the caller it does not exist."""
    repository = repository_of(row, actor.user.id)
    return project_from(repository, row["avatar"]) if repository.role or row["is_client"] else None


def project_from(repository: Repository, avatar: str | None) -> Project:
    return Project(
        id=repository.project_id,
        repository_id=repository.id,
        title=repository.title,
        name=repository.name,
        full_name=repository.full_name,
        avatar=avatar,
        private=repository.private,
        archive=repository.archive,
        created_at=repository.created_at,
        updated_at=repository.updated_at,
        repository=repository,
    )
