"""Events of Area A: one for each thing that was changed, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from workhook.events import outbox
from workhook.events.outbox import Draft
from workhook.identity.context import Write
from workhook.identity.schemas import (
    Account,
    Actor,
    Repository,
    account_shape,
    organization_shape,
    repository_shape,
)

Changes = Mapping[str, Mapping[str, object]]


class Happening(msgspec.Struct, frozen=True):
    """What `announce_many` tells. `repository` and `record` are as they are after the change."""

    repository: Repository
    noun: str
    action: str
    record: msgspec.Struct
    changes: Changes | None = None


async def announce(
    write: Write,
    repository: Repository,
    noun: str,
    action: str,
    record: msgspec.Struct,
    *,
    changes: Changes | None = None,
) -> None:
    """Append `{action, NOUN: record, changes?, repository, organization, sender}`.

    It reaches the hooks of the repository and of its organization. `repository` and `record` are as they are after the
    change. A user's own project has no `organization`. The sender is null where Workhook acts by itself.
    """
    outbox.add(write.tx, [_draft(write.caller, Happening(repository, noun, action, record, changes), write.base)])


async def announce_many(write: Write, happened: Sequence[Happening]) -> None:
    """`announce` for each, in their order, in few statements however many they are."""
    outbox.add(write.tx, [_draft(write.caller, each, write.base) for each in happened])


def _draft(actor: Actor | None, happening: Happening, base: str) -> Draft:
    repository = happening.repository
    payload: dict[str, object] = {"action": happening.action, happening.noun: happening.record}
    if happening.changes is not None:
        payload["changes"] = happening.changes
    payload["repository"] = repository_shape(repository, base)
    if repository.organization:
        payload["organization"] = organization_shape(repository.organization, base)
    payload["sender"] = account_shape(actor.user, base) if actor else None
    return Draft(
        account_id=repository.owner.id,
        repository_id=repository.id,
        name=happening.noun,
        action=happening.action,
        payload=payload,
        actor_id=actor.user.id if actor else None,
        installation_id=actor.installation_id if actor else None,
    )


async def announce_in_account(
    write: Write, account: Account, noun: str, action: str, record: msgspec.Struct, *, changes: Changes | None = None
) -> None:
    """`announce` for what belongs to an account and to no project: only the organization's own hooks get it."""
    payload: dict[str, object] = {"action": action, noun: record}
    if changes is not None:
        payload["changes"] = changes
    if account.kind == "organization":
        payload["organization"] = organization_shape(account, write.base)
    payload["sender"] = account_shape(write.caller.user, write.base) if write.caller else None
    draft = Draft(
        account_id=account.id,
        repository_id=None,
        name=noun,
        action=action,
        payload=payload,
        actor_id=write.caller.user.id if write.caller else None,
        installation_id=write.caller.installation_id if write.caller else None,
    )
    outbox.add(write.tx, [draft])


def differences(
    before: msgspec.Struct, after: msgspec.Struct, *, ignore: Collection[str] = ("updated_at",)
) -> dict[str, dict[str, object]]:
    """`{field: {from, to}}` of two states of one record, as the API shows them."""
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in before.__struct_fields__)
    return {name: {"from": old, "to": new} for name, old, new in pairs if old != new and name not in ignore}
