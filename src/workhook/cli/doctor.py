"""`workhook doctor` and `workhook mail`: checks of a server, with advice on fixing problems."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from workhook import bootstrap
from workhook.cli import queries
from workhook.cli.common import CONNECT_TIMEOUT_S, Context, base_address, command, first_value, new_app, revision
from workhook.cli.error_messages import FAILED, CliError, Misuse, explain, no_folder
from workhook.cli.options import Argument
from workhook.core import errors, log, open_telemetry
from workhook.core import vault as core_vault
from workhook.core.clock import host_ahead_ms, now_ms
from workhook.core.config import Settings
from workhook.core.limited_process import is_running
from workhook.core.mail_address import is_address
from workhook.http import system
from workhook.work.kernel import quota as counting

CLOCK_OFF_MS = 2000
LATE_MS = 60_000
NO_SERVER = "no server is running with this data folder"
NO_SCHEMA = "without a schema"


class Check(NamedTuple):
    """The result of one check. `advice` is shown only for a problem."""

    name: str
    ok: bool
    detail: str
    advice: str | None = None


@command(None, "doctor")
async def doctor(context: Context) -> int:
    """Check the data folder, the key, the database, and the queue. Reports problems and how to fix them."""
    log.configure("error")
    checks = [each async for each in _checks(context.settings)]
    healthy = all(check.ok for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'BAD '} {check.name}: {check.detail}")
        lines += [f"     {check.advice}"] if check.advice and not check.ok else []
    shown = [check._asdict() | ({"advice": None} if check.ok else {}) for check in checks]
    context.print_result({"ok": healthy, "checks": shown}, "\n".join(lines))
    return 0 if healthy else FAILED


async def _checks(settings: Settings) -> AsyncIterator[Check]:
    folder = _folder(settings)
    yield folder
    yield _space(settings)
    if folder.ok and (settings.data.is_dir() or settings.files_url):
        yield await _files(settings)
    database = await _database(settings)
    sealed = await _sealed(settings) if database.ok else None
    key = _key(settings, sealed)
    yield key
    if not key.ok and database.detail.endswith(NO_SCHEMA):  # most likely, this user cannot read the data either
        database = database._replace(advice=key.advice)
    yield database
    server = await asyncio.to_thread(_server, settings)
    if database.ok and key.ok and sealed is not None:  # a server has run before; otherwise opening would create a key
        yield await _waiting(settings, server)
        if settings.organization_max_mb or settings.organization_max_rows:
            yield await _quotas(settings)
        if abs(ahead_ms := host_ahead_ms()) > CLOCK_OFF_MS:
            way = "ahead of" if ahead_ms > 0 else "behind"
            detail = f"{abs(ahead_ms) / 1000:,.1f} s {way} the database's"
            yield Check("clock", False, detail, "Synchronize the clocks of both hosts with NTP.")
    yield server
    if settings.smtp_url is not None:
        yield await _mail(settings.smtp_url)
    if (variable := open_telemetry.enabling_variable()) is not None:
        wrong = open_telemetry.fault()
        yield Check("traces", wrong is None, variable if wrong is None else "none are sent", wrong or "")


async def _mail(url: str) -> Check:
    from workhook.core.mail_address import parse_smtp_url
    from workhook.delivery.mail import smtp

    server = parse_smtp_url(url)
    try:
        await smtp.SmtpConnection(server, CONNECT_TIMEOUT_S).check()
    except smtp.TROUBLE as error:
        return Check(
            "mail", False, smtp.describe_error(error, server), "Check WORKHOOK_SMTP_URL: workhook mail test ADDRESS"
        )
    return Check("mail", True, f"{server.host}:{server.port} answers")


def _folder(settings: Settings) -> Check:
    data = settings.data.absolute()
    if not data.is_dir():
        if settings.sqlite_path is None and settings.secret_key:  # nothing must be stored there
            return Check("data folder", True, f"{data} will be created by the server", "")
        if (wrong := no_folder(data)) is not None:
            return Check("data folder", False, wrong, "Set --data or WORKHOOK_DATA to another folder.")
        return Check("data folder", False, f"{data} does not exist", "Start the server once, or set --data.")
    usable = os.access(data, os.R_OK | os.W_OK | os.X_OK)
    return Check("data folder", usable, str(data), "Give the user that runs Workhook read and write access.")


def _space(settings: Settings) -> Check:
    if (wrong := system.space_fault(settings)) is not None:
        advice = "Free some space, or keep deliveries for fewer days (WORKHOOK_RETENTION_DAYS)."
        return Check("disk", False, wrong, advice)
    free = min(map(system.free_bytes, system.written_folders(settings)))
    return Check("disk", True, f"{free // 1024**2:,} MiB free")


async def _files(settings: Settings) -> Check:
    blobs = bootstrap.open_blobs(settings.data, settings.files_url)
    where = settings.files_url or str(blobs.folder.absolute())
    try:
        await blobs.check()
    except errors.Unavailable as error:
        own = "Give the server write access to this folder."
        advice = "Check WORKHOOK_FILES_URL and the AWS_… variables." if settings.files_url else own
        return Check("files", False, f"{where}: {error}", advice)
    finally:
        blobs.close()
    return Check("files", True, where)


async def _sealed(settings: Settings) -> bytes | None:
    """Return the value that the first start encrypted with the key, or None."""
    try:
        found: bytes | None = await first_value(settings, "SELECT sealed FROM key_check")
        return found
    except Exception as error:
        if explain(error, settings) is None:
            raise
        return None


def _key(settings: Settings, sealed: bytes | None) -> Check:
    path = settings.data / core_vault.KEY_FILE
    back = "Restore the file from a backup: secrets are encrypted with it."
    if settings.secret_key:
        back, where = "Set the key that belongs to this database: WORKHOOK_SECRET_KEY.", "from the settings"
    elif path.exists() or sealed is not None:
        where = str(path)
    else:
        return Check("key", True, "created at the first start")
    try:
        vault: core_vault.Vault = core_vault.open_vault(settings.data, settings.secret_key, make=False)
        vault.open(sealed)
        mode = 0 if settings.secret_key else path.stat().st_mode & 0o777
    except (OSError, core_vault.VaultError) as error:
        lines = explain(error, settings) or [str(error)]
        unreadable = isinstance(error, OSError) and not isinstance(error, FileNotFoundError)
        return Check("key", False, lines[0], f"Give this user read access to {path}." if unreadable else back)
    if settings.secret_key:
        return Check("key", True, where)
    return Check("key", not mode & 0o077, f"{where}, mode {mode:04o}", f"Others can read it: chmod 600 {path}")


async def _database(settings: Settings) -> Check:
    from workhook.storage import migrate as migrations

    kind = "SQLite" if settings.sqlite_path else "PostgreSQL"
    try:
        found = await revision(settings)
    except Exception as error:
        lines = explain(error, settings)
        if lines is None:
            raise
        return Check("database", False, lines[0] if lines[0].startswith(kind) else f"{kind}: {lines[0]}", lines[-1])
    if found is None:
        other = ", or set WORKHOOK_DATABASE_URL if this server uses PostgreSQL" if settings.sqlite_path else ""
        return Check("database", False, f"{kind} {NO_SCHEMA}", f"Run `workhook migrate`{other}.")
    if (why := migrations.refusal_reason(found, settings.sqlite_path, settings.database_url)) is not None:
        return Check("database", False, f"{kind}, cannot be used", why)
    if found not in migrations.known_revisions():
        return Check("database", False, f"{kind}, schema {found} of a newer version", "Install the newer Workhook.")
    path = settings.sqlite_path
    if path is not None and (mode := path.stat().st_mode & 0o777) & 0o077:
        return Check("database", False, f"{path}, mode {mode:04o}", f"Others can read it: chmod 600 {path}*")
    return Check("database", found == migrations.HEAD, f"{kind}, schema {found}", "Run `workhook migrate`.")


async def _waiting(settings: Settings, server: Check) -> Check:
    try:
        async with bootstrap.open_services(settings) as services:
            number, oldest = await queries.waiting(services.database)
    except Exception as error:
        lines = explain(error, settings)
        if lines is None:
            raise
        return Check("deliveries", False, lines[0], lines[-1])
    late_ms = max(0, now_ms() - oldest) if oldest is not None else 0
    detail = f"{number} waiting" + (f", the oldest {late_ms // 1000} s late" if late_ms > LATE_MS else "")
    runs = server.ok and server.detail != NO_SERVER
    advice = (
        "Start `workhook worker` if the server runs as `workhook serve --no-worker`, or raise WORKHOOK_CONCURRENCY."
        if runs
        else "Start a server or a worker. If one is running elsewhere, check its log, or start more workers."
    )
    return Check("deliveries", late_ms <= LATE_MS, detail, advice)


async def _quotas(settings: Settings) -> Check:
    bootstrap.import_tables()  # so that no table is missed
    limits, full, unknown = counting.Limits.of(settings), list[str](), list[str]()
    async with bootstrap.open_services(settings) as services:
        for account in await queries.owning(services.database):
            try:
                part = limits.part(await counting.count(services.database, account.id))
            except errors.Unavailable:
                unknown.append(f"{account.login} (not counted in time)")
                continue
            if part >= counting.NEARLY:
                full.append(f"{account.login} {part:.0%}")
    advice = "Raise organization_max_mb or organization_max_rows, or ask their owners to delete what is not needed."
    return Check("quotas", not full, ", ".join(full + unknown) or f"all below {counting.NEARLY:.0%}", advice)


def _server(settings: Settings) -> Check:
    """Check that the process in `server.json`, which Git hooks and commands use, is alive and responds."""
    import http.client
    import json

    path = settings.data / "server.json"
    try:
        known = json.loads(path.read_bytes())
        url, pid = str(known["url"]), int(known["pid"])
        host, port = urlsplit(url).hostname or "", urlsplit(url).port
    except (FileNotFoundError, NotADirectoryError):
        return Check("server", True, NO_SERVER)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Check("server", False, f"{path}: {error}", "Restart the server to recreate the file.")
    try:
        connection = http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_S)
        try:
            connection.request("GET", "/healthz")
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:  # `ValueError`: an invalid name
        state = "is running" if is_running(pid) else "has ended"
        detail = f"{url} does not answer ({error or 'no answer in time'}); its process {pid} {state}"
        advice = "Check its log." if is_running(pid) else f"Start the server, or remove {path} if none should run here."
        return Check("server", False, detail, advice)
    advice = f"Another program responds there. If no server is running, remove {path}."
    return Check("server", status == 200, f"{url} answers {status}, process {pid}", advice)


# --- e-mail -----------------------------------------------------------------------------------------------------------

mail = new_app("Test e-mail.")

NOT_SET = "Set WORKHOOK_SMTP_URL and WORKHOOK_MAIL_FROM, such as smtps://USER:PASSWORD@mail.example.com."
_REMEDIES = {
    "bounced": "Check the address, or ask the mail server's administrator.",
    "refused": "Ask the mail server's administrator. Often, WORKHOOK_MAIL_FROM is not one of its addresses.",
    "retry": "Check WORKHOOK_SMTP_URL and WORKHOOK_MAIL_FROM, and rerun the command.",
}


@command(mail, "test")
async def send_trial(
    context: Context, *, address: Annotated[str, Argument("ADDRESS", "Recipient of the message.")]
) -> None:
    """Send a test message to verify the e-mail settings, and show whether the mail server accepted it."""
    settings = context.settings
    if settings.smtp_url is None or settings.mail_from is None:
        raise CliError("no mail server is configured.", NOT_SET)
    if not is_address(address):
        raise Misuse(f"{address} is not an e-mail address.", "Use one such as ada@example.com.")
    from workhook.core.mail_address import parse_sender, parse_smtp_url
    from workhook.delivery.mail.smtp import WORDS, SmtpConnection
    from workhook.web.mail import trial_letter, write_message

    now = now_ms()
    sender, name = parse_sender(settings.mail_from), f"workhook.test.{now}"
    connection = SmtpConnection(parse_smtp_url(settings.smtp_url))
    try:
        outcome = await connection.send(write_message(trial_letter(base_address(settings)), sender, address, name, now))
    finally:
        await connection.close()
    if outcome.result != "sent":
        reason = "The mail server cannot be used." if outcome.is_trouble else WORDS[outcome.result]
        raise CliError(f"{reason} {outcome.reply}", _REMEDIES[outcome.result])
    data = {"address": address, "sent": True}
    sentence = f"the mail server accepted a message to {address}; check the inbox and the spam folder"
    context.print_result(data, sentence)
