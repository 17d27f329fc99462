"""Events of the work API: one for each thing that was changed, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from workhook.events import outbox
from workhook.events.outbox import Draft
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Repository, account_shape, organization_shape, repository_shape

Changes = Mapping[str, Mapping[str, object]]


class RecordEvent(msgspec.Struct, frozen=True):
    """What `publish_events` tells. `repository` and `record` are as they are after the change."""

    repository: Repository
    noun: str
    action: str
    record: msgspec.Struct
    changes: Changes | None = None


async def publish_event(
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
    outbox.add(write.tx, [_draft(write, repository.owner, repository, noun, action, record, changes)])


async def publish_events(write: Write, happened: Sequence[RecordEvent]) -> None:
    """`announce` for each, in their order, in few statements however many they are."""
    outbox.add(write.tx, [_draft(write, each.repository.owner, *msgspec.structs.astuple(each)) for each in happened])


async def publish_account_event(
    write: Write, account: Account, noun: str, action: str, record: msgspec.Struct, *, changes: Changes | None = None
) -> None:
    """`announce` for what belongs to an account and to no project: only the organization's own hooks get it."""
    outbox.add(write.tx, [_draft(write, account, None, noun, action, record, changes)])


def _draft(
    write: Write,
    account: Account,
    repository: Repository | None,
    noun: str,
    action: str,
    record: msgspec.Struct,
    changes: Changes | None,
) -> Draft:
    actor = write.caller
    payload: dict[str, object] = {"action": action, noun: record}
    if changes is not None:
        payload["changes"] = changes
    if repository is not None:
        payload["repository"] = repository_shape(repository, write.base)
    if account.kind == "organization":
        payload["organization"] = organization_shape(account, write.base)
    payload["sender"] = account_shape(actor.user, write.base) if actor else None
    return Draft(
        account_id=account.id,
        repository_id=repository.id if repository is not None else None,
        name=noun,
        action=action,
        payload=payload,
        actor_id=actor.user.id if actor else None,
        installation_id=actor.installation_id if actor else None,
    )


def differences(
    before: msgspec.Struct, after: msgspec.Struct, *, ignore: Collection[str] = ("updated_at",)
) -> dict[str, dict[str, object]]:
    """`{field: {from, to}}` of two states of one record, as the API shows them."""
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in before.__struct_fields__)
    return {name: {"from": old, "to": new} for name, old, new in pairs if old != new and name not in ignore}
