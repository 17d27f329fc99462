"""Users for a provider's subject: known, matched by a verified e-mail address, or created."""

from __future__ import annotations

import re
import shlex

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, say
from workhook.identity import actions
from workhook.identity.queries import account_columns, find_account
from workhook.identity.schemas import Account, account_of, login_fault
from workhook.identity.signin.oidc import Claims, SignInRefused
from workhook.identity.tables import accounts, identities
from workhook.storage import Reader, Row, Transaction
from workhook.storage.metadata import bigint_param, insert_into

LOGIN_MAX_CHARS = 39
SUBJECT_MAX_CHARS = 255  # OpenID Connect Core 1.0, section 2
_LOGINS_TRIED = 50
_NAME_MAX_CHARS = 255

_of_issuer = identities.c.issuer == sa.bindparam("issuer")
_by_subject = (
    sa.select(*account_columns(), accounts.c.disabled_at)
    .join_from(identities, accounts, accounts.c.id == identities.c.user_id)
    .where(_of_issuer, identities.c.subject == sa.bindparam("subject"), accounts.c.kind == "user")
)
_addressed = (
    sa.select(
        *account_columns(),
        accounts.c.disabled_at,
        sa.exists().where(_of_issuer, identities.c.user_id == accounts.c.id).correlate(accounts).label("has_identity"),
    )
    .where(accounts.c.kind == "user", sa.func.lower(accounts.c.email) == sa.bindparam("email"))
    .limit(bigint_param("limit"))
)
_remember = insert_into(identities, "issuer", "subject", "user_id", "created_at")
_NOT_OF_A_LOGIN = re.compile(r"[^A-Za-z0-9]+")


async def find(reader: Reader, claims: Claims) -> Account | None:
    """Return the user who has signed in with this subject before."""
    row = await _find(reader, claims)
    return account_of(row) if row else None


async def _find(reader: Reader, claims: Claims) -> Row | None:
    return await reader.fetch_one(_by_subject, {"issuer": claims.issuer, "subject": claims.subject})


async def find_or_add(tx: Transaction, claims: Claims, *, create: bool) -> tuple[Account, str | None]:
    """Return the user, and what was done: `linked`, `created` or None.

    An address is matched only if the provider has verified it and exactly one user has it, without another identity at
    that issuer, because a subject that inherits an address must not inherit the account. Raises `SignInRefused`, and
    `UniqueViolation` for a concurrent sign-in, which should be retried.
    """
    known = await _find(tx, claims)
    if known is not None:
        return _enabled(known), None
    if create and claims.email is not None:
        await actions.lock_address(tx, claims.email)
    user, done = await _addressed_by(tx, claims), "linked"
    if user is None:
        if not create:
            raise SignInRefused(_nobody(claims))
        name = claims.name[:_NAME_MAX_CHARS] if claims.name else None
        login = await _free_login(tx, claims)
        user = await actions.create_account(tx, "user", login, name=name, email=claims.email)
        done = "created"
    await _store(tx, user, claims.issuer, claims.subject)
    return user, done


async def link(tx: Transaction, user: Account, issuer: str, subject: str) -> bool:
    """Link a subject to a user. Returns False if it was linked already. Raises `Conflict` if it is another user's."""
    known = await find(tx, Claims(issuer, subject))
    if known is not None and known.id != user.id:
        raise Conflict(f"{subject} of {issuer} already signs in as {known.login}. A subject has only one user.")
    if known is None:
        await _store(tx, user, issuer, subject)
    return known is None


async def _store(tx: Transaction, user: Account, issuer: str, subject: str) -> None:
    values = {"issuer": issuer, "subject": subject, "user_id": user.id, "created_at": now_ms()}
    await tx.execute(_remember, values)


async def _addressed_by(tx: Transaction, claims: Claims) -> Account | None:
    if claims.email is None or any(each.lower().isascii() and not each.isascii() for each in claims.email):
        return None  # the Kelvin sign becomes `k` in lower case: such an address matches no user
    rows = await tx.fetch_all(_addressed, {"issuer": claims.issuer, "email": claims.email.lower(), "limit": 2})
    if len(rows) > 1:
        raise SignInRefused(
            say(
                "Several users have the e-mail address {}. "
                "Ask your administrator to remove it from all but one of them.",
                claims.email,
            )
        )
    if rows and rows[0]["has_identity"]:
        raise SignInRefused(
            say(
                "The user with the e-mail address {} signs in with another account of your provider. "
                "Use that one, or ask your administrator.",
                claims.email,
            )
        )
    return _enabled(rows[0]) if rows else None


def _enabled(row: Row) -> Account:
    """Raise `SignInRefused` for a disabled user, so that no other user is matched or created instead."""
    if row["disabled_at"] is not None:
        raise SignInRefused(say("Your account is disabled. Ask your administrator."))
    return account_of(row)


def _nobody(claims: Claims) -> str:
    if claims.email is not None:
        command = f"workhook user add --login LOGIN --email {claims.email}"
        return say(
            "No user has the e-mail address {}. Ask your administrator to add you by running: {}", claims.email, command
        )
    linked = f"workhook user link-identity --login LOGIN --subject={shlex.quote(claims.subject)}"
    if claims.unverified_email:
        advice = say("Your provider has not verified your e-mail address. Verify it there, then sign in again.")
    else:
        advice = say(
            "Your provider does not share your e-mail address. Ask its administrator to share it with this server."
        )
    return say("{} Or ask your administrator to link your account: {}", advice, linked)


async def _free_login(reader: Reader, claims: Claims) -> str:
    wish = claims.username or claims.email or claims.name or ""
    stem = _NOT_OF_A_LOGIN.sub("-", wish.partition("@")[0]).strip("-")[:LOGIN_MAX_CHARS].strip("-") or "user"
    for number in range(1, _LOGINS_TRIED):
        suffix = f"-{number}" if number > 1 else ""
        login = stem[: LOGIN_MAX_CHARS - len(suffix)].strip("-") + suffix
        if login_fault(login) is None and await find_account(reader, login) is None:
            return login
    raise SignInRefused(say("Too many users have a login like {}. Ask your administrator to add you manually.", stem))
