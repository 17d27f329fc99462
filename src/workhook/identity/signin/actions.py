"""Signing in with a password, and changing it: everything but HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import sqlalchemy as sa

from workhook.core.errors import Fault, Invalid, Problem
from workhook.identity.queries import account_columns, key_of
from workhook.identity.schemas import Account, account_of
from workhook.identity.signin import passwords, sessions, throttle
from workhook.identity.tables import accounts
from workhook.identity.tables import passwords as password_table
from workhook.storage import Database, Reader, Transaction

LOGIN_MAX_CHARS = 320  # an e-mail address has no more (RFC 5321)

_known = (
    sa.select(
        *account_columns("user_"), password_table.c.hash.label("hash"), password_table.c.changed_at.label("changed_at")
    )
    .join_from(accounts, password_table, password_table.c.user_id == accounts.c.id, isouter=True)
    .where(accounts.c.kind == "user", accounts.c.disabled_at.is_(None))
)
_by_login = _known.where(accounts.c.login_key == sa.bindparam("login_key"))
_by_email = _known.where(
    # The database's own `lower` on both sides: what each does with letters beyond ASCII differs.
    sa.func.lower(accounts.c.email) == sa.func.lower(sa.bindparam("email", type_=sa.Text))
).limit(sa.literal(2, sa.BigInteger))


KnownDevice = Callable[[int, int], str | None]
"""Gets a user's id and when the password was changed; answers the id of a browser in which that user has signed in."""


class Checked(NamedTuple):
    """A password that was tried. `user` None: whoever it is meant for does not exist, or is disabled. `right` implies a
    user."""

    user: Account | None
    right: bool
    stored: str | None
    new_hash: str | None  # by today's parameters, where the stored one is of others
    attempt: throttle.Attempt

    def __repr__(self) -> str:
        return f"Checked(right={self.right})"


async def check_password(
    database: Database, login: str, password: str, address: str | None, known_device: KnownDevice | None = None
) -> Checked:
    """`login`: a login, or an e-mail address that one user has. Unknown ones take the same way, and as long.

    `known_device` is asked for the browser's id, if the browser has the cookie of an earlier sign-in. The attempt
    counts as failed until `complete`. While the user has been tried too often by another name no password is right
    (`throttle.Attempt.held`). Raises `TooManyRequests`, `Unavailable`.
    """
    user, stored, changed_at = await _find(database, login.strip())
    device = known_device(user.id, changed_at) if known_device is not None and user is not None else None
    whose = throttle.nobody(login) if user is None else str(user.id)
    attempt = await throttle.begin(database, login, address, whose=whose, device=device)
    try:
        right = await passwords.matches(stored, password) and user is not None and not attempt.held
        outdated = right and stored is not None and passwords.is_outdated(stored)
        new_hash = await passwords.make_hash(password) if outdated else None
    except Problem:
        await database.in_transaction(lambda tx: throttle.take_back(tx, attempt))  # too many at once: it was none
        raise
    return Checked(user, right, stored, new_hash, attempt)


async def complete(tx: Transaction, checked: Checked) -> bool:
    """In the transaction of what the right password lets in to. False: it has been changed at this very moment."""
    if not checked.right or checked.user is None or checked.stored is None:
        return False
    if not await passwords.is_still(tx, checked.user.id, checked.stored):
        return False
    if checked.new_hash is not None:
        await passwords.renew(tx, checked.user.id, checked.stored, checked.new_hash)
    await throttle.succeeded(tx, checked.attempt)
    return True


async def new_hash(password: str, user: Account) -> str:
    """For `set_password`, before its transaction: it takes a while. Raises `Invalid` for what is no good password."""
    faults = passwords.faults_of(password, user)
    if faults:
        raise Invalid(faults=[Fault(field="password", message=each) for each in faults])
    return await passwords.make_hash(password)


async def set_password(tx: Transaction, user: Account, hashed: str, *, kept_session_id: int = 0) -> None:
    """With it every session of the user but one ends, and so do the links that were made for them."""
    await passwords.store(tx, user.id, hashed)
    await sessions.end_others(tx, user.id, kept_session_id)
    await sessions.end_links(tx, user.id)


async def _find(reader: Reader, login: str) -> tuple[Account | None, str | None, int]:
    """The user, the hash of the password, and when the password was changed (0: there is none)."""
    if "\0" in login or len(login) > LOGIN_MAX_CHARS:
        return None, None, 0
    if "@" in login:  # no login has one
        rows = await reader.fetch_all(_by_email, {"email": login})
        row = rows[0] if len(rows) == 1 else None  # an address that several have names none of them
        if row is not None and throttle.login_key(row["user_email"]) != throttle.login_key(login):
            row = None  # the database folds more letters than is counted as one: no way around the count
    else:
        row = await reader.fetch_one(_by_login, {"login_key": key_of(login)})
    if row is None:
        return None, None, 0
    return account_of(row, "user_"), row["hash"], row["changed_at"] or 0
