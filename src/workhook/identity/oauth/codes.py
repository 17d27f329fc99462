"""What is exchanged once for a token: authorization codes and the codes of devices.

An authorization code is made when a user consents (RFC 6749 4.1). In the device flow (RFC 8628) a device shows a code,
a person types it elsewhere and decides, and the device polls.
"""

from __future__ import annotations

import re
import secrets

import msgspec
import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.errors import Conflict
from workhook.core.ids import new_guid
from workhook.identity.apps.queries import find_app
from workhook.identity.apps.schemas import App
from workhook.identity.oauth import authorization, grants
from workhook.identity.oauth.authorization import is_native
from workhook.identity.tables import authorization_codes, device_codes
from workhook.identity.tokens.issue import digest_of
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import big, insert_into

CODE_MS = 10 * MINUTE_MS

_insert_code = insert_into(
    authorization_codes,
    "digest", "app_id", "user_id", "redirect_uri", "scopes", "code_challenge", "created_at", "expires_at", "family",
)  # fmt: skip
_find_code = sa.select(authorization_codes).where(authorization_codes.c.digest == sa.bindparam("digest"))
_use_code = sa.update(authorization_codes).where(
    authorization_codes.c.digest == sa.bindparam("digest"), authorization_codes.c.used_at.is_(None)
)
_use_code = _use_code.values(used_at=big("now"))


async def create_code(
    tx: Transaction, app: App, user_id: int, *, redirect_uri: str, scopes: frozenset[str], challenge: str | None
) -> str:
    """40 hexadecimal characters, good for ten minutes, for this app and what else is given here."""
    code, now = secrets.token_hex(20), now_ms()
    await tx.execute(
        _insert_code,
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
) -> grants.TokenAnswer | grants.Refusal:
    """A token for a code. What is wrong with the rest of the request leaves the code as it is; a code that is used
    twice revokes every token that came of it (RFC 6749 4.1.2)."""
    bad = grants.Refusal("bad_verification_code", "The code passed is incorrect or expired.")
    digest = digest_of(code)
    row = await tx.fetch_one(_find_code, {"digest": digest})
    if row is None or row["app_id"] != app.id:
        return bad
    refusal = _code_fault(row, redirect_uri, verifier, secret_shown)
    if refusal is not None:
        return refusal
    if not await grants.lock_grant(tx, app.id, row["user_id"]):
        return bad
    if await tx.execute(_use_code, {"digest": digest, "now": now_ms()}) == 0:
        await grants.end_stolen(tx, app, row, "code")
        return bad
    if row["expires_at"] <= now_ms():
        return bad
    scopes = grants.parse_stored(row["scopes"])
    return await grants.issue_to(tx, app, row["user_id"], scopes, family=row["family"], public=not secret_shown)


def _code_fault(row: Row, redirect_uri: str | None, verifier: str | None, secret_shown: bool) -> grants.Refusal | None:
    # The original's clients do not all repeat `redirect_uri` here, and exact matching made it certain before.
    if redirect_uri is not None and redirect_uri != row["redirect_uri"]:
        return grants.Refusal("redirect_uri_mismatch", "redirect_uri must be the one that the code was asked for with.")
    if not secret_shown:
        if not is_native(row["redirect_uri"]):
            text = "client_secret is missing: only a program with a loopback redirect_uri goes without it."
            return grants.Refusal("incorrect_client_credentials", text)
        if row["code_challenge"] is None:
            text = "Without client_secret the code has to be asked for with code_challenge (PKCE)."
            return grants.Refusal("incorrect_client_credentials", text)
    fault = authorization.verifier_fault(verifier, row["code_challenge"])
    return grants.Refusal("bad_verification_code", f"{fault}.") if fault else None


EXPIRES_S = 900
INTERVAL_S = 5
SLOWER_S = 5
WAITING_MAX = 1000
"""Codes of one app that nobody has decided on yet. Whoever knows its client id can ask for them, without a secret."""
HEARD_OF_MS = MINUTE_MS
"""A code counts as long as its device was heard of in so many milliseconds. Devices poll every few seconds; who only
asks for codes, so that nobody else gets any, would have to poll for each of them, which the request limit forbids."""
# No vowels, so that it spells nothing, and nothing that looks like something else (RFC 8628 6.1): 20⁸ codes.
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_USER_CODE = re.compile(f"[{_LETTERS}]{{8}}")

_insert_device_code = insert_into(
    device_codes,
    "digest", "user_code", "app_id", "scopes", "interval_s", "created_at", "expires_at",
)  # fmt: skip
_waiting = (
    sa.select(device_codes.c.digest)
    .where(
        device_codes.c.app_id == big("app_id"),
        device_codes.c.expires_at > big("now"),
        device_codes.c.decision.is_(None),
        sa.func.coalesce(device_codes.c.polled_at, device_codes.c.created_at) > big("heard_after"),
    )
    .limit(big("most"))
)
_count_waiting = sa.select(sa.func.count().label("number")).select_from(_waiting.subquery())
_by_device_code = sa.select(device_codes).where(device_codes.c.digest == sa.bindparam("digest"))
_open_request = sa.select(device_codes.c.app_id, device_codes.c.scopes, device_codes.c.user_code).where(
    device_codes.c.user_code == sa.bindparam("user_code"),
    device_codes.c.decision.is_(None),
    device_codes.c.expires_at > big("now"),
)
_decide = sa.update(device_codes).where(
    device_codes.c.user_code == sa.bindparam("code"),
    device_codes.c.decision.is_(None),
    device_codes.c.expires_at > big("now"),
)
_decide = _decide.values(decision=sa.bindparam("outcome"), user_id=big("who"))
_polled = sa.update(device_codes).where(device_codes.c.digest == sa.bindparam("of"))
_polled = _polled.values(polled_at=big("now"), interval_s=sa.bindparam("seconds", type_=sa.Integer()))
_use_device_code = sa.update(device_codes).where(
    device_codes.c.digest == sa.bindparam("of"), device_codes.c.used_at.is_(None)
)
_use_device_code = _use_device_code.values(used_at=big("now"))


class DeviceRequest(msgspec.Struct, frozen=True):
    """What a person decides about. `user_code` is without the hyphen."""

    app: App
    user_code: str
    scopes: frozenset[str]


async def create_device_code(tx: Transaction, app: App, scopes: frozenset[str]) -> tuple[str, str] | grants.Refusal:
    """The device's code, 40 hexadecimal characters, and the person's, `ABCD-EFGH`. A refusal where too many wait: some
    more may come in beside one another, so that nobody waits for anybody here."""
    device_code, now = secrets.token_hex(20), now_ms()
    waiting = {"app_id": app.id, "now": now, "heard_after": now - HEARD_OF_MS, "most": WAITING_MAX}
    row = await tx.fetch_one(_count_waiting, waiting)
    if row is not None and row["number"] >= WAITING_MAX:
        text = f"{WAITING_MAX} codes of this app wait for a person already: ask again in a minute."
        return grants.Refusal("slow_down", text, 60)
    user_code = "".join(secrets.choice(_LETTERS) for _ in range(8))
    await tx.execute(
        _insert_device_code,
        {
            "digest": digest_of(device_code),
            "user_code": user_code,
            "app_id": app.id,
            "scopes": " ".join(sorted(scopes)),
            "interval_s": INTERVAL_S,
            "created_at": now,
            "expires_at": now + EXPIRES_S * 1000,
        },
    )
    return device_code, format_user_code(user_code)


def format_user_code(user_code: str) -> str:
    return f"{user_code[:4]}-{user_code[4:]}"


def parse_user_code(text: str) -> str | None:
    """The code in what somebody typed, in whatever case and with whatever between the letters; None: it is none."""
    letters = re.sub(r"[\W_]", "", text).upper()
    return letters if _USER_CODE.fullmatch(letters) else None


async def find_request(reader: Reader, text: str) -> DeviceRequest | None:
    """What waits for a decision under a code that somebody typed."""
    user_code = parse_user_code(text)
    row = await reader.fetch_one(_open_request, {"user_code": user_code, "now": now_ms()}) if user_code else None
    app = await find_app(reader, row["app_id"]) if row else None
    if row is None or app is None or not app.device_flow:
        return None
    return DeviceRequest(app, row["user_code"], grants.parse_stored(row["scopes"]))


async def decide(tx: Transaction, request: DeviceRequest, user_id: int, *, approved: bool) -> None:
    """Raises `Conflict` where somebody else was faster, or the time is over."""
    if approved:
        await grants.allow(tx, request.app, user_id, grants.wanted(request.app, request.scopes))
    outcome = "approved" if approved else "denied"
    params = {"code": request.user_code, "outcome": outcome, "who": user_id, "now": now_ms()}
    if await tx.execute(_decide, params) == 0:
        raise Conflict("This code has expired or was decided on already. Let the device show a new one.")


async def poll(tx: Transaction, app: App, device_code: str) -> grants.TokenAnswer | grants.Refusal:
    """What the device asks again and again until somebody has decided (RFC 8628 3.5)."""
    digest = digest_of(device_code)
    row = await tx.fetch_one(_by_device_code, {"digest": digest})
    invalid = grants.Refusal("incorrect_device_code", "The device_code provided is not valid.")
    if row is None or row["app_id"] != app.id or row["used_at"] is not None:
        return invalid
    now = now_ms()
    if row["expires_at"] <= now:
        return grants.Refusal("expired_token", "The device_code has expired: ask for a new one.")
    if row["decision"] is None:
        return await _wait(tx, row, now)
    allowed = row["decision"] == "approved" and await grants.lock_grant(tx, app.id, row["user_id"])
    if await tx.execute(_use_device_code, {"of": digest, "now": now}) == 0:  # by another poll at the same time
        return invalid
    if not allowed:
        return grants.Refusal("access_denied", "The user has refused.")
    return await grants.issue_to(
        tx, app, row["user_id"], grants.parse_stored(row["scopes"]), family=new_guid(), public=True
    )


async def _wait(tx: Transaction, row: Row, now: int) -> grants.Refusal:
    polled_at, interval_s = row["polled_at"], row["interval_s"]
    too_soon = polled_at is not None and now - polled_at < interval_s * 1000
    if too_soon:
        interval_s += SLOWER_S
    await tx.execute(_polled, {"of": bytes(row["digest"]), "now": now, "seconds": interval_s})
    if too_soon:
        return grants.Refusal("slow_down", f"Wait {interval_s} seconds between two polls.", interval_s)
    return grants.Refusal("authorization_pending", "Nobody has entered the user_code and decided yet.")
