"""Events of the work API, one per changed record, added in the transaction of the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from workhook.events import outbox
from workhook.events.outbox import Draft
from workhook.identity import audit
from workhook.identity.audit import VERBS
from workhook.identity.context import Write
from workhook.identity.schemas import (
    Account,
    Repository,
    account_to_response,
    organization_to_response,
    repository_to_response,
)

Changes = Mapping[str, Mapping[str, object]]


class RecordEvent(msgspec.Struct, frozen=True):
    """A change of a record.

    `place` is the project or account that the record belongs to. Both are in their state after the change.
    `extra_records` contains further records of the event, by name.
    """

    place: Repository | Account
    noun: str
    action: str
    record: msgspec.Struct
    changes: Changes | None = None
    extra_records: Mapping[str, msgspec.Struct] | None = None


async def publish_event(
    write: Write,
    place: Repository | Account,
    noun: str,
    action: str,
    record: msgspec.Struct,
    *,
    changes: Changes | None = None,
    extra_records: Mapping[str, msgspec.Struct] | None = None,
) -> None:
    """Add the event `{action, NOUN: record, …extra_records, changes?, repository?, organization?, sender}`.

    The event is delivered to the webhooks of the repository and its organization, or only to those of the organization
    if `place` is an account. `organization` is absent for a user's own project. `sender` is null if Workhook itself
    made the change.
    """
    outbox.add(write.tx, [_draft(write, RecordEvent(place, noun, action, record, changes, extra_records))])


async def publish_events(write: Write, happened: Sequence[RecordEvent]) -> None:
    """Add several events in order, with few statements."""
    outbox.add(write.tx, [_draft(write, each) for each in happened])


async def publish_audited(
    write: Write,
    place: Repository | Account,
    noun: str,
    action: str,
    record: msgspec.Struct,
    target: str,
    *,
    changes: Changes | None = None,
    verb: str | None = None,
) -> None:
    """Add an event, and an audit log entry `NOUN.VERB` about `target`. `verb` defaults to the verb of the action."""
    await publish_event(write, place, noun, action, record, changes=changes)
    await record_audit(write, place, f"{noun}.{verb or VERBS[action]}", target, detail=changes)


async def record_audit(
    write: Write, place: Repository | Account, action: str, target: str, *, detail: Mapping[str, object] | None = None
) -> None:
    """Add an audit log entry about `target`, for a change without an event."""
    account, repository_id = (place.owner, place.id) if isinstance(place, Repository) else (place, None)
    await audit.record(
        write.tx, write.caller, action, target, account_id=account.id, repository_id=repository_id, detail=detail
    )


def _draft(write: Write, event: RecordEvent) -> Draft:
    actor = write.caller
    repository = event.place if isinstance(event.place, Repository) else None
    account = event.place.owner if isinstance(event.place, Repository) else event.place
    payload: dict[str, object] = {"action": event.action, event.noun: event.record, **(event.extra_records or {})}
    if event.changes is not None:
        payload["changes"] = event.changes
    if repository is not None:
        payload["repository"] = repository_to_response(repository, write.base)
    if account.kind == "organization":
        payload["organization"] = organization_to_response(account, write.base)
    payload["sender"] = account_to_response(actor.user, write.base) if actor else None
    return Draft(
        account_id=account.id,
        repository_id=repository.id if repository is not None else None,
        name=event.noun,
        action=event.action,
        payload=payload,
        actor_id=actor.user.id if actor else None,
        installation_id=actor.installation_id if actor else None,
    )


def differences(
    before: msgspec.Struct, after: msgspec.Struct, *, ignore: Collection[str] = ("updated_at",)
) -> dict[str, dict[str, object]]:
    """Return `{field: {from, to}}` for the fields that differ between two states of a record, in API form."""
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in before.__struct_fields__)
    return {name: {"from": old, "to": new} for name, old, new in pairs if old != new and name not in ignore}


def notification_params(write: Write, repository: Repository) -> dict[str, object]:
    """Return the parameters of an `identity.notifications.NotificationStatements` about a project."""
    return {
        "account_id": repository.owner.id,
        "repository_id": repository.id,
        "actor_id": write.caller.user.id if write.caller else None,
        "detail": None,
        "now": write.now,
    }
