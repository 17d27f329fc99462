"""Authorization codes: made when a user consents, exchanged once for a token (RFC 6749 4.1)."""

from __future__ import annotations

import secrets

import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.ids import new_guid
from workhook.identity.apps.schemas import App
from workhook.identity.oauth import pkce
from workhook.identity.oauth.grants import hold
from workhook.identity.oauth.issue_pair import end_stolen, issue_to
from workhook.identity.oauth.redirects import is_native
from workhook.identity.oauth.schemas import Refusal, TokenAnswer
from workhook.identity.oauth.scopes import stored
from workhook.identity.oauth.tables import authorization_codes
from workhook.identity.tokens.kinds import digest_of
from workhook.storage import Row, Transaction
from workhook.storage.metadata import big, insert_into

CODE_MS = 10 * MINUTE_MS

_insert = insert_into(
    authorization_codes,
    "digest", "app_id", "user_id", "redirect_uri", "scopes", "code_challenge", "created_at", "expires_at", "family",
)  # fmt: skip
_find = sa.select(authorization_codes).where(authorization_codes.c.digest == sa.bindparam("digest"))
_use = sa.update(authorization_codes).where(
    authorization_codes.c.digest == sa.bindparam("digest"), authorization_codes.c.used_at.is_(None)
)
_use = _use.values(used_at=big("now"))


async def create_code(
    tx: Transaction, app: App, user_id: int, *, redirect_uri: str, scopes: frozenset[str], challenge: str | None
) -> str:
    """40 hexadecimal characters, good for ten minutes, for this app and what else is given here."""
    code, now = secrets.token_hex(20), now_ms()
    await tx.execute(
        _insert,
        {
            "digest": digest_of(code),
            "app_id": app.id,
            "user_id": user_id,
            "redirect_uri": redirect_uri,
            "scopes": " ".join(sorted(scopes)),
            "code_challenge": challenge,
            "created_at": now,
            "expires_at": now + CODE_MS,
            "family": new_guid(),
        },
    )
    return code


async def redeem_code(
    tx: Transaction, app: App, code: str, *, redirect_uri: str | None, verifier: str | None, secret_shown: bool
) -> TokenAnswer | Refusal:
    """A token for a code. What is wrong with the rest of the request leaves the code as it is; a code that is used
    twice revokes every token that came of it (RFC 6749 4.1.2)."""
    bad = Refusal("bad_verification_code", "The code passed is incorrect or expired.")
    digest = digest_of(code)
    row = await tx.fetch_one(_find, {"digest": digest})
    if row is None or row["app_id"] != app.id:
        return bad
    refusal = _fault(row, redirect_uri, verifier, secret_shown)
    if refusal is not None:
        return refusal
    if not await hold(tx, app.id, row["user_id"]):
        return bad
    if await tx.execute(_use, {"digest": digest, "now": now_ms()}) == 0:
        await end_stolen(tx, app, row, "code")
        return bad
    if row["expires_at"] <= now_ms():
        return bad
    scopes = stored(row["scopes"])
    return await issue_to(tx, app, row["user_id"], scopes, family=row["family"], public=not secret_shown)


def _fault(row: Row, redirect_uri: str | None, verifier: str | None, secret_shown: bool) -> Refusal | None:
    # The original's clients do not all repeat `redirect_uri` here, and exact matching made it certain before.
    if redirect_uri is not None and redirect_uri != row["redirect_uri"]:
        return Refusal("redirect_uri_mismatch", "redirect_uri must be the one that the code was asked for with.")
    if not secret_shown:
        if not is_native(row["redirect_uri"]):
            text = "client_secret is missing: only a program with a loopback redirect_uri goes without it."
            return Refusal("incorrect_client_credentials", text)
        if row["code_challenge"] is None:
            text = "Without client_secret the code has to be asked for with code_challenge (PKCE)."
            return Refusal("incorrect_client_credentials", text)
    fault = pkce.verifier_fault(verifier, row["code_challenge"])
    return Refusal("bad_verification_code", f"{fault}.") if fault else None
