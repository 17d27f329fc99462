"""Projects: find, create, update, archive and delete them through `/projects`.

Members of an organization can create projects in it and change those they can write to. Deleting a project, renaming it
or changing its visibility requires an owner of the organization or an admin of the repository. The creator becomes an
admin. Clients have read access only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import UnsetType

from workhook.core import json
from workhook.core.errors import Fault, Forbidden, Invalid, Message, NotFound, require_found, say
from workhook.core.ids import new_id, slug
from workhook.core.records import to_response
from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity import removal
from workhook.identity.actions import set_collaborator
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.queries import find_repository_by_id, key_of
from workhook.identity.schemas import RESERVED_PROJECTS, Account, Actor, name_of_role, project_fault
from workhook.identity.tables import accounts, projects
from workhook.identity.tokens.lookup import check_reach, check_whole_account
from workhook.storage import Reader, Transaction
from workhook.storage.metadata import bigint_param, insert_into
from workhook.storage.record_rows import assigned
from workhook.work.board.projects.listing import list_visible
from workhook.work.board.projects.schemas import (
    NAME_MAX_CHARS,
    PROJECTS,
    Project,
    ProjectAnswer,
    ProjectCreate,
    ProjectEdit,
    ProjectsAnswer,
    project_of,
)
from workhook.work.kernel import questions
from workhook.work.kernel.access import choose_owner, rank_in, require_not_archived
from workhook.work.kernel.billing_settings import account_billing
from workhook.work.kernel.record_events import Changes, differences, publish_audited
from workhook.work.kernel.schemas import Done, if_set

routes = Routes(WORK_API, "Projects")

_project_by_id = PROJECTS.where(projects.c.id == sa.bindparam("project_id"))
# A key share lock still allows other transactions to add records to the project.
_locked = _project_by_id.with_for_update(of=projects, key_share=True)
_lock_account = (
    sa.select(accounts.c.id).where(accounts.c.id == bigint_param("account_id")).with_for_update(key_share=True)
)
# Lock the project before the account. A new name changes the key, so it waits for all transactions that add records to
# the project, and those may be waiting for the account, for example to start its timer.
_whole_project = (
    sa.select(projects.c.account_id).where(projects.c.repository_id == bigint_param("repository_id")).with_for_update()
)
_lock_account_of = (
    sa.select(accounts.c.id).where(accounts.c.id == _whole_project.scalar_subquery()).with_for_update(key_share=True)
)
_names = sa.select(projects.c.repository_id, projects.c.name_key).where(
    projects.c.account_id == bigint_param("account_id"),
    projects.c.name_key.like(sa.bindparam("pattern", type_=sa.Text)),
)
_project_by_name = sa.select(projects.c.repository_id).where(
    projects.c.account_id == bigint_param("account_id"), projects.c.name_key == sa.bindparam("name_key")
)
_CONTENT = ("name", "name_key", "title", "avatar", "private", "archive", "label_colors")
_currency = sa.select(account_billing.c.currency).where(account_billing.c.account_id == bigint_param("account_id"))
_insert = (
    insert_into(projects, "id", "account_id", *_CONTENT, "created_at", "updated_at")
    .values(currency=_currency.scalar_subquery())
    .returning(projects.c.repository_id)
)
_update = (
    sa.update(projects)
    .where(projects.c.repository_id == bigint_param("id"))
    .values(assigned((*_CONTENT, "updated_at")))
)
# Deleted projects stay as hidden rows, because hooks refer to them until the last deliveries are sent. The name becomes
# available again.
_delete = (
    sa.update(projects)
    .where(projects.c.repository_id == bigint_param("id"))
    .values(deleted_at=bigint_param("now"), updated_at=bigint_param("now"), name_key=sa.bindparam("freed_key"))
)


async def find_project(
    reader: Reader, actor: Actor, project_id: str, statement: sa.Select[Any] = _project_by_id
) -> Project:
    """Find a project.

    Raises `NotFound` if it does not exist or is outside the token's reach, and `Forbidden` if the token's permissions
    do not suffice.
    """
    row = require_found(await reader.fetch_one(statement, {"project_id": project_id, "user_id": actor.user.id}))
    project = project_of(row, actor)
    actor.request.set_subject(row["owner_id"], row["repository_id"], hidden=project is None)
    if project is None:
        raise NotFound()
    owner_id, repository_id = project.repository.owner.id, project.repository_id
    check_reach(actor, owner_id, repository_id)
    actor.request.require_right(owner_id, repository_id, rank_in(row, project.repository, actor.user.id))
    return project


async def lock_project(write: Write, project_id: str) -> Project:
    """Find and lock a project. Raises the same errors as `find_project`."""
    return await find_project(write.tx, write.actor, project_id, _locked)


async def add_project(write: Write, create: ProjectCreate) -> Project:
    """Create a project and return it as its creator sees it.

    Raises `Invalid`, and `Forbidden` for a token that is limited to selected repositories.
    """
    tx, actor = write.tx, write.actor
    owner = (await choose_owner(tx, actor, create.organization)).account
    check_whole_account(actor, owner.id)
    await lock_names(tx, owner.id)
    if isinstance(create.name, UnsetType):
        name = await free_name(tx, owner.id, name_from(create.title))
    else:
        name = create.name
        await _require_free(tx, owner, name)
    values = {
        "id": new_id("prj"),
        "account_id": owner.id,
        "name": name,
        "name_key": key_of(name),
        "title": create.title,
        "avatar": if_set(create.avatar, None),
        "private": if_set(create.private, False),
        "archive": if_set(create.archive, False),
        "label_colors": json.encode_text(if_set(create.label_colors, {})),
        "created_at": write.now,
        "updated_at": write.now,
    }
    row = await tx.fetch_row(_insert, values)
    repository = await find_repository_by_id(tx, row["repository_id"], actor.user.id)
    assert repository is not None, "it was inserted in this transaction"
    # Owners are admins anyway. A member would have a lower role, or none in a private project. An app keeps the role of
    # its installation: it can neither delete projects nor change their members.
    if repository.role != "admin" and actor.user.kind != "bot":
        await set_collaborator(tx, repository, actor.user, "admin")
    project = await find_project(tx, actor, repository.project_id)
    await publish(write, project, "created")
    return project


@routes.get("/projects")
async def list_projects(call: Call, query: lists.ListQuery) -> Listed[ProjectsAnswer]:
    """List the projects that the caller can see."""
    key = lists.after(query, tuple[str])
    found = await list_visible(call.database, actor_of(call), after=key[0] if key else None, limit=query.limit + 1)
    page, headers = lists.page(call, found, query, lambda project: (project.id,))
    return Listed(ProjectsAnswer([to_response(each) for each in page]), headers)


@routes.post("/projects")
async def create_project(write: Write, create: ProjectCreate) -> ProjectAnswer:
    """Create a project."""
    return ProjectAnswer(to_response(await add_project(write, create)))


@routes.get("/projects/{id}")
async def get_project(call: Call, project_id: str) -> ProjectAnswer:
    """Get a project."""
    return ProjectAnswer(to_response(await find_project(call.database, actor_of(call), project_id)))


@routes.patch("/projects/{id}")
async def edit_project(write: Write, project_id: str, edit: ProjectEdit) -> ProjectAnswer:
    """Update, archive or unarchive a project.

    Archiving a project finishes its timers, including paused ones, and pauses its subscriptions.

    Requires write access. Changing `private` or `name` requires the admin role.
    """
    end_work = await questions.lock_for_ending(write.tx, project_id) if edit.archive is True else None
    project = await lock_project(write, project_id)
    before = to_response(project)
    write.require_match(ProjectAnswer(before))
    require_role(project, "write")
    values = {name: if_set(getattr(edit, name), getattr(project, name)) for name in ProjectEdit.__struct_fields__}
    if not isinstance(edit.label_colors, UnsetType):
        values["label_colors"] = json.encode_text(edit.label_colors)
    changed = [name for name, value in values.items() if value != getattr(project, name)]
    if not changed:
        return ProjectAnswer(before)
    old = project.repository
    _require_admin_for(project, [name for name in ("private", "name") if name in changed])
    if values["archive"]:
        require_not_archived(old)
    if "name" in changed:
        await lock_names_for_rename(write.tx, old.id)
        await _require_free(write.tx, old.owner, values["name"], repository_id=old.id)
    updated_at = max(write.now, old.updated_at + 1)
    params = {**values, "name_key": key_of(values["name"]), "updated_at": updated_at, "id": old.id}
    await write.tx.execute(_update, params)
    edited = await find_project(write.tx, write.actor, project_id)
    if edited.private and not old.private:  # afterwards, so that the user who made it private keeps access
        await removal.rights_lost(write.tx, old.owner.id, old.id, actor=write.actor, base=write.base)
    action = "edited"
    if "archive" in changed:
        if end_work is not None:
            await end_work(write, edited.repository)
        action = "archived" if edited.archive else "unarchived"
    after = to_response(edited)
    await publish(write, edited, action, changes=differences(before, after))
    return ProjectAnswer(after)


@routes.delete("/projects/{id}")
async def delete_project(write: Write, project_id: str) -> Done:
    """Delete a project.

    Its webhooks still receive the event for the deletion. The name becomes available again. A project with issued
    invoices cannot be deleted (409 `has_invoices`); archive it instead.
    """
    end_work = await questions.lock_for_ending(write.tx, project_id)
    project = await lock_project(write, project_id)
    write.require_match(ProjectAnswer(to_response(project)))
    require_role(project, "admin")
    await questions.require_project_unbilled(write.tx, project.repository_id)
    freed = f"{key_of(project.name)}#{project.repository_id}"  # `#` cannot occur in a name
    await write.tx.execute(_delete, {"id": project.repository_id, "now": write.now, "freed_key": freed})
    await end_work(write, project.repository)
    removal.delete_invitations_to(write.tx, project.repository)
    await publish(write, project, "deleted")  # the last event that its hooks receive
    return Done()


def require_role(project: Project, role: str) -> None:
    """Raise `Forbidden` if the caller's role in the project is lower than `role`."""
    roles = ("read", "write", "admin")
    if roles.index(project.repository.role or "read") < roles.index(role):
        raise Forbidden(
            say("You need the {} role in the project {}.", name_of_role(role), project.full_name), code="missing_role"
        )


def _require_admin_for(project: Project, fields: Sequence[str]) -> None:
    """Raise `Forbidden`, naming the fields, unless the caller is an admin."""

    def needed(named: str) -> Message:
        return say("You need the admin role in the project {} to change {}.", project.full_name, named)

    if fields and project.repository.role != "admin":
        faults = [Fault(field=each, code="missing_role", message=needed(f"`{each}`")) for each in fields]
        named = " and ".join(f"`{each}`" for each in fields)
        raise Forbidden(needed(named), code="missing_role", faults=faults)


async def lock_names(tx: Transaction, account_id: int) -> None:
    """Serialize the transactions that choose a project name in the account."""
    await tx.fetch_one(_lock_account, {"account_id": account_id})


async def lock_names_for_rename(tx: Transaction, repository_id: int) -> None:
    """Lock like `lock_names`, to rename a project."""
    await tx.fetch_one(_lock_account_of, {"repository_id": repository_id})


async def free_name(tx: Transaction, account_id: int, name: str) -> str:
    """Return `name`, with the first free suffix (`-2`, `-3`, …) if it is reserved or already taken in the account.

    The caller must hold the lock that `lock_names` acquires.
    """
    # In a name of maximum length, a suffix replaces the last characters.
    pattern = key_of(name)[: NAME_MAX_CHARS - 12] + "%"
    rows = await tx.fetch_all(_names, {"account_id": account_id, "pattern": pattern})
    taken = {row["name_key"] for row in rows} | RESERVED_PROJECTS
    free, number = name, 1
    while free.lower() in taken:
        number += 1
        free = name[: NAME_MAX_CHARS - len(f"-{number}")] + f"-{number}"
    return free


async def _require_free(tx: Transaction, owner: Account, name: str, *, repository_id: int | None = None) -> None:
    """Raise `Invalid` for a taken or reserved name.

    `repository_id` is the project that is being renamed, which may change the case of its own name.
    """
    if reserved_because := project_fault(name):
        raise Invalid.at("name", reserved_because, code="reserved")
    row = await tx.fetch_one(_project_by_name, {"account_id": owner.id, "name_key": key_of(name)})
    if row is not None and row["repository_id"] != repository_id:
        raise Invalid.at("name", say("name {} is taken in {}", name, owner.login), code="already_exists")


async def publish(
    write: Write, project: Project, action: str, *, changes: Changes | None = None, verb: str | None = None
) -> None:
    """Publish an event of a project. `verb` is its name in the audit log, by default the action."""
    place, record = project.repository, to_response(project)
    await publish_audited(write, place, "project", action, record, project.full_name, changes=changes, verb=verb)


def name_from(title: str) -> str:
    """Derive a name from a title: `buro-website-2` for `Büro: Website 2`, or `project` if nothing usable remains."""
    return slug(title, NAME_MAX_CHARS, otherwise="project")
