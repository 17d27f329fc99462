"""`workhook user`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from workhook.cli import common, queries
from workhook.cli.common import Context, command, get_enabled_user, get_user, new_app
from workhook.cli.doctor import NOT_SET
from workhook.cli.error_messages import CliError, Misuse
from workhook.cli.options import Argument, Flag, Option
from workhook.cli.output import confirm_deletion, format_time
from workhook.core.clock import now_ms
from workhook.core.errors import Invalid
from workhook.identity import actions, administrators, audit
from workhook.identity.mail import links as mail_links
from workhook.identity.mail import recipients
from workhook.identity.signin import identities, passwords, sessions

if TYPE_CHECKING:
    from workhook.identity.tables import LinkKind
    from workhook.storage import Transaction

app = new_app("Manage user accounts.")

_STANDARD_INPUT = Path("-")
_MAIL_KINDS: dict[str, LinkKind] = {"sign_in": "sign_in_link", "set_password": "password_link"}


@command(app, "add")
async def add(
    context: Context,
    *,
    login: Annotated[str, Option("LOGIN", "1 to 39 letters, digits, and single hyphens.")],
    email: Annotated[str, Option("ADDRESS", "E-mail address.")],
    name: Annotated[str | None, Option("NAME", "Full name.")] = None,
) -> None:
    """Add a user."""
    async with context.transaction() as tx:
        user = await actions.create_account(tx, "user", login, name=name, email=email)
        await audit.record(tx, None, "user.create", user.login, account_id=user.id)
    created_at = format_time(user.created_at)
    data = {"id": user.id, "login": user.login, "email": email, "name": name, "created_at": created_at}
    data |= {"disabled_at": None}  # as shown by `user list`
    context.print_result(data, f"added the user {user.login}")


@command(app, "list")
async def list_users(context: Context) -> None:
    """List the users, oldest first."""
    async with context.services() as services:
        users = await queries.users(services.database)
    rows = [
        {
            "id": each.id,
            "login": each.login,
            "email": each.email,
            "name": each.name,
            "created_at": format_time(each.created_at),
            "disabled_at": format_time(disabled_at),
        }
        for each, disabled_at in users
    ]
    none = "No users yet. Create one with `workhook user add`."
    columns = ["login", "email", "name", "created_at"]
    if any(row["disabled_at"] for row in rows):
        columns.append("disabled_at")
    context.print_rows(rows, columns, none=none)


_Login = Annotated[str, Argument("LOGIN", "The user.")]


@command(app, "disable")
async def disable(context: Context, *, login: _Login) -> None:
    """Lock out a user. Within a second, every process rejects the user's tokens, sessions and password.

    Event streams are closed and running timers are stopped. The user's work is kept. The last owner of an organization
    cannot be disabled.
    """
    base = common.base_address(context.settings)
    async with context.transaction() as tx:
        user = await get_user(tx, login)
        try:
            done = await actions.disable(tx, user, base=base)
        except actions.LastOwner as error:
            raise _last_owner(user.login, error.organizations) from error
    disabled_at = format_time(done.at)
    state = "is disabled" if done.changed else "was already disabled"
    data = {"login": user.login, "disabled_at": disabled_at, "changed": done.changed}
    context.print_result(data, f"{user.login} {state}, since {disabled_at}")


def _last_owner(login: str, organizations: list[str]) -> CliError:
    message = f"{login} is the last owner of {', '.join(organizations)} who is not disabled."
    remedies = [f"workhook member add --organization {each} --user LOGIN --role owner" for each in organizations]
    return CliError(message, "\n".join(["Make someone else an owner first:", *remedies]))


@command(app, "enable")
async def enable(context: Context, *, login: _Login) -> None:
    """Re-enable a disabled user. Previous tokens and the password become valid again."""
    async with context.transaction() as tx:
        user = await get_user(tx, login)
        changed = await actions.enable(tx, user)
    data = {"login": user.login, "disabled_at": None, "changed": changed}
    context.print_result(data, f"{user.login} is enabled" if changed else f"{user.login} was not disabled")


@command(app, "delete", settings=(*common.COMMON_SETTINGS, "base_url"))
async def delete(
    context: Context,
    *,
    login: _Login,
    yes: Annotated[bool, Flag("Do not ask for confirmation. Scripts need this.")] = False,
) -> None:
    """Delete a user's account. This cannot be undone.

    The name, addresses, password, tokens, and memberships are deleted. The user's work is kept and attributed to a
    former member. The last owner of an organization cannot be deleted, nor can users with projects of their own.
    """
    from workhook.identity.context import Write
    from workhook.work.administration.accounts import remove_user

    common.every_table()
    async with context.services() as services:
        user = await get_user(services.database, login)
        if not yes:
            confirm_deletion(user.login)
        base = common.base_address(context.settings)
        try:
            await services.database.in_transaction(lambda tx: remove_user(Write(tx, None, base), user.login))
        except actions.LastOwner as error:
            raise _last_owner(user.login, error.organizations) from error
    context.print_result({"login": user.login, "deleted": True}, f"deleted the account of {user.login}")


@command(app, "admin")
async def admin(context: Context, *, login: _Login, remove: Annotated[bool, Flag("Revoke the role.")] = False) -> None:
    """Make a user a server administrator, or revoke that role.

    An administrator adds people and organizations, disables users, and deletes accounts, in the web app and through the
    API. Administrators do not gain access to organizations. The last administrator cannot be removed.
    """
    async with context.transaction() as tx:
        user = await get_user(tx, login) if remove else await get_enabled_user(tx, login)
        try:
            changed = await (administrators.dismiss(tx, user) if remove else administrators.appoint(tx, user))
        except Invalid as error:
            raise CliError(f"{error.faults[0].message}.", "Run `workhook user admin LOGIN`.") from error
    state = "not an administrator" if remove else "an administrator"
    data = {"login": user.login, "administrator": not remove, "changed": changed}
    context.print_result(data, f"{user.login} is {state}{'' if changed else ', as before'}")


@command(app, "sign-in-link")
async def sign_in_link(
    context: Context,
    *,
    login: Annotated[str, Option("LOGIN", "User to sign in.")],
    minutes: Annotated[int, Option("N", "Minutes until it expires.", between=(1, 10080))] = 15,
    mail: Annotated[bool, Flag("Also send it to the user's e-mail address.")] = False,
) -> None:
    """Create a single-use link that signs a user in.

    It also works for users without a password, and while sign-in is paused after wrong passwords.
    """
    await _link(context, login, sessions.SIGN_IN, minutes, mail)


@command(app, "password-link")
async def password_link(
    context: Context,
    *,
    login: Annotated[str, Option("LOGIN", "User whose password the link sets.")],
    minutes: Annotated[int, Option("N", "Minutes until it expires.", between=(1, 10080))] = 60,
    mail: Annotated[bool, Flag("Also send it to the user's e-mail address.")] = False,
) -> None:
    """Create a single-use link for setting a password. Setting it signs the user out everywhere else."""
    await _link(context, login, sessions.SET_PASSWORD, minutes, mail)


async def _link(context: Context, login: str, purpose: str, minutes: int, mail: bool) -> None:
    if mail and context.settings.smtp_url is None:
        raise CliError("no mail server is configured.", NOT_SET)
    async with context.services() as services, services.database.transaction() as tx:
        user = await get_enabled_user(tx, login)
        address = await _address_of(tx, user.id, login) if mail else None
        link = await sessions.create_link(tx, user.id, purpose, minutes=minutes)
        detail = {"purpose": purpose, "minutes": minutes}
        await audit.record(tx, None, "user.link_create", user.login, account_id=user.id, detail=detail)
        if address is not None:
            kind = _MAIL_KINDS[purpose]
            await mail_links.queue_own_link(
                tx, services.vault, user.id, kind, link.path, expires_at=link.expires_at, now=now_ms()
            )
    url = f"{common.base_address(context.settings)}{link.path}"
    expires_at = format_time(link.expires_at)
    data = {"login": user.login, "url": url, "purpose": purpose, "expires_at": expires_at, "mailed_to": address}
    sent = f"\nthe server will e-mail it to {address}" if address else ""
    context.print_result(data, f"{url}\nvalid once, for {user.login}, until {expires_at}{sent}")


async def _address_of(tx: Transaction, user_id: int, login: str) -> str:
    recipient = await recipients.find_recipient(tx, user_id)
    if recipient is None or not recipient.address:
        raise CliError(
            f"{login} has no e-mail address.", "Rerun the command without --mail, and send the link yourself."
        )
    if recipient.bounce:
        raise CliError(
            f"a mail server rejected the address of {login}: {recipient.bounce}",
            "Rerun the command without --mail, and send the link yourself.",
        )
    return recipient.address


@command(app, "set-password")
async def set_password(
    context: Context,
    *,
    login: Annotated[str, Option("LOGIN", "User whose password to set.")],
    password_file: Annotated[
        Path | None,
        Option("FILE", "Read the password from the first line of this file; - for standard input. Default: prompt."),
    ] = None,
) -> None:
    """Set a user's password, and sign the user out everywhere.

    The password is never passed as an option, because other users of the machine can see the options of a command.
    """
    async with context.services() as services:
        user = await get_user(services.database, login)
        password = _prompt_password() if password_file is None else _first_line(password_file)
        hashed = await passwords.new_hash(password, user)
        async with services.database.transaction() as tx:
            await passwords.set_password(tx, user, hashed)
            await audit.record(
                tx, None, "user.password_change", user.login, account_id=user.id, detail={"how": "command"}
            )
    context.print_result({"login": user.login, "password_set": True}, f"set the password of {user.login}")


@command(app, "link-identity")
async def link_identity(
    context: Context,
    *,
    login: Annotated[str, Option("LOGIN", "User who signs in with this identity.")],
    subject: Annotated[str, Option("TEXT", "The provider's `sub` for that person, exactly; not an address or name.")],
    issuer: Annotated[str | None, Option("URL", "Issuer URL of the provider. Default: oidc_issuer.")] = None,
) -> None:
    """Let a user sign in with an account of the OpenID Connect provider.

    Use this for people whose e-mail address the provider has not verified. Running it again changes nothing.
    """
    provider = issuer or context.settings.oidc_issuer
    if not provider:
        raise Misuse("--issuer is missing, and oidc_issuer is not set.", "Set it to the provider's own issuer URL.")
    if not subject.strip() or not subject.isprintable() or len(subject) > identities.SUBJECT_MAX_CHARS:
        most = identities.SUBJECT_MAX_CHARS
        raise Misuse(f"--subject {subject} is not a valid subject.", f"A subject has 1 to {most} printable characters.")
    async with context.transaction() as tx:
        user = await get_user(tx, login)
        linked = await identities.link(tx, user, provider, subject)
        if linked:
            detail = {"issuer": provider, "subject": subject, "how": "command"}
            await audit.record(tx, None, "user.identity_linked", user.login, account_id=user.id, detail=detail)
    data = {"login": user.login, "issuer": provider, "subject": subject, "changed": linked}
    state = "signs in" if linked else "already signs in"
    context.print_result(data, f"{user.login} {state} as {subject} of {provider}")


def _prompt_password() -> str:
    import getpass

    if not sys.stdin.isatty():
        raise Misuse(
            "cannot prompt for the password without a terminal.", "Use --password-file FILE, or - for standard input."
        )
    password = getpass.getpass("New password: ")
    if getpass.getpass("Repeat the password: ") != password:
        raise CliError("the passwords do not match.", "Rerun the command.")
    return password


def _first_line(path: Path) -> str:
    try:
        text = sys.stdin.read() if path == _STANDARD_INPUT else path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise Misuse(f"{path} is not UTF-8.", "Save the file as UTF-8.") from error
    return text.partition("\n")[0].removesuffix("\r")
