"""One transaction interface over SQLite and PostgreSQL. Every difference of the two is in `dialects` and in its engine."""

from workhook.storage.database import Database, Reader, Row, Transaction
from workhook.storage.metadata import metadata

__all__ = ["Database", "Reader", "Row", "Transaction", "metadata"]
