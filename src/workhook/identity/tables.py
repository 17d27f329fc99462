"""The tables of identity.

Accounts own repositories. A repository is a project: the webhook API addresses it by owner and name, the work API by
its text ID. An app is either an OAuth app (scopes) or an app (permissions, installations); both belong to an
organization. Only digests of secrets are stored.
"""

from __future__ import annotations

from typing import Literal, get_args

import sqlalchemy as sa

from workhook.identity.schemas import Account
from workhook.storage.metadata import (
    GROWS,
    BigId,
    Millis,
    in_project,
    numbered_table,
    of_account,
    partial_index,
    plain_table,
)
from workhook.storage.record_rows import table_columns

accounts = plain_table(
    "accounts",
    *table_columns(Account),
    sa.Column("login_key", sa.Text, nullable=False, unique=True),  # in lower case
    sa.Column("disabled_at", Millis),  # disabled users' credentials are invalid; their work and their roles are kept
    sqlite_autoincrement=True,
)
sa.Index("ix_accounts_email", sa.func.lower(accounts.c.email))
# Deleted organizations that still have rows; see `work.administration.deletion`.
partial_index("ix_accounts_deleting", accounts.c.id, where=sa.text("kind = 'deleting'"))

memberships = plain_table(
    "memberships",
    of_account("organization_id", primary_key=True),
    of_account("user_id", primary_key=True, index=True),
    sa.Column("role", sa.Text, nullable=False),  # owner | member | app: the bot of an app that is installed there
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_memberships_role", "organization_id", "role", "user_id"),
)

projects = plain_table(
    "projects",
    sa.Column("repository_id", BigId, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("name_key", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("avatar", sa.Text),
    sa.Column("private", sa.Boolean, nullable=False),
    sa.Column("archive", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    # From its billing settings, or else its account's; null: USD. Maintained by `money.billing.actions`.
    sa.Column("currency", sa.Text),
    sa.Column("label_colors", sa.Text),  # JSON object of colors by label, see `board.projects.schemas`; null: none
    sa.Column("deleted_at", Millis),  # the row is kept for the last deliveries of its webhooks; `name_key` is freed
    sa.UniqueConstraint("account_id", "name_key"),
    sqlite_autoincrement=True,
)
# The audit log finds deleted projects by their former name.
sa.Index("ix_projects_name", projects.c.account_id, sa.func.lower(projects.c.name))
# An account's projects in order of creation, with private ones apart from those that members can see.
_of = projects.c
_not_deleted, _in_trash = _of.deleted_at.is_(None), _of.deleted_at.is_not(None)
partial_index("ix_projects_there", _of.account_id, _of.private, _of.repository_id, where=_not_deleted)
partial_index("ix_projects_trash", _of.account_id, _of.deleted_at, _of.id, where=_in_trash)

collaborators = plain_table(
    "collaborators",
    in_project(primary_key=True),
    of_account("user_id", primary_key=True),
    sa.Column("role", sa.Text, nullable=False),  # read | write | admin
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_collaborators_user", "user_id", "repository_id"),
)

# Pending invitations. They grant nothing until they are accepted.
invitations = numbered_table(
    "invitations",
    of_account("account_id", nullable=False),  # the organization, or the owner of the repository
    in_project(nullable=True),
    of_account("user_id"),  # the invited user; null: the owner of the e-mail address
    sa.Column("email", sa.Text),
    sa.Column("role", sa.Text, nullable=False),  # owner | member, or in a repository: read | write | admin | client
    of_account("inviter_id", nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("place", sa.Text, nullable=False),  # "o" or "r" with its ID
    sa.Column("invitee", sa.Text, nullable=False, index=True),  # "u" and the user's ID, or "e" and the address
    sa.Column("link_digest", sa.LargeBinary),  # SHA-256 of the secret in its link; null: there is no link
    sa.UniqueConstraint("place", "invitee"),
    sa.Index("ix_invitations_expires_at", "expires_at"),
)
_link = invitations.c.link_digest
partial_index("ix_invitations_link_digest", _link, where=_link.is_not(None), unique=True)

tokens = numbered_table(
    "tokens",
    sa.Column("kind", sa.Text, nullable=False),  # see `identity.tokens.issue`
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the token
    of_account("user_id", nullable=False, index=True),
    sa.Column("scopes", sa.Text, nullable=False),  # separated by spaces; empty for kinds with permissions
    sa.Column("permissions", sa.Text),  # JSON object, for fine-grained and installation tokens
    sa.Column("account_id", sa.BigInteger),  # the organization or user that a fine-grained token is confined to
    sa.Column("repositories", sa.Text),  # JSON array of the IDs it is confined to; null: all of them
    sa.Column("app_id", sa.BigInteger, index=True),  # the app that it was issued to
    sa.Column("installation_id", sa.BigInteger, index=True),
    sa.Column("parent_id", sa.BigInteger, index=True),  # the token it was derived from, and is revoked with
    sa.Column("root_id", sa.BigInteger),  # the first token in the chain, which shares its request limit; null: this one
    sa.Column("family", sa.Text, index=True),  # the consent; a replay revokes all of its tokens
    sa.Column("note", sa.Text),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis),
    sa.Column("last_used_at", Millis),
    sa.Column("revoked_at", Millis),
)
sa.Index("ix_tokens_ended", sa.func.coalesce(tokens.c.revoked_at, tokens.c.expires_at))

administrators = plain_table(
    "administrators",
    of_account("user_id", primary_key=True),
    sa.Column("created_at", Millis, nullable=False),
)

audit_log = numbered_table(
    "audit_log",
    sa.Column("at", Millis, nullable=False),
    sa.Column("account_id", sa.BigInteger, nullable=False),  # the organization or user affected; 0: unknown
    sa.Column("repository_id", sa.BigInteger),
    sa.Column("actor_id", sa.BigInteger),  # null: Workhook itself, or the command line
    sa.Column("token_id", sa.BigInteger),
    sa.Column("app_id", sa.BigInteger),
    sa.Column("action", sa.Text, nullable=False),  # hook.create, project.delete …
    sa.Column("status", sa.Integer),  # of a refused request; null: it succeeded
    sa.Column("request_id", sa.Text),
    sa.Column("times", sa.Integer, nullable=False, server_default="1"),  # similar refusals share one entry
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("address", sa.Text),
    sa.Column("detail", sa.Text, nullable=False),  # JSON, without secrets
    sa.Index("ix_audit_log_account_id", "account_id", "id"),
    # Each ends with the action and ID: a selection is a few ranges, one for each matching action.
    sa.Index("ix_audit_log_action", "account_id", "action", "id"),
    sa.Index("ix_audit_log_actor", "account_id", "actor_id", "action", "id"),
    sa.Index("ix_audit_log_repository", "account_id", "repository_id", "action", "id"),
    sa.Index("ix_audit_log_repository_actor", "account_id", "repository_id", "actor_id", "action", "id"),
    info={GROWS: True},
)

# Requests used by tokens and apps in the current hour, over all processes; see `identity.rate`.
rate_windows = plain_table(
    "rate_windows",
    sa.Column("caller", sa.Text, primary_key=True),  # token:ID, app:ID:user:ID, installation:ID or app:ID
    sa.Column("resets_at", Millis, nullable=False, index=True),
    sa.Column("used", sa.Integer, nullable=False),  # including blocks that processes have taken but not yet used
    sa.Column("granted", sa.Integer, nullable=False),  # to the last process
)


apps = numbered_table(
    "apps",
    sa.Column("kind", sa.Text, nullable=False),  # oauth | app
    of_account("account_id", nullable=False, index=True),
    sa.Column("client_id", sa.Text, nullable=False, unique=True),
    sa.Column("slug", sa.Text, nullable=False, unique=True),  # derived from the name
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("homepage_url", sa.Text),
    sa.Column("callback_urls", sa.Text, nullable=False),  # JSON array, compared exactly
    sa.Column("device_flow", sa.Boolean, nullable=False),
    sa.Column("public", sa.Boolean, nullable=False),  # apps: whether other organizations may install it
    sa.Column("permissions", sa.Text, nullable=False),  # apps: JSON object, the maximum an installation can be granted
    sa.Column("bot_id", sa.BigInteger, sa.ForeignKey("accounts.id")),  # apps: the account that installations act as
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
)

app_secrets = numbered_table(
    "app_secrets",
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the secret
    sa.Column("last_eight", sa.Text, nullable=False),  # helps owners to tell secrets apart
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("last_used_at", Millis),
)

app_keys = numbered_table(
    "app_keys",
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("public_key", sa.Text, nullable=False),  # PEM; the private key is not stored
    sa.Column("fingerprint", sa.Text, nullable=False),  # SHA256:… of the public key
    sa.Column("created_at", Millis, nullable=False),
)

installations = numbered_table(
    "installations",
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    of_account("account_id", nullable=False, index=True),
    sa.Column("repository_selection", sa.Text, nullable=False),  # all | selected
    sa.Column("permissions", sa.Text, nullable=False),  # JSON object of the granted permissions
    sa.Column("suspended_at", Millis),
    sa.Column("suspended_by", sa.Text),  # app | organization; an app cannot lift an owner's suspension
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.UniqueConstraint("app_id", "account_id"),
)

installation_repositories = plain_table(
    "installation_repositories",
    sa.Column(
        "installation_id", sa.BigInteger, sa.ForeignKey("installations.id", ondelete="CASCADE"), primary_key=True
    ),
    in_project(primary_key=True),
    sa.Index("ix_installation_repositories_repository_id", "repository_id"),
)


# Users' grants to apps. Revoking a grant revokes every token issued under it.
grants = numbered_table(
    "grants",
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    of_account("user_id", nullable=False, index=True),
    sa.Column("scopes", sa.Text, nullable=False),  # separated by spaces
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.UniqueConstraint("app_id", "user_id"),
)

authorization_codes = plain_table(
    "authorization_codes",
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    of_account("user_id", nullable=False),
    sa.Column("redirect_uri", sa.Text, nullable=False),  # where the code was sent, even if not requested
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("code_challenge", sa.Text),  # S256, the only supported method
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("used_at", Millis),
    sa.Column("family", sa.Text, nullable=False),  # of its tokens; a replay revokes them
    sa.Index("ix_authorization_codes_app_id", "app_id", "user_id"),
    sa.Index("ix_authorization_codes_expires_at", "expires_at"),
)

device_codes = plain_table(
    "device_codes",
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("user_code", sa.Text, nullable=False, unique=True),  # eight letters, without the hyphen
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("interval_s", sa.Integer, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("polled_at", Millis),
    of_account("user_id"),  # the user who decided
    sa.Column("decision", sa.Text),  # approved | denied
    sa.Column("used_at", Millis),
    sa.Index("ix_device_codes_app_id", "app_id", "expires_at"),
    sa.Index("ix_device_codes_expires_at", "expires_at"),
)

refresh_tokens = numbered_table(
    "refresh_tokens",
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    of_account("user_id", nullable=False),
    sa.Column("family", sa.Text, nullable=False),
    sa.Column("public", sa.Boolean, nullable=False),  # issued, and accepted, without a secret (RFC 8252, RFC 8628)
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("used_at", Millis),  # a second use revokes the family
    sa.Index("ix_refresh_tokens_app_id", "app_id", "user_id"),
    sa.Index("ix_refresh_tokens_family", "family"),
    sa.Index("ix_refresh_tokens_expires_at", "expires_at"),
)


passwords = plain_table(
    "passwords",
    of_account("user_id", primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),  # argon2id, with its parameters
    sa.Column("changed_at", Millis, nullable=False),
    sa.Column("email", sa.Text),  # unverified; only for signing in, in a browser that knows the user (decision 27)
)

sessions = numbered_table(
    "sessions",
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the cookie's value
    of_account("user_id", nullable=False, index=True),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("seen_at", Millis, nullable=False),  # accurate to ten minutes
    sa.Column("expires_at", Millis, nullable=False, index=True),
    sa.Column("address", sa.Text),
    sa.Column("user_agent", sa.Text),
)

# Submitted forms that created something, so that each one does so only once (`web.frame.repeats`).
sent_forms = plain_table(
    "sent_forms",
    sa.Column("digest", sa.LargeBinary, primary_key=True),  # SHA-256 of the session, address and fields
    sa.Column("session_id", sa.BigInteger, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("answer", sa.LargeBinary),  # null: not yet known; empty: not repeatable
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_sent_forms_session_id", "session_id"),
    sa.Index("ix_sent_forms_created_at", "created_at"),
)

sign_in_links = plain_table(
    "sign_in_links",
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    of_account("user_id", nullable=False, index=True),
    sa.Column("purpose", sa.Text, nullable=False),  # sign_in | set_password
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False, index=True),
    sa.Column("used_at", Millis),
)

# Failed sign-ins, counted over all processes.
sign_in_failures = plain_table(
    "sign_in_failures",
    sa.Column("key", sa.Text, primary_key=True),  # from `signin.throttle`, such as login:… or mailed:…
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("since", Millis, nullable=False, index=True),
    sa.Column("blocked_until", Millis, nullable=False),
)

# Users by the subject under which an OpenID provider knows them.
identities = plain_table(
    "identities",
    sa.Column("issuer", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    of_account("user_id", nullable=False, index=True),
    sa.Column("created_at", Millis, nullable=False),
)


# --- notifications and their settings ---------------------------------------------------------------------------------

NotificationKind = Literal["mention", "assignment", "deadline", "invoice", "payment", "invitation", "hook_disabled"]
NOTIFICATION_KINDS: tuple[NotificationKind, ...] = get_args(NotificationKind)

_ABOUT = {
    "task_id": ("tasks.id", sa.Text),
    "task_comment_id": ("task_comments.id", sa.BigInteger),
    "file_comment_id": ("file_comments.id", sa.BigInteger),
    "file_comment_reply_id": ("file_comment_replies.id", sa.BigInteger),
    "invoice_id": ("invoices.id", sa.Text),
    "hook_id": ("hooks.id", sa.Integer),
}


def reference_columns() -> list[sa.Column[object]]:
    """Return columns that reference the event, its place and its actor. A row is deleted with what it references."""
    return [
        sa.Column("actor_id", sa.BigInteger, sa.ForeignKey("accounts.id")),  # null: Workhook itself
        of_account("account_id", nullable=False),  # it owns the project, or the notification is about it
        in_project(nullable=True),
        *(sa.Column(name, kind, sa.ForeignKey(target, ondelete="CASCADE")) for name, (target, kind) in _ABOUT.items()),
        sa.Column("payment_id", sa.Text),  # deleted with its invoice
        sa.Column("invitation_id", sa.BigInteger, sa.ForeignKey("invitations.id", ondelete="CASCADE")),
        sa.Column("detail", sa.Text),  # invoice: the action; deadline: its time (ms); webhook: why it was disabled
    ]


def index_references(table: sa.Table) -> None:
    for name in ("repository_id", *_ABOUT):
        partial_index(f"ix_{table.name}_{name}", table.c[name], where=table.c[name].is_not(None))


# IDs increase, so a person's newest notification has the highest one.
notifications = numbered_table(
    "notifications",
    of_account("user_id", nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # one of `NOTIFICATION_KINDS`
    *reference_columns(),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("read_at", Millis),
    sa.Index("ix_notifications_user_id", "user_id", "id"),
    sa.Index("ix_notifications_account_id", "account_id"),
    sa.Index("ix_notifications_created_at", "created_at"),
)
_told = notifications.c
partial_index("ix_notifications_unread", _told.user_id, _told.id, where=_told.read_at.is_(None))
partial_index("ix_notifications_read", _told.user_id, _told.id, where=_told.read_at.is_not(None))
index_references(notifications)
# A renewed invitation creates only one notification.
_of_invitation, _in_inbox = _told.invitation_id.is_not(None), (_told.invitation_id, _told.user_id)
partial_index("ix_notifications_invitation_id", *_in_inbox, where=_of_invitation, unique=True)

# Contains only explicit choices. Without a row, notifications are enabled.
notification_settings = plain_table(
    "notification_settings",
    of_account("user_id", primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("inbox", sa.Boolean, nullable=False),
    sa.Column("email", sa.Boolean),  # null: as in the inbox
)


# --- mail: outgoing messages and recipients ---------------------------------------------------------------------------

LinkKind = Literal["invitation_link", "sign_in_link", "password_link"]
"""Messages with a one-time link."""
MailKind = NotificationKind | LinkKind | Literal["address_link"]

ATTEMPTS_MAX = 20
"""Maximum number of attempts before an unaccepted message is given up. Refused messages are given up immediately."""

# A message is pending while it has a next attempt. Afterwards it was sent, or was given up and is kept for a while.
mail_messages = numbered_table(
    "mail_messages",
    of_account("user_id"),  # null: the owner of the invited address
    sa.Column("kind", sa.Text, nullable=False),  # a `MailKind`
    *reference_columns(),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("recipient", sa.Text, nullable=False),  # for counting: "u" and the user's ID, or "i" and the invitation's
    sa.Column("language", sa.Text),  # null: the recipient's own
    sa.Column("sealed", sa.LargeBinary),  # the encrypted path of a link; removed once the message is sent or given up
    sa.Column("next_attempt_at", Millis),
    # Started attempts. Only the process that started the last one may record an outcome.
    sa.Column("attempts", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("sent_at", Millis),
    sa.Column("failed_at", Millis),  # given up
    sa.Column("failure", sa.Text),  # the server's last message
    sa.Index("ix_mail_messages_account_id", "account_id"),
)
_mail = mail_messages.c
partial_index("ix_mail_messages_user_id", _mail.user_id, where=_mail.user_id.is_not(None))
partial_index("ix_mail_messages_due", _mail.next_attempt_at, _mail.id, where=_mail.next_attempt_at.is_not(None))
partial_index("ix_mail_messages_sent", _mail.recipient, _mail.sent_at, where=_mail.sent_at.is_not(None))
partial_index("ix_mail_messages_sent_at", _mail.sent_at, where=_mail.sent_at.is_not(None))
partial_index("ix_mail_messages_failed_at", _mail.failed_at, where=_mail.failed_at.is_not(None))
partial_index("ix_mail_messages_invitation_id", _mail.invitation_id, where=_mail.invitation_id.is_not(None))
# A person's own links have a separate queue, which is processed first.
OWN_LINKS = ("sign_in_link", "password_link", "address_link")
is_own_link = _mail.kind.in_([sa.literal_column(f"'{each}'") for each in OWN_LINKS])
_is_own_due = sa.and_(_mail.next_attempt_at.is_not(None), is_own_link)
partial_index("ix_mail_messages_own_due", _mail.next_attempt_at, _mail.id, where=_is_own_due)
index_references(mail_messages)

# A person has no row until one of these facts is known.
mail_recipients = plain_table(
    "mail_recipients",
    of_account("user_id", primary_key=True),
    sa.Column("language", sa.Text),  # of the pages last viewed
    sa.Column("confirmed", sa.Text),  # the address that the person entered, once they have confirmed it
    # The address that a server refused, when, and its reply. Valid only while it is the person's address.
    sa.Column("bounced", sa.Text),
    sa.Column("bounced_at", Millis),
    sa.Column("bounce", sa.Text),
)
_confirmed = mail_recipients.c.confirmed
partial_index("ix_mail_recipients_confirmed", sa.func.lower(_confirmed), where=_confirmed.is_not(None))
