"""Passwords: rules, hashes (argon2id, RFC 9106), sign-in and reset, independent of HTTP.

Neither a response nor its timing reveals whether an account exists.
"""

from __future__ import annotations

import asyncio
import time
import unicodedata
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import sqlalchemy as sa

from workhook.core.clock import MINUTE_MS, now_ms
from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Fault, Invalid, Problem, Unavailable, say
from workhook.core.vault import Vault
from workhook.identity import audit
from workhook.identity.mail import links, recipients
from workhook.identity.queries import account_columns, key_of
from workhook.identity.schemas import Account, account_of
from workhook.identity.signin import sessions, throttle
from workhook.identity.tables import accounts, mail_recipients, passwords, sign_in_links
from workhook.storage import Database, Reader, Row, Transaction
from workhook.storage.dialects import any_of, upsert
from workhook.storage.metadata import bigint_param

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")

LENGTH_MIN, LENGTH_MAX = 10, 1024
# The most common passwords of sufficient length, without case and punctuation.
COMMON_PASSWORDS = frozenset(
    """
    0123456789 1029384756 10293847565 1111111111 1122334455 112233445566 123123123123 1234512345 12345678910
    123456789a 123456789q 1234567890a 1234567890q 1234567890qwertyuiop 123qweasdzxc 147258369 1472583690 1q2w3e4r5t
    1q2w3e4r5t6y 1qaz2wsx3edc 1qaz2wsx3edc4rfv 2wsx3edc4rfv 3rjs1la7qe 5201314520 741852963 7418529630 7894561230
    987654321 9876543210 aa12345678 aaaaaaaaaa abc1234567 abc123456789 abcd123456 abcd12345678 abcdef123456
    admin12345 admin123456 administrator adminadmin adminpassword asdf123456 asdfasdfasdf asdfghjkl asdfghjkl1
    asdfghjkl123 asdfghjkl12345 azertyuiop azertyuiop123 baseball123 basketball businessman butterfly1 changeme123
    changeme1234 changemenow charlie123 chocolate1 computer123 correcthorsebatterystaple dragon1234 elizabeth1
    football10 football123 football1234 fuckyou123 geheim1234 hallo12345 heslo12345 hello12345 hello123456 iloveyou12
    iloveyou123 iloveyou1234 iloveyou2 iloveyouso jennifer123 jonathan123 letmein123 letmein1234 letmeinnow
    liverpool1 liverpoolfc lovelovelove manchester michael123 microsoft1 monkey1234 motdepasse motdepasse1 newpassword
    p4ssw0rd123 p4ssword123 pa55word123 pa55w0rd123 passpasspass passw0rd12 passw0rd123 passw0rd1234 password00
    password01 password10 password11 password12 password123 password1234 password12345 password123456 password2024
    password2025 password2026 password99 passwordpassword passwort12 passwort123 passwort1234 pokemon123 princess12
    princess123 q1w2e3r4t5 q1w2e3r4t5y6 qazwsxedc1 qazwsxedc123 qazwsxedcrfv qqww1122334455 qwaszx1234 qwe123qwe123
    qweasdzxc1 qweasdzxc123 qwer123456 qwert12345 qwerty1234 qwerty12345 qwerty123456 qwertyqwerty qwertyui12
    qwertyuiop qwertyuiop1 qwertyuiop12 qwertyuiop123 qwertyuiopasdfghjkl qwertzuiop qwertzuiop1 samsung123 secret1234
    secretsecret spiderman1 starwars123 summer2024 summer2025 summer2026 sunshine12 sunshine123 superman12 superman123
    test123456 test12345678 testtest12 testtest123 testtesttest tinkerbell undertaker unbelievable welcome123
    welcome1234 welcome12345 welcome2024 welcome2025 welcome2026 wojiushiwo1 woaini1314 woaini1314520 woaini520
    zaq12wsxcde3 zaq1zaq1zaq1 zxcvbnm123 zxcvbnm1234 zxcvbnmasdfghjkl
    """.split()  # noqa: SIM905  # 150 quoted words would be unreadable
)

# OWASP's password storage guidance: 19 MiB, two passes, one lane. Takes about 25 ms on one core.
MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
# Two at a time use 38 MiB and leave CPU time for the event loop. Requests that would wait for a second are refused.
THREADS, WAITING_MAX = 2, 40

_find = sa.select(passwords.c.hash, passwords.c.changed_at, passwords.c.email).where(
    passwords.c.user_id == bigint_param("user_id")
)
# Locked until the session is stored, so that a later change of the password ends that session too.
_lock_hash = _find.with_for_update(read=True)
_new = {"hash": sa.bindparam("hash"), "changed_at": bigint_param("now")}
_set = upsert(passwords).values(user_id=bigint_param("user_id"), **_new)
_set = _set.on_conflict_do_update(index_elements=["user_id"], set_=_new)
_set_email = (
    sa.update(passwords).where(passwords.c.user_id == bigint_param("user_id")).values(email=sa.bindparam("email"))
)
_renew = (
    sa.update(passwords)
    .where(passwords.c.user_id == bigint_param("user_id"), passwords.c.hash == sa.bindparam("old_hash"))
    .values(hash=sa.bindparam("new_hash"))
)

_threads = ThreadPoolExecutor(THREADS, "workhook-password")
_waiting = 0


def normal(password: str) -> str:
    """Normalize a password to NFC (RFC 8265), so that it does not depend on how a keyboard composes characters."""
    return unicodedata.normalize("NFC", password)


def faults_of(password: str, user: Account) -> Sequence[str]:
    text = normal(password)
    found = []
    if len(text) < LENGTH_MIN:
        found.append(say("The password needs at least {} characters.", LENGTH_MIN))
    if len(text) > LENGTH_MAX:
        found.append(say("The password can have at most {} characters.", LENGTH_MAX))
    if "\0" in text or not _is_unicode(text):
        found.append(say("The password contains an invalid character."))
    plain = _plain(text)
    if plain in COMMON_PASSWORDS or _repeats(text.casefold()):
        found.append(say("This password is too common. Choose one that is harder to guess."))
    if any(plain == own or (own in plain and len(plain) - len(own) <= 4) for own in _own_words(user)):
        found.append(
            say("The password must not be your login, your name, your e-mail address, or the name of this product.")
        )
    return found


def _is_unicode(text: str) -> bool:
    """Return whether the text is valid Unicode. A terminal can pass arbitrary bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _own_words(user: Account) -> set[str]:
    email = user.email or ""
    words = {user.login, user.name or "", email, email.partition("@")[0], "workhook"}
    return {plain for plain in map(_plain, words) if len(plain) >= 3}


def _plain(text: str) -> str:
    return "".join(each for each in text.casefold() if each.isalnum())


def _repeats(text: str) -> bool:
    """Return whether the text repeats one or two characters, or is a sequence of digits or letters."""
    if len(set(text)) <= 2:
        return True
    around = 10 if text.isascii() and text.isdigit() else 0x110000  # 0 comes after 9
    steps = {(ord(after) - ord(before)) % around for before, after in pairwise(text)}
    return len(steps) == 1 and steps <= {1, around - 1}


async def hash_password(password: str) -> str:
    """Hash a password. Raises `Unavailable` if too many requests are waiting."""
    return await _in_thread(lambda: _hasher().hash(normal(password)))


async def matches(stored: str | None, password: str) -> bool:
    """Verify a password. `stored` None takes the same time. Raises `Unavailable`."""
    return await _in_thread(lambda: _matches(stored, normal(password)))


def _matches(stored: str | None, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    nobody = _hash_of_nobody()  # always computed, so that the first request takes no longer
    try:
        right = _hasher().verify(nobody if stored is None else stored, password)
    except (VerificationError, InvalidHashError):
        return False
    return right and stored is not None


@cache
def _hasher() -> PasswordHasher:
    # Few processes need the library.
    from argon2 import PasswordHasher, Type

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID)


@cache
def _hash_of_nobody() -> str:
    return _hasher().hash("a password that nobody has")


async def _in_thread(work: Callable[[], T]) -> T:
    global _waiting
    if _waiting >= WAITING_MAX:
        raise Unavailable(say("Too many people are signing in right now. Try again in a few seconds."), retry_after_s=5)
    _waiting += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, work)
    finally:
        _waiting -= 1


async def hash_of(reader: Reader, user_id: int) -> str | None:
    row = await reader.fetch_one(_find, {"user_id": user_id})
    return None if row is None else str(row["hash"])


async def changed_at(reader: Reader, user_id: int) -> int:
    """Return when the password was changed, or 0 if there is none."""
    row = await reader.fetch_one(_find, {"user_id": user_id})
    return 0 if row is None else int(row["changed_at"])


LOGIN_MAX_CHARS = 320  # the maximum length of an e-mail address (RFC 5321)

_users_with_password = (
    sa.select(*account_columns("user_"), passwords.c.hash.label("hash"), passwords.c.changed_at.label("changed_at"))
    .join_from(accounts, passwords, passwords.c.user_id == accounts.c.id, isouter=True)
    .where(accounts.c.kind == "user", accounts.c.disabled_at.is_(None))
)
_by_login = _users_with_password.where(accounts.c.login_key == sa.bindparam("login_key"))
# The database's own `lower` on both sides: databases differ in non-ASCII letters.
_typed = sa.func.lower(sa.bindparam("email", type_=sa.Text))
_by_email = (
    _users_with_password.where(sa.func.lower(accounts.c.email) == _typed)
    .add_columns(accounts.c.email.label("address"))
    .limit(sa.literal(2, sa.BigInteger))
)
# An address that users entered themselves counts only after it is confirmed.
_by_confirmed = (
    _users_with_password.join(mail_recipients, mail_recipients.c.user_id == accounts.c.id)
    .where(
        sa.func.lower(mail_recipients.c.confirmed) == _typed,
        mail_recipients.c.confirmed == passwords.c.email,
        sa.func.coalesce(accounts.c.email, "") == "",
    )
    .add_columns(mail_recipients.c.confirmed.label("address"))
    .limit(sa.literal(2, sa.BigInteger))
)

_by_id = _users_with_password.where(any_of(accounts.c.id, "user_ids"), passwords.c.email.is_not(None)).add_columns(
    passwords.c.email.label("own_email")
)


class KnownDevice(Protocol):
    """A browser in which users have signed in before, identified by a cookie."""

    @property
    def user_ids(self) -> Collection[int]:
        """Users who have signed in with this browser, with any password."""

    def __call__(self, user_id: int, changed_at: int) -> str | None:
        """Return the browser's ID if the user has signed in with it since the password was changed."""


class PasswordCheck(HiddenRepr, msgspec.Struct, frozen=True):
    user: Account | None  # None: unknown or disabled
    right: bool  # implies a user
    stored: str | None
    new_hash: str | None  # if the parameters have changed since
    attempt: throttle.CountedAttempt


async def check_password(
    database: Database, login: str, password: str, address: str | None, known_device: KnownDevice | None = None
) -> PasswordCheck:
    """Check a password for a login or e-mail address. Raises `TooManyRequests` and `Unavailable`.

    An address works only if exactly one user has it, and only if it is confirmed or was set by someone else. Unknown
    names take the same path and time. In a browser where they have signed in before (`known_device`), users may also
    use an unconfirmed address. The attempt counts as failed until `complete` is called. After too many attempts with
    the user's other name (their address if this is the login, or the reverse), even the right password is rejected
    (`throttle.CountedAttempt.held`).
    """
    user, stored, changed_at = await _find_user(database, login.strip(), known_device)
    device = known_device(user.id, changed_at) if known_device is not None and user is not None else None
    subject = throttle.nobody(login) if user is None else str(user.id)
    attempt = await throttle.begin(database, login, address, subject=subject, device=device)
    try:
        right = await matches(stored, password) and user is not None and not attempt.held
        outdated = right and stored is not None and _hasher().check_needs_rehash(stored)
        new_hash = await hash_password(password) if outdated else None
    except Problem:
        await database.in_transaction(lambda tx: throttle.undo_attempt(tx, attempt))  # it was not made
        raise
    return PasswordCheck(user, right, stored, new_hash, attempt)


async def complete(tx: Transaction, checked: PasswordCheck) -> bool:
    """Complete a sign-in, in the transaction that relies on it. Returns False if the password has changed meanwhile."""
    if not checked.right or checked.user is None or checked.stored is None:
        return False
    params = {"user_id": checked.user.id}
    row = await tx.fetch_one(_lock_hash, params)
    if row is None or row["hash"] != checked.stored:
        return False
    if checked.new_hash is not None:
        await tx.execute(_renew, {**params, "old_hash": checked.stored, "new_hash": checked.new_hash})
    await throttle.undo_attempt(tx, checked.attempt, succeeded=True)
    return True


async def new_hash(password: str, user: Account) -> str:
    """Hash a new password, before the transaction of `set_password` because it takes a while. Raises `Invalid`."""
    if faults := faults_of(password, user):
        raise Invalid(faults=[Fault(field="password", message=each) for each in faults])
    return await hash_password(password)


async def set_password(tx: Transaction, user: Account, hashed: str) -> None:
    """Store a password hash, and end the user's sessions and links."""
    await tx.execute(_set, {"user_id": user.id, "hash": hashed, "now": now_ms()})
    await sessions.end_all(tx, user.id)


async def find_email(reader: Reader, user_id: int) -> str | None:
    """Return the address that the user claims."""
    row = await reader.fetch_one(_find, {"user_id": user_id})
    return row["email"] if row else None


async def set_email(tx: Transaction, user_id: int, email: str | None) -> bool:
    """Set the address that the user claims. Returns False if the user has no password."""
    return await tx.execute(_set_email, {"user_id": user_id, "email": email}) > 0


async def _find_user(
    reader: Reader, login: str, known_device: KnownDevice | None = None
) -> tuple[Account | None, str | None, int]:
    """Return the user, the password's hash, and when it was changed (0 without a password)."""
    if "\0" in login or len(login) > LOGIN_MAX_CHARS:
        return None, None, 0
    if "@" in login:  # no login contains it
        matches = await reader.fetch_all(_by_email, {"email": login})
        confirmed = await reader.fetch_all(_by_confirmed, {"email": login})  # always, to take the same time
        rows = matches or confirmed
        row = rows[0] if len(rows) == 1 else None  # a shared address identifies no user
        if row is not None and throttle.login_key(row["address"]) != throttle.login_key(login):
            row = None  # the database folds more letters than the throttle does, which must not bypass the count
        if known_device is not None and not (row and known_device(row["user_id"], row["changed_at"] or 0)):
            # Preferred, so that a refusal does not reveal that the address also belongs to someone else.
            row = await _find_own(reader, login, known_device) or row
    else:
        row = await reader.fetch_one(_by_login, {"login_key": key_of(login)})
    if row is None:
        return None, None, 0
    return account_of(row, "user_"), row["hash"], row["changed_at"] or 0


async def _find_own(reader: Reader, login: str, known_device: KnownDevice) -> Row | None:
    """Return the user known to this browser who entered this address as their own, or None unless exactly one did."""
    rows = await reader.fetch_all(_by_id, {"user_ids": list(known_device.user_ids)})
    key = throttle.login_key(login)
    named = [row for row in rows if throttle.login_key(row["own_email"]) == key]
    fitting = [row for row in named if known_device(row["user_id"], row["changed_at"])]
    return fitting[0] if len(fitting) == 1 else None


# --- forgotten passwords ----------------------------------------------------------------------------------------------

LINK_MINUTES = 60
AGAIN_MS = 5 * MINUTE_MS  # between two links of a user, so that a double click sends one message
ANSWERED_AFTER_S = 0.3  # longer than all of it normally takes

_recent_link = (
    sa.select(sa.literal(1, sa.Integer))
    .where(sign_in_links.c.user_id == bigint_param("user_id"), sign_in_links.c.created_at > bigint_param("since"))
    .limit(sa.literal(1, sa.BigInteger))
)


async def mail_password_link(
    database: Database, vault: Vault, login: str, address: str | None, *, without_password: bool
) -> None:
    """Mail a password link to the user with this login or e-mail address, if they can receive mail.

    `address` is the client's IP address. With `without_password`, users without a password get one too, even though an
    identity provider may have blocked them. Raises `TooManyRequests`.
    """
    began = time.monotonic()
    await throttle.count_asked(database, login, address)
    user, stored, _ = await _find_user(database, login.strip())
    if user is not None and (stored is not None or without_password):
        await database.in_transaction(lambda tx: _mail_link(tx, vault, user))
    await asyncio.sleep(max(0.0, began + ANSWERED_AFTER_S - time.monotonic()))


async def _mail_link(tx: Transaction, vault: Vault, user: Account) -> None:
    now = now_ms()
    recipient = await recipients.find_recipient(tx, user.id)
    if recipient is None or not recipient.can_be_mailed:
        return
    if await tx.fetch_one(_recent_link, {"user_id": user.id, "since": now - AGAIN_MS}) is not None:
        return
    link = await sessions.create_link(tx, user.id, sessions.SET_PASSWORD, minutes=LINK_MINUTES)
    detail: dict[str, object] = {"purpose": sessions.SET_PASSWORD, "minutes": LINK_MINUTES, "how": "asked"}
    await audit.record(tx, None, "user.link_create", user.login, account_id=user.id, detail=detail)
    await links.queue_own_link(tx, vault, user.id, "password_link", link.path, expires_at=link.expires_at, now=now)
