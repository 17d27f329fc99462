"""Events of Area A: one for each thing that was changed, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from workhook.events import outbox
from workhook.events.outbox import Draft
from workhook.http.calls import Call
from workhook.identity.schemas import (
    Account,
    Actor,
    Repository,
    account_shape,
    organization_shape,
    repository_shape,
)
from workhook.storage import Transaction

Changes = Mapping[str, Mapping[str, object]]


def base_of(call: Call) -> str:
    """What links in an event start with: they lead to Area B, so the prefix of Area A is not theirs."""
    return call.base_for_others.removesuffix(call.prefix)


class Happening(msgspec.Struct, frozen=True):
    """What `announce_many` tells. `repository` and `record` are as they are after the change."""

    repository: Repository
    noun: str
    action: str
    record: msgspec.Struct
    changes: Changes | None = None


async def announce(
    tx: Transaction,
    actor: Actor | None,
    repository: Repository,
    noun: str,
    action: str,
    record: msgspec.Struct,
    *,
    base: str,
    changes: Changes | None = None,
) -> None:
    """Append `{action, NOUN: record, changes?, repository, organization, sender}`.

    It reaches the hooks of the repository and of its organization. `repository` and `record` are as they are after the
    change; `base` is what links start with. A user's own project has no `organization`. `actor` is None where Workhook
    acts by itself: the sender is null then.
    """
    outbox.add(tx, [_draft(actor, Happening(repository, noun, action, record, changes), base)])


async def announce_many(tx: Transaction, actor: Actor | None, happened: Sequence[Happening], *, base: str) -> None:
    """`announce` for each, in their order, in few statements however many they are."""
    outbox.add(tx, [_draft(actor, each, base) for each in happened])


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
    tx: Transaction,
    actor: Actor | None,
    account: Account,
    noun: str,
    action: str,
    record: msgspec.Struct,
    *,
    base: str,
    changes: Changes | None = None,
) -> None:
    """`announce` for what belongs to an account and to no project: only the organization's own hooks get it."""
    payload: dict[str, object] = {"action": action, noun: record}
    if changes is not None:
        payload["changes"] = changes
    if account.kind == "organization":
        payload["organization"] = organization_shape(account, base)
    payload["sender"] = account_shape(actor.user, base) if actor else None
    draft = Draft(
        account_id=account.id,
        repository_id=None,
        name=noun,
        action=action,
        payload=payload,
        actor_id=actor.user.id if actor else None,
        installation_id=actor.installation_id if actor else None,
    )
    outbox.add(tx, [draft])


def differences(
    before: msgspec.Struct, after: msgspec.Struct, *, ignore: Collection[str] = ("updated_at",)
) -> dict[str, dict[str, object]]:
    """`{field: {from, to}}` of two states of one record, as the API shows them."""
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in before.__struct_fields__)
    return {name: {"from": old, "to": new} for name, old, new in pairs if old != new and name not in ignore}
