"""`/organizations/{login}/export`: an organization with all its data, as an archive for another server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from workhook.core.errors import NotFound
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Routes
from workhook.http.operations import WORK_API
from workhook.identity import policy
from workhook.identity.authenticator import actor_of
from workhook.work.kernel.access import get_owned_account
from workhook.work.portability.transfer.exports import MEDIA_TYPE, create_archive, headers_of, require_export_slot

_BYTES: Mapping[str, Any] = {"type": "string", "format": "binary"}

routes = Routes(WORK_API, "Users", read="organization.export", write="organization.export")


@routes.get(
    "/organizations/{login}/export",
    answers={200: _BYTES},
    problems=(403, 409, 429),
    media_type=MEDIA_TYPE,
    etag=False,
)
async def export_organization(call: Call, login: str) -> Response:
    """Export an organization with all its data.

    Only owners of the organization can call this. The response is a tar archive with one JSON Lines file per kind of
    record, the contents of all files, and `manifest.json` as the last entry. An archive without the manifest is
    incomplete. All records are from the same point in time. Import the archive on another server with
    `workhook organization import`.

    Passwords, tokens and webhook secrets are not included. The token also needs the scope `work:read`. Each export is
    recorded in the audit log. A second export of the same organization fails with 409 `export_running` until the first
    one ends. While the server is preparing two exports, others fail with 429 `exports_running`.
    """
    actor = actor_of(call)
    account = await get_owned_account(call.database, actor, login, "export it")
    if account.kind != "organization":
        raise NotFound()
    policy.check_token(actor, policy.RULES["work.read"])
    headers = headers_of(account)
    if call.request.method == "HEAD":
        require_export_slot(account)
        return Response(_nothing(), headers=headers, media_type=MEDIA_TYPE)
    archive = await create_archive(call.services, actor, account, call.public_base, call.request_id)
    return Response(archive, headers=headers, media_type=MEDIA_TYPE)


async def _nothing() -> AsyncIterator[bytes]:
    for piece in list[bytes]():
        yield piece
