"""Installation access tokens: an app makes them with its key, to act on one organization for an hour."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from workhook.core.clock import HOUR_MS, now_ms
from workhook.core.errors import Fault, Forbidden, Invalid, NotFound
from workhook.core.secrecy import Secretive
from workhook.http import parameters
from workhook.identity import audit
from workhook.identity.apps import queries
from workhook.identity.apps.app_schemas import AccessTokenBody
from workhook.identity.apps.schemas import App, Installation
from workhook.identity.schemas import Repository
from workhook.identity.tokens.issue import INSTALLATION, IssuedToken, issue
from workhook.identity.tokens.lookup import weaker
from workhook.storage import Reader, Transaction

LIFETIME_MS = HOUR_MS
Body = TypeVar("Body", bound=AccessTokenBody)
_RESOURCE = "Installation"
# The field's words.
_NOT_GRANTED = "The permissions requested are not granted to this installation."
_NOT_REACHED = "There is at least one repository that does not exist or is not accessible to the parent installation."


class AccessToken(Secretive, msgspec.Struct, frozen=True):
    """`repository_ids` None: all of the organization. `named`: those that the request narrowed it to, if it did."""

    issued: IssuedToken
    permissions: Mapping[str, str]
    repository_ids: Collection[int] | None
    named: list[Repository] | None


def parse(body: Mapping[str, Any], shape: type[Body], resource: str = _RESOURCE) -> Body:
    """What a request narrows the token to. Keys that say nothing here are passed over, as clients expect.

    Raises `Invalid` with every fault.
    """
    known = {name: value for name, value in body.items() if name in shape.__struct_fields__}
    if isinstance(ids := known.get("repository_ids"), list):  # JSON has one kind of number: 2.0 is the integer 2
        known["repository_ids"] = [int(one) if isinstance(one, float) and one.is_integer() else one for one in ids]
    return parameters.gather(shape, {}, known, resource=resource)


async def create(tx: Transaction, app: App, installation_id: int, wanted: AccessTokenBody) -> AccessToken:
    """A token of the app's installation, for its bot.

    Raises `NotFound` for another app's installation, `Forbidden` for one that is suspended, `Invalid` where more is
    wanted than was granted.
    """
    is_there = await queries.lock_app(tx, app.id)
    installation = await queries.find_installation(tx, installation_id, for_update=True) if is_there else None
    if installation is None or installation.app.id != app.id:
        raise NotFound()
    if installation.suspended_at is not None:
        raise Forbidden("This installation has been suspended", code="suspended")
    permissions, faults = granted(installation, wanted)
    named, unknown = await chosen_of(tx, installation, wanted)
    refuse_what_is_beyond(faults, unknown)
    chosen = None if named is None else sorted(each.id for each in named)
    assert app.bot_id is not None, "an app that is installed has a bot"
    issued = await issue(
        tx,
        INSTALLATION,
        app.bot_id,
        permissions=permissions,  # also if they are all: a later grant does not widen a token that said otherwise
        repository_ids=chosen,
        app_id=app.id,
        installation_id=installation.id,
        expires_at=now_ms() + LIFETIME_MS,
    )
    detail = {
        "app": app.slug,
        "token_id": issued.id,
        "permissions": permissions,
        "repositories": "all" if chosen is None else chosen,
    }
    target, account_id = f"installation/{installation.id}", installation.account.id
    await audit.record(tx, None, "installation.create_token", target, account_id=account_id, detail=detail)
    return AccessToken(issued, permissions, installation.repository_ids if named is None else chosen, named)


def refuse_what_is_beyond(not_granted: Sequence[Fault], not_reached: Sequence[Fault]) -> None:
    """Raises `Invalid` if there is any of it."""
    if not_granted or not_reached:
        messages = [_NOT_GRANTED] * bool(not_granted) + [_NOT_REACHED] * bool(not_reached)
        raise Invalid(" ".join(messages), faults=[*not_granted, *not_reached])


def granted(installation: Installation, wanted: AccessTokenBody) -> tuple[dict[str, str], list[Fault]]:
    """The permissions of the token, and what is wanted beyond what was granted."""
    most = weaker(installation.permissions, installation.app.permissions)
    asked: dict[str, str] = dict(wanted.permissions or {})
    if not asked:
        return most, []
    allowed = weaker(asked, most)
    return allowed, [
        Fault("permissions", "invalid", f"{name}: {level} is not granted", resource=_RESOURCE)
        for name, level in sorted(asked.items())
        if allowed.get(name) != level
    ]


async def chosen_of(
    reader: Reader, installation: Installation, wanted: AccessTokenBody, *, user_id: int | None = None
) -> tuple[list[Repository] | None, list[Fault]]:
    """The repositories that are named, None if the token is not narrowed to some; and what is not reached. `user_id`:
    only those that the user sees."""
    names, ids = wanted.repositories or [], wanted.repository_ids or []
    if not names and not ids:
        return None, []
    found = await queries.named_repositories(reader, installation, names=names, ids=ids, user_id=user_id)
    known_names, known_ids = {each.name.lower() for each in found}, {each.id for each in found}
    faults = [_unreached("repositories", name) for name in names if name.lower() not in known_names]
    faults += [_unreached("repository_ids", one) for one in ids if one not in known_ids]
    return found, faults


def _unreached(field: str, value: object) -> Fault:
    return Fault(field, "invalid", f"{value} is not a repository of this installation", resource=_RESOURCE)
