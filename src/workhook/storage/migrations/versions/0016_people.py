"""Indexes for narrowed lists of hooks, members and the audit log; and deliveries that were recorded late before 0011
get their mark. PostgreSQL does it while others go on; what is interrupted begins again, and finds most of it done.
"""

import sqlalchemy as sa
import structlog
from alembic import op

from workhook.storage.online import beside_others, create_index

revision = "0016"
down_revision = "0015"

LATE_MS = 5_000  # `hooks.history` marks what is recorded so much later than it was delivered
BATCH = 5_000
TELL_EVERY = 200  # batches

log = structlog.get_logger("workhook.storage.online")

_row = sa.table(
    "deliveries",
    sa.column("id", sa.BigInteger()),
    sa.column("delivered_at", sa.BigInteger()),
    sa.column("recorded_at", sa.BigInteger()),
)
_batch = (
    sa.select(_row)
    .where(_row.c.id > sa.bindparam("after", type_=sa.BigInteger()))
    .order_by(_row.c.id)
    .limit(BATCH)
    .subquery("batch")
)
_newest = sa.func.max(_batch.c.delivered_at)
_ends = sa.select(sa.func.max(_batch.c.id).label("id"), _newest.label("newest"))
_seen = sa.select(_batch, _newest.over(order_by=_batch.c.id).label("newest")).subquery("seen")
_late = sa.select(_seen.c.id).where(
    _seen.c.recorded_at.is_(None),
    sa.or_(
        _seen.c.delivered_at < _seen.c.newest - LATE_MS,
        _seen.c.delivered_at < sa.bindparam("before", type_=sa.BigInteger()) - LATE_MS,
    ),
)
_mark = (
    sa.update(_row)
    .where(_row.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(recorded_at=sa.bindparam("about", type_=sa.BigInteger()))
)


def upgrade() -> None:
    with beside_others():
        _mark_late()
    create_index("ix_hooks_organization", "hooks", ["account_id", "id"], where="repository_id IS NULL")
    create_index("ix_hooks_app", "hooks", ["account_id", "id"], where="app_id IS NOT NULL")
    create_index("ix_memberships_role", "memberships", ["organization_id", "role", "user_id"])
    create_index(
        "ix_audit_log_repository_actor", "audit_log", ["account_id", "repository_id", "actor_id", "action", "id"]
    )


def _mark_late() -> None:
    """Ids tell the order in which deliveries were recorded. One that was delivered long before another with a lower id
    was recorded late; about when is told by the newest that was recorded before."""
    bind = op.get_bind()
    last = bind.execute(sa.select(sa.func.max(_row.c.id))).scalar() or 0
    after = newest = marked = batches = 0
    while (end := bind.execute(_ends, {"after": after}).one()).id is not None:
        late = bind.execute(_late, {"after": after, "before": newest}).scalars().all()
        newest, after = max(newest, end.newest), end.id
        if late:
            bind.execute(_mark, {"ids": list(late), "about": newest})
        marked, batches = marked + len(late), batches + 1
        if batches % TELL_EVERY == 0:
            log.info("marking_late_deliveries", percent=min(after * 100 // max(last, 1), 100), marked=marked)
