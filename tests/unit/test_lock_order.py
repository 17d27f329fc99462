"""Statements that lock several rows follow the common locking order (decision 13)."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from workhook.hooks import actions


@pytest.mark.parametrize(
    ("statement", "tables"),
    [(actions._lock_ownership, "memberships JOIN accounts"), (actions._lock_admin, "collaborators JOIN accounts")],
    ids=["owner", "admin"],
)
def test_a_right_is_locked_before_its_user(statement: sa.Select[Any], tables: str) -> None:
    """PostgreSQL locks in the order of FROM, and revoking a right also locks the right first."""
    text = " ".join(str(statement.compile(dialect=postgresql.dialect())).split())  # type: ignore[no-untyped-call]  # as SQLAlchemy types it
    assert f"FROM {tables}" in text
    assert text.endswith("FOR SHARE")
