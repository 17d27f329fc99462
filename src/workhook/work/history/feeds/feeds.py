"""Making, finding and ending calendar feeds.

The address of a feed holds a key, of which only a hash is stored: whoever knows the address reads the feed. What it
shows is decided anew each time, by the rights that its person has then. Where they have lost their place in the project
it is not found; nor is a feed of somebody who is disabled.
"""

from __future__ import annotations

import re
import secrets

import msgspec
import sqlalchemy as sa

from workhook.core.clock import HOUR_MS, now_ms
from workhook.core.errors import NotFound, TooManyRequests
from workhook.identity.context import Write
from workhook.identity.queries import account_columns
from workhook.identity.schemas import Account, account_of
from workhook.identity.tables import accounts, projects
from workhook.identity.tokens.issue import digest_of
from workhook.storage import Reader, Row
from workhook.storage.metadata import BigId, Millis, big, insert_into, metadata
from workhook.work.kernel.record_events import record_audit


class Feed(msgspec.Struct, frozen=True):
    """A feed of a person. `repository_id`: of the project whose tasks it has; None: it has the tasks that are assigned
    to the person, in whatever project. `created_at`: milliseconds since the epoch."""

    id: int
    repository_id: int | None
    created_at: int


# A feed belongs to a person, and to a project unless it has what is assigned to the person.
calendar_feeds = sa.Table(
    "calendar_feeds",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("user_id", sa.BigInteger, sa.ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False),
    sa.Column("repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE")),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the key in its address
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_calendar_feeds_user_id", "user_id", "repository_id"),
    sa.Index("ix_calendar_feeds_repository_id", "repository_id"),
    sqlite_autoincrement=True,
)


REQUESTS_MAX = 120
"""How often a feed can be read in an hour, in each process. Calendars ask a few times an hour."""
COUNTED_MAX = 10_000

_KEY_BYTES = 32
_KEY = re.compile(r"[A-Za-z0-9_-]{43}")  # what `secrets.token_urlsafe` makes of so many bytes

_feed = calendar_feeds.c
_columns = (_feed.id, _feed.repository_id, _feed.created_at)
_of_user = sa.select(*_columns).where(_feed.user_id == big("user_id"))
_insert = insert_into(calendar_feeds, "user_id", "repository_id", "digest", "created_at")
_by_key = (
    sa.select(
        *(each.label(f"feed_{each.name}") for each in _columns), projects.c.id.label("project_id"), *account_columns()
    )
    .join_from(calendar_feeds, accounts, accounts.c.id == _feed.user_id)
    .outerjoin(projects, projects.c.repository_id == _feed.repository_id)
    .where(
        _feed.digest == sa.bindparam("digest", type_=sa.LargeBinary()),
        accounts.c.kind == "user",
        accounts.c.disabled_at.is_(None),
    )
)
_mine = _of_user.where(_feed.repository_id == big("repository_id"))
_mine_assigned = _of_user.where(_feed.repository_id.is_(None))
_end = sa.delete(calendar_feeds).where(_feed.user_id == big("user_id"), _feed.repository_id == big("repository_id"))
_end_assigned = sa.delete(calendar_feeds).where(_feed.user_id == big("user_id"), _feed.repository_id.is_(None))


class FoundFeed(msgspec.Struct, frozen=True):
    """A feed that is read. `project_id`: of its project; None: it has what is assigned to `user`."""

    feed: Feed
    user: Account
    project_id: str | None


async def find_feeds(reader: Reader, user: Account, repository_id: int) -> tuple[Feed | None, Feed | None]:
    """The user's feed of the project, and that of what is assigned to them."""
    of_project = await reader.fetch_one(_mine, {"user_id": user.id, "repository_id": repository_id})
    assigned = await reader.fetch_one(_mine_assigned, {"user_id": user.id})
    return _feed_of(of_project), _feed_of(assigned)


async def renew_feed(write: Write, repository_id: int | None) -> str:
    """Make the caller's feed, of a project or (None) of what is assigned to them. Return the key of its address, which
    is seen only here. A feed that was there has ended."""
    await _end_feed(write, repository_id)
    key = secrets.token_urlsafe(_KEY_BYTES)
    values = {"user_id": write.actor.user.id, "repository_id": repository_id, "digest": digest_of(key)}
    await write.tx.execute(_insert, {**values, "created_at": write.now})
    await record_audit(write, write.actor.user, "calendar_feed.create", _target(repository_id))
    return key


async def end_feed(write: Write, repository_id: int | None) -> bool:
    """Whether there was one."""
    if not await _end_feed(write, repository_id):
        return False
    await record_audit(write, write.actor.user, "calendar_feed.destroy", _target(repository_id))
    return True


async def _end_feed(write: Write, repository_id: int | None) -> bool:
    user = {"user_id": write.actor.user.id}
    if repository_id is None:
        return await write.tx.execute(_end_assigned, user) > 0
    return await write.tx.execute(_end, {**user, "repository_id": repository_id}) > 0


async def require_feed(reader: Reader, key: str) -> FoundFeed:
    """The feed with this key. Raises `NotFound`, and `TooManyRequests` if it is read too often."""
    row = await reader.fetch_one(_by_key, {"digest": digest_of(key)}) if _KEY.fullmatch(key) else None
    if row is None:
        raise NotFound()
    feed = Feed(row["feed_id"], row["feed_repository_id"], row["feed_created_at"])
    _counts.hit(feed.id, now_ms())
    return FoundFeed(feed, account_of(row), row["project_id"])


def _feed_of(row: Row | None) -> Feed | None:
    return Feed(row["id"], row["repository_id"], row["created_at"]) if row is not None else None


def _target(repository_id: int | None) -> str:
    return "assigned" if repository_id is None else str(repository_id)


class _Counts:
    """How often each feed was read in its hour, in this process: a reader must not cause writes."""

    def __init__(self) -> None:
        self._hours: dict[int, tuple[int, int]] = {}  # feed → (when its hour ends, how often it was read)

    def hit(self, feed_id: int, now: int) -> None:
        """Raises `TooManyRequests`."""
        ends, count = self._hours.pop(feed_id, (0, 0))  # and to the end: the first is the one not read for longest
        if now >= ends:
            ends, count = now + HOUR_MS, 0
        if len(self._hours) >= COUNTED_MAX:
            del self._hours[next(iter(self._hours))]
        self._hours[feed_id] = (ends, min(count + 1, REQUESTS_MAX))
        if count >= REQUESTS_MAX:
            wait = {"Retry-After": str(max(1, (ends - now) // 1000))}
            raise TooManyRequests("The calendar was read too often. Try again later.", headers=wait)


_counts = _Counts()
