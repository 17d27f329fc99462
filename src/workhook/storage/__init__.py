"""One transaction interface over SQLite and PostgreSQL. Their differences are in `dialects` and the two engines."""

from workhook.storage.database import Database, Reader, Row, Transaction
from workhook.storage.metadata import metadata

__all__ = ["Database", "Reader", "Row", "Transaction", "metadata"]
