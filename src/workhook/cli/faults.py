"""Errors in the words of whoever sits at the terminal."""

from __future__ import annotations


class CliError(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


def explain(error: Exception) -> list[str] | None:
    """Lines that say what is wrong and how to mend it; None for a fault of the program."""
    if isinstance(error, CliError):
        return [error.message, error.remedy]
    return _ours(error) or _the_databases(error)


def _ours(error: Exception) -> list[str] | None:
    from workhook.cli.git_push.install import InstallError
    from workhook.core.errors import CannotStart, Problem
    from workhook.core.vault import VaultError
    from workhook.storage.database import UniqueViolation
    from workhook.storage.migrate import NewerSchema

    if isinstance(error, Problem) and error.status < 500:
        return [fault.message or f"{fault.field} is {fault.code}" for fault in error.faults] or [error.message]
    if isinstance(error, Problem):
        return [error.message, "Check --data or --database-url, and that the database runs and can be written."]
    if isinstance(error, CannotStart):
        return [error.message, error.remedy]
    if isinstance(error, NewerSchema | InstallError):
        return [str(error)]
    if isinstance(error, VaultError):
        return [str(error), "Put back the secret.key (or WORKHOOK_SECRET_KEY) that belongs to this database."]
    if isinstance(error, UniqueViolation):
        return ["somebody else made the same thing at the same moment.", "Run the command again."]
    return None


# What the one who runs the command can mend; any other error of a database is a fault of the program.
_SQLITE = ("BUSY", "CANTOPEN", "CORRUPT", "FULL", "IOERR", "LOCKED", "NOTADB", "PERM", "READONLY")
_POSTGRESQL = ("08", "25", "28", "3D", "42501", "53", "57", "58")  # beginnings of SQLSTATE


def _the_databases(error: BaseException | None) -> list[str] | None:
    """What the operating system and the databases say."""
    origin = type(error).__module__.partition(".")[0]
    if origin == "sqlalchemy":
        return _the_databases(getattr(error, "orig", None))
    code = ""
    mendable: tuple[str, ...] = ("",)  # every error of the operating system
    if origin == "sqlite3":
        code, mendable = str(getattr(error, "sqlite_errorname", "")).removeprefix("SQLITE_"), _SQLITE
    elif origin == "asyncpg":
        code, mendable = str(getattr(error, "sqlstate", "")), _POSTGRESQL
    elif not isinstance(error, OSError):
        return None
    if not code.startswith(mendable):
        return None
    said = " ".join(str(error).split()) or type(error).__name__
    return [said, "Check --data and --database-url; `workhook doctor` looks at both."]
