"""The logo on invoices: `/organizations/{login}/billing/logo`.

It must be a PNG or JPEG by its first bytes, regardless of the uploaded content type; an SVG could contain scripts. Its
content is stored like that of files: first the content, then the row. Content without a row is swept later. A logo on a
sent invoice keeps its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from workhook.core.errors import Fault, Invalid, say
from workhook.core.ids import new_id
from workhook.http import parameters
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.identity.context import Write
from workhook.identity.schemas import Account
from workhook.identity.tokens.lookup import check_whole_account
from workhook.storage import Transaction
from workhook.storage.blobs import Incoming
from workhook.storage.metadata import insert_into
from workhook.work.files.upload import FILE_FIELD, FORM, Admit, parameters_of, read_form
from workhook.work.kernel.access import get_owned_account
from workhook.work.kernel.record_events import record_audit
from workhook.work.kernel.schemas import Done
from workhook.work.kernel.settings import AccountBilling, AccountBillingAnswer, billing_logos
from workhook.work.money.billing.actions import account_answer
from workhook.work.money.invoices import settings

LOGO_MAX_BYTES = 2**20
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_HEAD_BYTES = max(map(len, _MAGIC))
_DOING = "change its billing settings"
_BODY: Mapping[str, Any] = {
    "type": "object",
    "required": [FILE_FIELD],
    "properties": {FILE_FIELD: {"type": "string", "format": "binary", "description": "PNG or JPEG, at most 1 MiB."}},
    "additionalProperties": False,
}

_insert = insert_into(
    billing_logos, "account_id", "id", "content_type", "size", "sha256", "blob", "is_issued", "created_at"
)
_delete = sa.delete(billing_logos).where(
    billing_logos.c.id == sa.bindparam("logo_id"), billing_logos.c.is_issued.is_(sa.false())
)

routes = Routes(WORK_API, "Billing", read="work.read", write="work.write")


class _Sniffed:
    """Forwards the bytes of an upload, and keeps the first ones to determine its type."""

    def __init__(self, incoming: Incoming) -> None:
        self._incoming, self._head = incoming, b""

    async def write(self, data: bytes) -> None:
        if len(self._head) < _HEAD_BYTES:
            self._head += data[: _HEAD_BYTES - len(self._head)]
        await self._incoming.write(data)

    @property
    def content_type(self) -> str | None:
        return next((kind for magic, kind in _MAGIC.items() if self._head.startswith(magic)), None)


class NewLogo:
    """A stored image that can become the logo of an account.

    As a context manager, it deletes the content on exit unless `put` has succeeded.
    """

    def __init__(self, call: Call, content_type: str, incoming: Incoming) -> None:
        self._call, self._content_type = call, content_type
        self.blob, self.size, self.sha256 = incoming.name, incoming.size, incoming.sha256
        self.is_stored = False

    async def put(self, write: Write, account: Account) -> AccountBilling:
        """Set the image as the logo of an account that the caller owns. May be repeated after a deadlock."""
        self.is_stored = False
        before = await settings.lock_account_billing(write.tx, account.id)
        write.require_match(account_answer(before))
        logo_id = new_id("lgo")
        values = {"account_id": account.id, "id": logo_id, "content_type": self._content_type, "size": self.size}
        values |= {"sha256": self.sha256, "blob": self.blob, "is_issued": False, "created_at": write.now}
        await write.tx.execute(_insert, values)
        after = await _change(write, account, before, logo_id)
        self.is_stored = True
        return after

    async def __aenter__(self) -> NewLogo:
        return self

    async def __aexit__(self, *error: object) -> None:
        if not self.is_stored:
            await self._call.services.blobs.forget(self.blob)


async def receive_logo(call: Call, *, admit: Admit | None = None) -> NewLogo:
    """Read the form of the request. Raises the errors of `upload.read_form`, and `Invalid` for other file types."""
    async with call.services.blobs.incoming() as incoming:
        sniffed = _Sniffed(incoming)
        form = await read_form(call, sniffed, limit=LOGO_MAX_BYTES, admit=admit)
        await call.body_came()
        kind, given = sniffed.content_type, parameters_of(call.query, form)
        faults = [*form.faults, *parameters.unknown(given)]
        if not faults and kind is None:
            faults = [Fault(field=FILE_FIELD, message=say("{} must be a PNG or a JPEG", FILE_FIELD))]
        if faults or kind is None:
            raise Invalid(faults=faults)
        await incoming.keep()
    return NewLogo(call, kind, incoming)


@routes.put(
    "/organizations/{login}/billing/logo",
    answers={200: AccountBillingAnswer},
    body=_BODY,
    body_media_type=FORM,
    body_required=True,
    action="organization_billing.edit",
)
async def put_organization_logo(call: Call, login: str) -> Response:
    """Set the logo on an organization's invoices.

    Only owners of the organization can call this. With your own login, it sets the logo of your account. Send a form
    with one file, a PNG or JPEG of at most 1 MiB. Sent invoices keep their logo.
    """
    actor = actor_of(call)
    account = await get_owned_account(call.database, actor, login, _DOING)
    check_whole_account(actor, account.id)
    logo = await receive_logo(call)

    async def change(tx: Transaction) -> AccountBilling:
        return await logo.put(Write.for_call(call, tx), account)

    async with logo:
        return Response(account_answer(await call.database.in_transaction(change)))


@routes.delete("/organizations/{login}/billing/logo", action="organization_billing.edit")
async def delete_organization_logo(write: Write, login: str) -> Done:
    """Remove the logo from an organization's invoices.

    Only owners of the organization can call this. Without a logo, invoices show the image of their project, or
    initials.
    """
    account = await get_owned_account(write.tx, write.actor, login, _DOING)
    check_whole_account(write.actor, account.id)
    await remove_logo(write, account)
    return Done()


async def remove_logo(write: Write, account: Account) -> None:
    """Remove the logo of an account that the caller owns."""
    before = await settings.lock_account_billing(write.tx, account.id)
    write.require_match(account_answer(before))
    if before.logo_id is not None:
        await _change(write, account, before, None)


async def _change(write: Write, account: Account, before: AccountBilling, logo_id: str | None) -> AccountBilling:
    """Set or remove the logo. The previous row is deleted unless an invoice uses it, and its content is swept later."""
    if before.logo_id is not None:
        await write.tx.execute(_delete, {"logo_id": before.logo_id})
    after = msgspec.structs.replace(before, logo_id=logo_id)
    settings.save_account_billing(write.tx, account.id, after)
    changes = {"logo": {"from": before.logo_id, "to": logo_id}}
    await record_audit(write, account, "organization_billing.edit", account.login, detail=changes)
    return after
