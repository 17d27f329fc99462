"""A project: the record, how it is read, what a caller may say about one, and how its name is made from its title."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.records import HIDDEN, LINK, Millis, Record, Wire, resource_id
from workhook.http.parameters import Checked, Title, WebAddress
from workhook.identity.queries import repositories, repository_of
from workhook.identity.schemas import Actor, Repository
from workhook.identity.tables import projects
from workhook.storage import Row
from workhook.work.access import is_client

NAME_MAX_CHARS = 100

_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_MAX_CHARS}}}")


def _not_a_name(text: str) -> str | None:
    if _NAME.fullmatch(text) and text not in (".", "..") and not text.lower().endswith(".git"):
        return None
    return f"1 to {NAME_MAX_CHARS} of A-Z a-z 0-9 . _ - without .git at the end"


ProjectName = Annotated[
    str,
    Meta(
        description="The repository's name, unique under its owner without regard to case.",
        extra_json_schema={"pattern": f"^{_NAME.pattern}$"},
    ),
    Checked(_not_a_name),
]


class ProjectCreate(msgspec.Struct):
    """Without `name` one is made from the title. `organization` is needed only by who is in several."""

    title: Title
    avatar: WebAddress | UnsetType | None = UNSET
    private: bool | UnsetType = UNSET
    archive: bool | UnsetType = UNSET
    name: ProjectName | UnsetType = UNSET
    organization: (
        Annotated[str, Meta(description="Login of the owner: an organization, or the caller's own.")] | UnsetType
    ) = UNSET


class ProjectEdit(msgspec.Struct):
    """What is absent stays. A changed title keeps the name."""

    title: Title | UnsetType = UNSET
    avatar: WebAddress | UnsetType | None = UNSET
    private: bool | UnsetType = UNSET
    archive: bool | UnsetType = UNSET
    name: ProjectName | UnsetType = UNSET


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


class ProjectAnswer(msgspec.Struct):
    project: Wire[Project]
    success: bool = True


class ProjectsAnswer(msgspec.Struct):
    projects: list[Wire[Project]]
    success: bool = True


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


def name_from(title: str) -> str:
    """`Büro: Website 2` gives `buro-website-2`; a title without a Latin letter or digit gives `project`."""
    plain = unicodedata.normalize("NFKD", title).casefold()
    ascii_only = "".join(each for each in plain if not unicodedata.combining(each))
    words = re.findall(r"[a-z0-9]+", ascii_only)
    return "-".join(words)[:NAME_MAX_CHARS].strip("-") or "project"


def first_free(name: str, taken: set[str]) -> str:
    """`name`, or with the first suffix `-2`, `-3` … that is not taken; never longer than a name may be.

    `taken` is in lower case, as names are compared.
    """
    free, number = name, 1
    while free.lower() in taken:
        number += 1
        free = name[: NAME_MAX_CHARS - len(f"-{number}")] + f"-{number}"
    return free
