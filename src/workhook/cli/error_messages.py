"""Error messages for people at the terminal, with remedies."""

from __future__ import annotations

import errno
import os
import pwd
import socket
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from workhook.core import errors, vault
from workhook.core.config import Settings
from workhook.git_push import install

FAILED, MISUSED = 1, 2


class CliError(errors.OperatorError):
    status = FAILED


class Misuse(CliError):
    status = MISUSED


def explain(error: Exception, settings: Settings | None, option: str | None = None) -> list[str] | None:
    """Return lines that explain an error, its place and its remedy, or None for a bug in the program.

    `option`: the argument that names the database of `settings`, if it is not --data or --database-url.
    """
    if isinstance(error, errors.OperatorError):
        return [error.message, error.remedy]
    from workhook.storage.database import UniqueViolation
    from workhook.storage.migrate import NewerSchema

    if isinstance(error, errors.Problem) and error.status < 500:
        return [fault.message or f"{fault.field} is {fault.code}" for fault in error.faults] or [error.message]
    if isinstance(error, errors.Problem):
        cause = _the_databases(error.__cause__, settings, option) if error.__cause__ else None
        text = error.message.removeprefix("The database cannot be used right now").strip(" :.")
        return cause or [f"{_database(settings)}: {text or 'it cannot be used right now'}.", _remedy(settings, option)]
    if isinstance(error, NewerSchema | install.InstallError):
        return [f"{str(error).rstrip('.')}."]
    if isinstance(error, vault.VaultError):
        return _the_key(error, settings)
    if isinstance(error, UniqueViolation):
        return ["another process created the same record at the same time.", "Rerun the command."]
    return _the_databases(error, settings, option)


def not_together(option: dict[str, bool]) -> None:
    """Raise `Misuse` if all of these options, keyed by flag, were given."""
    if all(option.values()):
        raise Misuse(f"{' and '.join(option)} cannot be combined.", "Use only one of them.")


def no_folder(path: Path) -> str | None:
    """Return what exists in place of the folder or one of its parents, or None."""
    for each in (path.absolute(), *path.absolute().parents):
        if os.path.isdir(each):  # False for folders that this user may not access
            return None
        if os.path.lexists(each):
            return f"{each} is not a folder"
    return None


def is_disk_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def disk_full_error(folder: Path, kept: str = "") -> CliError:
    """Return the error for a full disk. `kept`: an exception to the advice to delete the folder."""
    return CliError(
        f"{folder}: no space left on the disk.", f"Free some space, delete the folder{kept}, and rerun the command."
    )


def missing_data_error(settings: Settings) -> CliError:
    if settings.database_url is None and (wrong := no_folder(settings.data)) is not None:
        return CliError(f"{wrong}.", "Set --data or WORKHOOK_DATA to another folder.")
    if settings.database_url is None:
        place, flag = str(settings.data.absolute()), "--data or WORKHOOK_DATA"
    else:
        place, flag = _database(settings), "--database-url or WORKHOOK_DATABASE_URL"
    return CliError(f"{place} contains no Workhook data.", f"Check {flag}, or run `workhook setup`.")


def missing_key_error(settings: Settings) -> CliError:
    text = f"{settings.data.absolute()} contains no Workhook data, and therefore no key for {_database(settings)}."
    return CliError(text, "Set --data or WORKHOOK_DATA, or set WORKHOOK_SECRET_KEY to the key.")


def _database(settings: Settings | None) -> str:
    if settings is None:
        return "the database"
    if settings.sqlite_path is not None:
        return str(settings.sqlite_path.absolute())
    try:
        parts = urlsplit(settings.database_url or "")
        asked = parse_qs(parts.query)
        host = parts.hostname or asked.get("host", ["localhost"])[0]
        return f"PostgreSQL at {host}:{parts.port or asked.get('port', ['5432'])[0]}"
    except ValueError:
        return "the database of that URL"


def path_remedy() -> str:
    """Return advice for a path that the process may not use. It names the user, because sudo often changes it."""
    user = os.geteuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:  # in a container with an arbitrary user
        name = str(user)
    return f"Check the path and the permissions of the user {name}."


def _remedy(settings: Settings | None, option: str | None) -> str:
    if settings is not None and settings.sqlite_path is None:
        named = option or "--database-url (WORKHOOK_DATABASE_URL)"
        return f"Check {named}, that PostgreSQL is running there, and that it accepts this user."
    flag = "--database-url" if settings is not None and settings.database_url else "--data (WORKHOOK_DATA)"
    return f"Check {option or flag}, and that this user can write there."


def _the_key(error: vault.VaultError, settings: Settings | None) -> list[str]:
    text = str(error).removesuffix("Restore the right file.").strip(" .")
    if settings is not None and settings.secret_key:
        return [f"{text.replace(vault.KEY_FILE, 'WORKHOOK_SECRET_KEY')}.", "Set the key that belongs to this database."]
    if settings is not None and str(settings.data) not in text:
        text = text.replace(vault.KEY_FILE, str(settings.data.absolute() / vault.KEY_FILE))
    return [f"{text}.", "Restore the key that belongs to this database, as the file or in WORKHOOK_SECRET_KEY."]


# Errors that the user can fix; any other database error is a bug in the program.
_SQLITE = ("BUSY", "CANTOPEN", "CORRUPT", "FULL", "IOERR", "LOCKED", "NOTADB", "PERM", "READONLY")
_POSTGRESQL = ("08", "25", "28", "3D", "42501", "53", "57", "58")  # prefixes of SQLSTATE


def _the_databases(error: BaseException | None, settings: Settings | None, option: str | None) -> list[str] | None:
    origin = type(error).__module__.partition(".")[0]
    if origin == "sqlalchemy":
        return _the_databases(getattr(error, "orig", None), settings, option)
    if isinstance(error, OSError):
        return _the_system(error, settings, option)
    if origin == "sqlite3":
        code = str(getattr(error, "sqlite_errorname", "")).removeprefix("SQLITE_")
        mendable: tuple[str, ...] = _SQLITE
    elif origin == "asyncpg":
        code, mendable = str(getattr(error, "sqlstate", "")), _POSTGRESQL
    else:
        return None
    if not code.startswith(mendable):
        return None
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    remedy = _remedy(settings, option)
    if code.startswith(("NOTADB", "CORRUPT")):
        remedy = f"Set {option or '--data or --database-url'} to a Workhook database, or restore a backup."
    elif "unsupported startup parameter" in text:
        remedy = (
            "Behind a pooler such as PgBouncer, set WORKHOOK_DATABASE_SESSION_URL to the URL of PostgreSQL itself, "
            "and WORKHOOK_DATABASE_URL instead of --database-url."
        )
    elif code == "42501":
        remedy = "The role must own the database."
    elif code.startswith(("FULL", "53100")):
        remedy = "Free some space on its disk, and rerun the command."
    return [f"{_database(settings)}: {text}.", remedy]


def _the_system(error: OSError, settings: Settings | None, option: str | None) -> list[str]:
    if isinstance(error, FileExistsError | NotADirectoryError) and option is None and settings is not None:
        wrong = no_folder(settings.data)
        if wrong is not None:
            return [f"{wrong}.", "Set --data or WORKHOOK_DATA to another folder."]
    if error.filename is not None:
        place, text = Path(os.fsdecode(error.filename)), (error.strerror or type(error).__name__).rstrip(".")
        if isinstance(error, PermissionError) and not os.path.lexists(place):
            place = place.parent  # a new file or folder could not be created there
        below = settings is not None and option is None and place.is_relative_to(settings.data)
        place, remedy = place.absolute(), path_remedy()
        if below or settings is None:
            remedy = _remedy(settings, option)
        return [f"{place}: {text}.", remedy]
    if is_disk_full(error):  # databases have their own errors for this
        text = (error.strerror or type(error).__name__).rstrip(".")
        return [f"{text}.", "Free some space where the command or its output is written, and rerun it."]
    text = " ".join(str(error).split()).rstrip(".")
    if "Connect call failed" in text:
        refused = f"[Errno {errno.ECONNREFUSED}]"  # also in the text of combined errors, which have no errno
        text = "connection refused" if isinstance(error, ConnectionRefusedError) or refused in text else "no connection"
    elif isinstance(error, TimeoutError):
        text = "no answer in time"
    elif isinstance(error, socket.gaierror):
        text = error.strerror or text
    return [f"{_database(settings)}: {text or type(error).__name__}.", _remedy(settings, option)]
