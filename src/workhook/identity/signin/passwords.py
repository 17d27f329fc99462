"""Passwords: what is taken for one, and their hashes (argon2id, RFC 9106)."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from workhook.core.clock import now_ms
from workhook.core.errors import Unavailable
from workhook.identity.schemas import Account
from workhook.identity.tables import passwords
from workhook.storage import Reader, Transaction
from workhook.storage.dialects import upsert
from workhook.storage.metadata import big

if TYPE_CHECKING:
    from argon2 import PasswordHasher

COMMONEST = frozenset(
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
    """.split()  # noqa: SIM905  # a hundred and fifty quoted words would be read by nobody
)


T = TypeVar("T")

LENGTH_MIN, LENGTH_MAX = 10, 1024

# OWASP's password storage guidance: 19 MiB, two passes, one lane. About 25 ms of one core.
MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
# Two at a time take 38 MiB and leave the loop its share of the processor; who would wait for more than a second is told
# to come back.
THREADS, WAITING_MAX = 2, 40

_find = sa.select(passwords.c.hash).where(passwords.c.user_id == big("user_id"))
_find_change = sa.select(passwords.c.changed_at).where(passwords.c.user_id == big("user_id"))
# Held until the session is stored: a change of the password comes before it, or after it and ends that session too.
_hold = _find.with_for_update(read=True)
_set = (
    upsert(passwords)
    .values(user_id=big("user_id"), hash=sa.bindparam("hash"), changed_at=big("now"))
    .on_conflict_do_update(index_elements=["user_id"], set_={"hash": sa.bindparam("hash"), "changed_at": big("now")})
)
_renew = (
    sa.update(passwords)
    .where(passwords.c.user_id == big("user_id"), passwords.c.hash == sa.bindparam("old_hash"))
    .values(hash=sa.bindparam("new_hash"))
)

_threads = ThreadPoolExecutor(THREADS, "workhook-password")
_waiting = 0


def normal(password: str) -> str:
    """The same letters are the same password, however a keyboard composes them (NFC, RFC 8265)."""
    return unicodedata.normalize("NFC", password)


def faults_of(password: str, user: Account) -> list[str]:
    """Everything that speaks against this password for this user, in words; none: it is taken."""
    text = normal(password)
    found = []
    if len(text) < LENGTH_MIN:
        found.append(f"The password needs at least {LENGTH_MIN} characters.")
    if len(text) > LENGTH_MAX:
        found.append(f"The password can have at most {LENGTH_MAX} characters.")
    if "\0" in text or not _is_unicode(text):
        found.append("The password holds something that is no character.")
    plain = _plain(text)
    if plain in COMMONEST or _repeats(text.casefold()):
        found.append("This password is among the first that anybody would try.")
    if any(plain == own or (own in plain and len(plain) - len(own) <= 4) for own in _own_words(user)):
        found.append("The password must not be your login, name or e-mail address, or the name of this product.")
    return found


def _is_unicode(text: str) -> bool:
    """A terminal can hand over bytes that are no text."""
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
    """One or two characters over and over, or a row of digits or letters as they stand in their alphabet."""
    if len(set(text)) <= 2:
        return True
    around = 10 if text.isascii() and text.isdigit() else 0x110000  # 0 comes after 9
    steps = {(ord(after) - ord(before)) % around for before, after in pairwise(text)}
    return len(steps) == 1 and steps <= {1, around - 1}


async def make_hash(password: str) -> str:
    """Raises `Unavailable` where too many wait already."""
    return await _in_thread(lambda: _hasher().hash(normal(password)))


async def matches(stored: str | None, password: str) -> bool:
    """Whether the password is the one of the hash. None, nobody's: false, after the same work. Raises `Unavailable`."""
    return await _in_thread(lambda: _matches(stored, normal(password)))


def is_outdated(stored: str) -> bool:
    """It was made with other parameters than today's."""
    return _hasher().check_needs_rehash(stored)


def _matches(stored: str | None, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    nobody = _hash_of_nobody()  # also where it is not needed: whoever comes first must not be told apart
    try:
        right = _hasher().verify(nobody if stored is None else stored, password)
    except (VerificationError, InvalidHashError):
        return False
    return right and stored is not None


@cache
def _hasher() -> PasswordHasher:
    # Few processes ever see a password: the others do not pay for the library.
    from argon2 import PasswordHasher, Type

    return PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES, type=Type.ID)


@cache
def _hash_of_nobody() -> str:
    return _hasher().hash("a password that nobody has")


async def _in_thread(work: Callable[[], T]) -> T:
    global _waiting
    if _waiting >= WAITING_MAX:
        raise Unavailable("Too many people are signing in at this moment. Try again in some seconds.", retry_after_s=5)
    _waiting += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, work)
    finally:
        _waiting -= 1


async def hash_of(reader: Reader, user_id: int) -> str | None:
    """None: the user has no password."""
    row = await reader.fetch_one(_find, {"user_id": user_id})
    return None if row is None else str(row["hash"])


async def changed_at(reader: Reader, user_id: int) -> int:
    """When the password was changed; 0: the user has none."""
    row = await reader.fetch_one(_find_change, {"user_id": user_id})
    return 0 if row is None else int(row["changed_at"])


async def is_still(tx: Transaction, user_id: int, stored: str) -> bool:
    """Whether this is the user's hash, and stays so until the transaction ends."""
    row = await tx.fetch_one(_hold, {"user_id": user_id})
    return row is not None and row["hash"] == stored


async def store(tx: Transaction, user_id: int, new_hash: str) -> None:
    """Only the hash: `identity.signin.actions.set_password` does what goes with it."""
    await tx.execute(_set, {"user_id": user_id, "hash": new_hash, "now": now_ms()})


async def renew(tx: Transaction, user_id: int, old_hash: str, new_hash: str) -> None:
    """The same password by today's parameters, unless it was changed meanwhile."""
    params: dict[str, Any] = {"user_id": user_id, "old_hash": old_hash, "new_hash": new_hash}
    await tx.execute(_renew, params)
