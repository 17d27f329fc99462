"""What can be done with projects: authorise, decide, write, append the event.

Whoever is in an organization creates projects in it and may change those it can write to; deleting takes an
organization owner or an admin of the repository, and so does changing who sees a project or its name. The creator is an
admin of what it creates. Clients only look.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UnsetType

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound
from workhook.core.ids import new_id
from workhook.identity import audit, removal
from workhook.identity.actions import set_collaborator
from workhook.identity.audit import verb_of
from workhook.identity.context import Write
from workhook.identity.queries import find_repository_by_id, key_of
from workhook.identity.schemas import Account, Actor
from workhook.identity.tokens.lookup import check_whole_account
from workhook.storage import Reader, Transaction
from workhook.work.access import require_not_archived
from workhook.work.invoices import issued
from workhook.work.owners import choose_owner
from workhook.work.projects import queries, trash_queries
from workhook.work.projects.schemas import (
    Project,
    ProjectCreate,
    ProjectEdit,
    first_free,
    name_from,
    project_shape,
)
from workhook.work.record_events import differences, publish_event
from workhook.work.schemas import if_set
from workhook.work.timesheets import loss


async def get_project(reader: Reader, actor: Actor, project_id: str) -> Project:
    """Raises `NotFound`."""
    return _found(await queries.find_project(reader, project_id, actor))


async def lock_project(tx: Transaction, actor: Actor, project_id: str) -> Project:
    """For a change: nobody else changes it until the transaction ends. Raises `NotFound`."""
    return _found(await queries.lock_project(tx, project_id, actor))


async def create_project(write: Write, create: ProjectCreate) -> Project:
    """The project as its creator sees it. Raises `Invalid`, and `Forbidden` for a token of chosen repositories."""
    owner = (await choose_owner(write.tx, write.actor, create.organization)).account
    check_whole_account(write.actor, owner.id)
    await queries.lock_names(write.tx, owner.id)
    values = {
        "id": new_id("prj"),
        "account_id": owner.id,
        "name": await _new_name(write.tx, owner, create),
        "title": create.title,
        "avatar": if_set(create.avatar, None),
        "private": if_set(create.private, False),
        "archive": if_set(create.archive, False),
        "created_at": write.now,
        "updated_at": write.now,
    }
    project = await _make_admin(write.tx, write.actor, await queries.insert_project(write.tx, values))
    await _announce(write, project, "created")
    return project


async def edit_project(write: Write, project: Project, edit: ProjectEdit) -> Project:
    """The project after the change. `project` is what `lock_project` gave. Raises `Forbidden`, `Conflict`, `Invalid`.

    Admins alone change who sees the project and its name; a writer changes the rest. An edit that changes nothing
    writes nothing and has no event.
    """
    _require_role(project, "write")
    before, old = project_shape(project), project.repository
    values = {name: if_set(getattr(edit, name), getattr(before, name)) for name in ProjectEdit.__struct_fields__}
    if all(value == getattr(before, name) for name, value in values.items()):
        return project
    _require_admin_for(project, [name for name in ("private", "name") if values[name] != getattr(before, name)])
    if values["archive"]:
        require_not_archived(old)
    if values["name"] != old.name:
        await queries.lock_name_of(write.tx, old.id)
        await _require_free(write.tx, old.owner, str(values["name"]), repository_id=old.id)
    await queries.update_project(write.tx, old.id, {**values, "updated_at": max(write.now, old.updated_at + 1)})
    edited = _found(await queries.find_project(write.tx, old.project_id, write.actor))
    if edited.repository.private and not old.private:  # after: the one who made it private stays in
        await removal.rights_lost(write.tx, old.owner.id, old.id, actor=write.actor, base=write.base)
    action = "edited"
    if old.archive != edited.repository.archive:
        action = "archived" if edited.repository.archive else "unarchived"
    changes = differences(before, project_shape(edited))
    await _announce(write, edited, action, changes=changes)
    return edited


async def delete_project(write: Write, project: Project) -> None:
    """Its hooks get this event, and none after it. `project` is what `lock_project` gave. Raises `Forbidden`, and
    `Conflict` for a project that has issued invoices."""
    _require_role(project, "admin")
    await issued.require_none_of_project(write.tx, project.repository.id)
    await queries.delete_project(write.tx, project, write.now)
    await loss.project_ends(write, project.repository)
    removal.repository_goes(write.tx, project.repository)
    await _announce(write, project, "deleted")


async def restore_project(write: Write, project_id: str) -> Project:
    """Out of the trash, with its webhooks; under another name if its own was taken meanwhile. Its receivers saw it
    deleted, so they see it created. What is not deleted stays as it is. One with issued invoices is never purged, and
    can be restored at any time. Raises `NotFound`, `Forbidden`."""
    deleted = await trash_queries.lock_deleted(write.tx, project_id, write.actor)
    if deleted is None:
        project = await lock_project(write.tx, write.actor, project_id)
        _require_role(project, "admin")
        return project
    old, now = deleted.project.repository, write.now
    if old.role != "admin":
        raise NotFound()
    if deleted.deleted_at < now - trash_queries.KEPT_MS and not await issued.has_any(write.tx, old.id):
        raise NotFound()
    await queries.lock_name_of(write.tx, old.id)
    name = first_free(old.name, await queries.names_like(write.tx, old.owner.id, key_of(old.name)))
    await trash_queries.restore_project(write.tx, old.id, name, max(now, old.updated_at + 1))
    project = _found(await queries.find_project(write.tx, project_id, write.actor))
    await _announce(write, project, "created", done="restored")
    return project


def _found(project: Project | None) -> Project:
    if project is None:
        raise NotFound()
    return project


def _require_role(project: Project, role: str) -> None:
    roles = ("read", "write", "admin")
    if roles.index(project.repository.role or "read") < roles.index(role):
        raise Forbidden(f"You need the role {role} in the project {project.repository.full_name}.", code="missing_role")


def _require_admin_for(project: Project, fields: Sequence[str]) -> None:
    """Raises `Forbidden` that names the fields."""
    if fields and project.repository.role != "admin":
        needed = f"You need the role admin in the project {project.repository.full_name} to change"
        faults = [Fault(field=each, code="missing_role", message=f"{needed} `{each}`.") for each in fields]
        named = " and ".join(f"`{each}`" for each in fields)
        raise Forbidden(f"{needed} {named}.", code="missing_role", faults=faults)


async def _new_name(tx: Transaction, owner: Account, create: ProjectCreate) -> str:
    if not isinstance(create.name, UnsetType):
        await _require_free(tx, owner, create.name)
        return create.name
    name = name_from(create.title)
    return first_free(name, await queries.names_like(tx, owner.id, name))


async def _require_free(tx: Transaction, owner: Account, name: str, *, repository_id: int | None = None) -> None:
    """`repository_id` is the one that may have the name: its own, in another case."""
    if await queries.repository_named(tx, owner.id, name) not in (None, repository_id):
        message = f"name {name} is taken in {owner.login}"
        raise Invalid(faults=[Fault(field="name", code="already_exists", message=message)])


async def _make_admin(tx: Transaction, actor: Actor, repository_id: int) -> Project:
    """Owners are admins by themselves. A member would have less, and nothing in a project that is private. An app stays
    what its installation makes it: it neither deletes projects nor decides who is in them."""
    repository = await find_repository_by_id(tx, repository_id, actor.user.id)
    assert repository is not None, "it was inserted in this transaction"
    if repository.role != "admin" and actor.user.kind != "bot":
        await set_collaborator(tx, repository, actor.user, "admin")
    return _found(await queries.find_project(tx, repository.project_id, actor))


async def _announce(
    write: Write,
    project: Project,
    action: str,
    *,
    changes: dict[str, dict[str, object]] | None = None,
    done: str | None = None,
) -> None:
    """`done`: what the audit log calls it, where that is not the event's action."""
    repository = project.repository
    await publish_event(write, repository, "project", action, project_shape(project), changes=changes)
    await audit.record(
        write.tx,
        write.actor,
        f"project.{verb_of(done or action)}",
        repository.full_name,
        account_id=repository.owner.id,
        repository_id=repository.id,
        detail=changes,
    )
