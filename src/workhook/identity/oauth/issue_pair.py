"""The tokens that come of a consent, and their renewal."""

from __future__ import annotations

import sqlalchemy as sa
import structlog

from workhook.core.clock import now_ms
from workhook.core.ids import new_token, token_checks_out
from workhook.identity import audit
from workhook.identity.apps.schemas import App
from workhook.identity.oauth.grants import hold
from workhook.identity.oauth.schemas import Refusal, TokenAnswer
from workhook.identity.oauth.tables import refresh_tokens
from workhook.identity.tables import tokens
from workhook.identity.tokens.issue import issue, revoke, revoke_of
from workhook.identity.tokens.kinds import APP_USER, OAUTH, REFRESH_PREFIX, digest_of
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, insert_into

APP_USER_TOKEN_S = 8 * 3600
REFRESH_TOKEN_S = 184 * 86400
ALIKE_MAX = 10  # tokens of one app for one user with the same scopes, as the original: the oldest makes room

log = structlog.get_logger(__name__)

_insert = insert_into(
    refresh_tokens, "digest", "app_id", "user_id", "family", "public", "created_at", "expires_at"
)  # fmt: skip
_find = sa.select(refresh_tokens).where(refresh_tokens.c.digest == sa.bindparam("digest"))
_use = sa.update(refresh_tokens).where(refresh_tokens.c.id == big("id"), refresh_tokens.c.used_at.is_(None))
_use = _use.values(used_at=big("now"))
_alike = (
    sa.select(tokens.c.id)
    .where(
        tokens.c.app_id == big("app_id"),
        tokens.c.user_id == big("user_id"),
        tokens.c.scopes == sa.bindparam("scopes"),
        tokens.c.revoked_at.is_(None),
    )
    .order_by(tokens.c.id.desc())
    .offset(ALIKE_MAX)
)


async def issue_to(
    tx: Transaction, app: App, user_id: int, scopes: frozenset[str], *, family: str, public: bool
) -> TokenAnswer:
    """A token of the app's kind. `family`: what came of the same consent; `public`: the client showed no secret."""
    if app.is_oauth:
        issued = await issue(tx, OAUTH, user_id, scopes=scopes, app_id=app.id, family=family)
        await _record(tx, app, user_id, "oauth_token.issue", token_id=issued.id)
        alike = {"app_id": app.id, "user_id": user_id, "scopes": " ".join(sorted(scopes))}
        await revoke(tx, [row["id"] for row in await tx.fetch_all(_alike, alike)])
        return TokenAnswer(issued.token, "bearer", ",".join(sorted(scopes)))
    now = now_ms()
    issued = await issue(tx, APP_USER, user_id, app_id=app.id, family=family, expires_at=now + APP_USER_TOKEN_S * 1000)
    await _record(tx, app, user_id, "oauth_token.issue", token_id=issued.id)
    refresh = new_token(REFRESH_PREFIX)
    await tx.execute(
        _insert,
        {
            "digest": digest_of(refresh),
            "app_id": app.id,
            "user_id": user_id,
            "family": family,
            "public": public,
            "created_at": now,
            "expires_at": now + REFRESH_TOKEN_S * 1000,
        },
    )
    return TokenAnswer(issued.token, "bearer", "", APP_USER_TOKEN_S, refresh, REFRESH_TOKEN_S)


async def end_stolen(tx: Transaction, app: App, row: Row, what: str) -> None:
    """`what` was used twice: everything that came of the same consent is revoked. Told where that ends something: the
    app could go on for ever."""
    revoked = await revoke_of(tx, family=row["family"])
    if not revoked:
        return
    told = {"what": what, "app_id": app.id, "user_id": row["user_id"], "revoked": revoked}
    tx.after_commit(lambda: log.warning("oauth_replay", **told))  # once, however often the transaction is made
    await _record(tx, app, row["user_id"], "oauth_token.revoke", replay_of=what, tokens=revoked)


async def _record(tx: Transaction, app: App, user_id: int, action: str, **detail: object) -> None:
    """In the user's audit log."""
    await audit.record(tx, None, action, app.slug, account_id=user_id, detail={"client_id": app.client_id, **detail})


async def find_refresh_token(reader: Reader, token: str) -> Row | None:
    """The row of a refresh token, whatever has become of it."""
    if not token_checks_out(token, REFRESH_PREFIX):
        return None
    return await reader.fetch_one(_find, {"digest": digest_of(token)})


async def renew(tx: Transaction, app: App, token: str, *, secret_shown: bool) -> TokenAnswer | Refusal:
    """Exchange a refresh token for a new pair; the old access token ends with the old refresh token (RFC 9700 4.14).

    One that was used before tells of a theft, by whoever uses it first or second: all of its family is revoked.
    """
    bad = Refusal("bad_refresh_token", "The refresh token is unknown, has expired, was used before or was revoked.")
    row = await find_refresh_token(tx, token)
    if row is None or row["app_id"] != app.id or row["expires_at"] <= now_ms():
        return bad
    if not secret_shown and not row["public"]:
        return Refusal("incorrect_client_credentials", "This refresh token is taken only with the client secret.")
    if not await hold(tx, app.id, row["user_id"]):
        return bad
    if await tx.execute(_use, {"id": row["id"], "now": now_ms()}) == 0:
        await end_stolen(tx, app, row, "refresh token")
        return bad
    await revoke_of(tx, family=row["family"])
    return await issue_to(tx, app, row["user_id"], frozenset(), family=row["family"], public=bool(row["public"]))
