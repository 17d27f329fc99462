"""The tables of identity.

Accounts own repositories. A repository is a project: the webhook API knows it by owner and name, the work API by its
text id. An app is an OAuth app (scopes) or an app (permissions, installations); both belong to an organization. Secrets
are stored as digests only.
"""

from __future__ import annotations

from typing import Literal, get_args

import sqlalchemy as sa

from workhook.identity.schemas import Account
from workhook.storage.metadata import GROWS, BigId, Millis, metadata, of_account, partial_index
from workhook.storage.record_rows import table_columns

accounts = sa.Table(
    "accounts",
    metadata,
    *table_columns(Account),
    sa.Column("login_key", sa.Text, nullable=False, unique=True),  # in lower case
    # Of a user: set, nothing that stands for them is good. What they did, and their places, stay.
    sa.Column("disabled_at", Millis),
    sqlite_autoincrement=True,
)
sa.Index("ix_accounts_email", sa.func.lower(accounts.c.email))
# Deleted organizations that still have rows, see `work.administration.emptying`.
partial_index("ix_accounts_deleting", accounts.c.id, where=sa.text("kind = 'deleting'"))

memberships = sa.Table(
    "memberships",
    metadata,
    of_account("organization_id", primary_key=True),
    of_account("user_id", primary_key=True, index=True),
    sa.Column("role", sa.Text, nullable=False),  # owner | member | app: the bot of an app that is installed there
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_memberships_role", "organization_id", "role", "user_id"),
)

projects = sa.Table(
    "projects",
    metadata,
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
    # Of its money: what its billing settings say, or else its account's; null: USD. `money.billing.actions` keeps it.
    sa.Column("currency", sa.Text),
    sa.Column("label_colors", sa.Text),  # JSON object of colours by labels, see `board.projects.schemas`; null: none
    # Set: the project is gone for everybody. The row stays for its hooks' last deliveries; `name_key` frees the name.
    sa.Column("deleted_at", Millis),
    sa.UniqueConstraint("account_id", "name_key"),
    sqlite_autoincrement=True,
)
# The audit log tells of projects that are gone by the name that they had.
sa.Index("ix_projects_name", projects.c.account_id, sa.func.lower(projects.c.name))
# Those of an account, as they were made, and what members see apart from what they do not.
_of = projects.c
_there, _in_trash = _of.deleted_at.is_(None), _of.deleted_at.is_not(None)
partial_index("ix_projects_there", _of.account_id, _of.private, _of.repository_id, where=_there)
partial_index("ix_projects_trash", _of.account_id, _of.deleted_at, _of.id, where=_in_trash)

collaborators = sa.Table(
    "collaborators",
    metadata,
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), primary_key=True
    ),
    of_account("user_id", primary_key=True),
    sa.Column("role", sa.Text, nullable=False),  # read | write | admin
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_collaborators_user", "user_id", "repository_id"),
)

# What somebody may accept. It gives nothing before.
invitations = sa.Table(
    "invitations",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    # Of the place: an organization, or the owner of the repository.
    of_account("account_id", nullable=False),
    sa.Column("repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE")),
    # Whom it is for: a user, or null and whoever has the address.
    of_account("user_id"),
    sa.Column("email", sa.Text),
    # Of an organization: owner | member; of a repository: read | write | admin | client.
    sa.Column("role", sa.Text, nullable=False),
    of_account("inviter_id", nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    # One for each person and place: the place is "o" or "r" with its id, the invitee "u" with theirs, or "e" with the
    # address in lower case.
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("invitee", sa.Text, nullable=False, index=True),
    # SHA-256 of the secret of the link to it, which is stored nowhere; null: there is no link.
    sa.Column("link_digest", sa.LargeBinary),
    sa.UniqueConstraint("place", "invitee"),
    sa.Index("ix_invitations_expires_at", "expires_at"),
    sqlite_autoincrement=True,
)
_link = invitations.c.link_digest
partial_index("ix_invitations_link_digest", _link, where=_link.is_not(None), unique=True)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # see `identity.tokens.issue`
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the token
    of_account("user_id", nullable=False, index=True),
    sa.Column("scopes", sa.Text, nullable=False),  # separated by spaces; empty for kinds with permissions
    sa.Column("permissions", sa.Text),  # JSON object; of fine-grained and installation tokens
    sa.Column("account_id", sa.BigInteger),  # of a fine-grained token: the organization or user it is confined to
    sa.Column("repositories", sa.Text),  # JSON array of ids it is confined to; null: all there
    sa.Column("app_id", sa.BigInteger, index=True),  # the app that it was issued to
    sa.Column("installation_id", sa.BigInteger, index=True),
    sa.Column("parent_id", sa.BigInteger, index=True),  # the token it was made with; revoking that one revokes this one
    sa.Column("root_id", sa.BigInteger),  # the first of these, which shares its request limit; null: itself
    sa.Column("family", sa.Text, index=True),  # the consent; a replay revokes all of its tokens
    sa.Column("note", sa.Text),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis),
    sa.Column("last_used_at", Millis),
    sa.Column("revoked_at", Millis),
    sqlite_autoincrement=True,
)
sa.Index("ix_tokens_ended", sa.func.coalesce(tokens.c.revoked_at, tokens.c.expires_at))

administrators = sa.Table(
    "administrators",
    metadata,
    of_account("user_id", primary_key=True),
    sa.Column("created_at", Millis, nullable=False),
)

audit_log = sa.Table(
    "audit_log",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("at", Millis, nullable=False),
    sa.Column("account_id", sa.BigInteger, nullable=False),  # the organization or user that was acted on; 0: unknown
    sa.Column("repository_id", sa.BigInteger),
    sa.Column("actor_id", sa.BigInteger),  # null: Workhook itself, or the command line
    sa.Column("token_id", sa.BigInteger),
    sa.Column("app_id", sa.BigInteger),
    sa.Column("action", sa.Text, nullable=False),  # hook.create, project.delete …
    sa.Column("status", sa.Integer),  # of a refusal; null: it was done
    sa.Column("request_id", sa.Text),
    sa.Column("times", sa.Integer, nullable=False, server_default="1"),  # like refusals are one entry
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("address", sa.Text),
    sa.Column("detail", sa.Text, nullable=False),  # JSON, without secrets
    sa.Index("ix_audit_log_account_id", "account_id", "id"),
    # Each with the action last: a selection is a few stretches, one for each of the actions that fit.
    sa.Index("ix_audit_log_action", "account_id", "action", "id"),
    sa.Index("ix_audit_log_actor", "account_id", "actor_id", "action", "id"),
    sa.Index("ix_audit_log_repository", "account_id", "repository_id", "action", "id"),
    sa.Index("ix_audit_log_repository_actor", "account_id", "repository_id", "actor_id", "action", "id"),
    sqlite_autoincrement=True,
    info={GROWS: True},
)

# Requests that tokens and apps have used of their hour, in every process together; see `identity.rate`.
rate_windows = sa.Table(
    "rate_windows",
    metadata,
    sa.Column("caller", sa.Text, primary_key=True),  # token:ID, app:ID:user:ID, installation:ID or app:ID
    sa.Column("resets_at", Millis, nullable=False, index=True),
    sa.Column("used", sa.Integer, nullable=False),  # including what processes have taken and not used yet
    sa.Column("granted", sa.Integer, nullable=False),  # to the last process
)


apps = sa.Table(
    "apps",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # oauth | app
    of_account("account_id", nullable=False, index=True),
    sa.Column("client_id", sa.Text, nullable=False, unique=True),
    sa.Column("slug", sa.Text, nullable=False, unique=True),  # derived from the name
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("homepage_url", sa.Text),
    sa.Column("callback_urls", sa.Text, nullable=False),  # JSON array; compared exactly
    sa.Column("device_flow", sa.Boolean, nullable=False),
    sa.Column("public", sa.Boolean, nullable=False),  # apps: whether other organizations may install it
    sa.Column("permissions", sa.Text, nullable=False),  # apps: JSON object, what an installation may ask for at most
    sa.Column("bot_id", sa.BigInteger, sa.ForeignKey("accounts.id")),  # apps: the account that installations act as
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sqlite_autoincrement=True,
)

app_secrets = sa.Table(
    "app_secrets",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the secret
    sa.Column("last_eight", sa.Text, nullable=False),  # for its owners to tell secrets apart
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("last_used_at", Millis),
    sqlite_autoincrement=True,
)

app_keys = sa.Table(
    "app_keys",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("public_key", sa.Text, nullable=False),  # PEM; the private key is not stored
    sa.Column("fingerprint", sa.Text, nullable=False),  # SHA256:… of the public key
    sa.Column("created_at", Millis, nullable=False),
    sqlite_autoincrement=True,
)

installations = sa.Table(
    "installations",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    of_account("account_id", nullable=False, index=True),
    sa.Column("repository_selection", sa.Text, nullable=False),  # all | selected
    sa.Column("permissions", sa.Text, nullable=False),  # JSON object; what the organization has granted
    sa.Column("suspended_at", Millis),
    sa.Column("suspended_by", sa.Text),  # app | organization; an app cannot lift an owner's suspension
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.UniqueConstraint("app_id", "account_id"),
    sqlite_autoincrement=True,
)

installation_repositories = sa.Table(
    "installation_repositories",
    metadata,
    sa.Column(
        "installation_id", sa.BigInteger, sa.ForeignKey("installations.id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Column(
        "repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE"), primary_key=True
    ),
    sa.Index("ix_installation_repositories_repository_id", "repository_id"),
)


# What a user has let an app do. Revoking it revokes every token that came of it.
grants = sa.Table(
    "grants",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    of_account("user_id", nullable=False, index=True),
    sa.Column("scopes", sa.Text, nullable=False),  # separated by spaces
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("updated_at", Millis, nullable=False),
    sa.UniqueConstraint("app_id", "user_id"),
    sqlite_autoincrement=True,
)

authorization_codes = sa.Table(
    "authorization_codes",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    of_account("user_id", nullable=False),
    sa.Column("redirect_uri", sa.Text, nullable=False),  # where the code was sent, even if it was not requested
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("code_challenge", sa.Text),  # S256, the only supported method
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("used_at", Millis),
    sa.Column("family", sa.Text, nullable=False),  # of its tokens; a replay revokes them
    sa.Index("ix_authorization_codes_app_id", "app_id", "user_id"),
    sa.Index("ix_authorization_codes_expires_at", "expires_at"),
)

device_codes = sa.Table(
    "device_codes",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("user_code", sa.Text, nullable=False, unique=True),  # eight letters, without the hyphen
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("interval_s", sa.Integer, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("polled_at", Millis),
    of_account("user_id"),  # who decided
    sa.Column("decision", sa.Text),  # approved | denied
    sa.Column("used_at", Millis),
    sa.Index("ix_device_codes_app_id", "app_id", "expires_at"),
    sa.Index("ix_device_codes_expires_at", "expires_at"),
)

refresh_tokens = sa.Table(
    "refresh_tokens",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("app_id", sa.BigInteger, sa.ForeignKey("apps.id", ondelete="CASCADE"), nullable=False),
    of_account("user_id", nullable=False),
    sa.Column("family", sa.Text, nullable=False),
    # It came of a flow without a secret (RFC 8252, RFC 8628), so that it is taken without one.
    sa.Column("public", sa.Boolean, nullable=False),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False),
    sa.Column("used_at", Millis),  # a second use revokes the family
    sa.Index("ix_refresh_tokens_app_id", "app_id", "user_id"),
    sa.Index("ix_refresh_tokens_family", "family"),
    sa.Index("ix_refresh_tokens_expires_at", "expires_at"),
    sqlite_autoincrement=True,
)


passwords = sa.Table(
    "passwords",
    metadata,
    of_account("user_id", primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),  # argon2id, with its parameters
    sa.Column("changed_at", Millis, nullable=False),
    # What the user says their e-mail address is, which nobody has verified. It is a name to sign in with, beside the
    # login, in a browser that knows the user; to everybody and everything else the user has none (decision 41).
    sa.Column("email", sa.Text),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),  # SHA-256 of the cookie's value
    of_account("user_id", nullable=False, index=True),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("seen_at", Millis, nullable=False),  # accurate to ten minutes
    sa.Column("expires_at", Millis, nullable=False, index=True),
    sa.Column("address", sa.Text),
    sa.Column("user_agent", sa.Text),
    sqlite_autoincrement=True,
)

# Forms that made something, so that each does so once (`web.frame.repeats`).
sent_forms = sa.Table(
    "sent_forms",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),  # SHA-256 of the session, address and fields
    sa.Column("session_id", sa.BigInteger, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("answer", sa.LargeBinary),  # null: not yet known; empty: not repeatable
    sa.Column("created_at", Millis, nullable=False),
    sa.Index("ix_sent_forms_session_id", "session_id"),
    sa.Index("ix_sent_forms_created_at", "created_at"),
)

sign_in_links = sa.Table(
    "sign_in_links",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    of_account("user_id", nullable=False, index=True),
    sa.Column("purpose", sa.Text, nullable=False),  # sign_in | set_password
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("expires_at", Millis, nullable=False, index=True),
    sa.Column("used_at", Millis),
)

# Failures to sign in, counted in every process together.
sign_in_failures = sa.Table(
    "sign_in_failures",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),  # of `signin.throttle`, such as login:… or mailed:…
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("since", Millis, nullable=False, index=True),
    sa.Column("blocked_until", Millis, nullable=False),
)

# Whom an OpenID provider knows under which subject.
identities = sa.Table(
    "identities",
    metadata,
    sa.Column("issuer", sa.Text, primary_key=True),
    sa.Column("subject", sa.Text, primary_key=True),
    of_account("user_id", nullable=False, index=True),
    sa.Column("created_at", Millis, nullable=False),
)


# --- notifications, and what people want to be told of ----------------------------------------------------------------

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


def told_columns() -> list[sa.Column[object]]:
    """Return references to what happened, where, and who did it. A row is deleted with what it refers to."""
    return [
        sa.Column("actor_id", sa.BigInteger, sa.ForeignKey("accounts.id")),  # null: Workhook itself
        # The organization or person that the project belongs to, or that it is about itself.
        of_account("account_id", nullable=False),
        sa.Column("repository_id", sa.BigInteger, sa.ForeignKey("projects.repository_id", ondelete="CASCADE")),
        *(sa.Column(name, kind, sa.ForeignKey(target, ondelete="CASCADE")) for name, (target, kind) in _ABOUT.items()),
        sa.Column("payment_id", sa.Text),  # goes with its invoice
        sa.Column("invitation_id", sa.BigInteger, sa.ForeignKey("invitations.id", ondelete="CASCADE")),
        # Of an invoice: what was done with it; of a deadline: when it is, in milliseconds; of a webhook: why it is off.
        sa.Column("detail", sa.Text),
    ]


def index_references(table: sa.Table) -> None:
    """Index the references by which rows are deleted."""
    for name in ("repository_id", *_ABOUT):
        partial_index(f"ix_{table.name}_{name}", table.c[name], where=table.c[name].is_not(None))


# Ids grow: the newest notification of a person has the highest.
notifications = sa.Table(
    "notifications",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    of_account("user_id", nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # of `NOTIFICATION_KINDS`
    *told_columns(),
    sa.Column("created_at", Millis, nullable=False),
    sa.Column("read_at", Millis),
    sa.Index("ix_notifications_user_id", "user_id", "id"),
    sa.Index("ix_notifications_account_id", "account_id"),
    sa.Index("ix_notifications_created_at", "created_at"),
    sqlite_autoincrement=True,
)
_told = notifications.c
partial_index("ix_notifications_unread", _told.user_id, _told.id, where=_told.read_at.is_(None))
partial_index("ix_notifications_read", _told.user_id, _told.id, where=_told.read_at.is_not(None))
index_references(notifications)
# An invitation that is renewed is told of once.
partial_index(
    "ix_notifications_invitation_id",
    _told.invitation_id,
    _told.user_id,
    where=_told.invitation_id.is_not(None),
    unique=True,
)

# Only what somebody has chosen has a row: without one, they want to be told.
notification_settings = sa.Table(
    "notification_settings",
    metadata,
    of_account("user_id", primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("inbox", sa.Boolean, nullable=False),
    sa.Column("email", sa.Boolean),  # null: as in the inbox
)


# --- mail: messages to send, and what is known of people as recipients ------------------------------------------------

LinkKind = Literal["invitation_link", "sign_in_link", "password_link"]
"""Messages with a one-time link."""
MailKind = NotificationKind | LinkKind | Literal["address_link"]

ATTEMPTS_MAX = 20
"""Then a message is given up that the mail server did not accept; refused ones are given up at once."""

# A message waits as long as it has a next attempt. Afterwards it was sent, or was given up and is kept for a while.
mail_messages = sa.Table(
    "mail_messages",
    metadata,
    sa.Column("id", BigId, primary_key=True),
    # Null: whoever has the address of the invitation.
    of_account("user_id"),
    sa.Column("kind", sa.Text, nullable=False),  # of `MailKind`
    *told_columns(),
    sa.Column("created_at", Millis, nullable=False),
    # Whose messages are counted together: "u" and the user's id, or "i" and the invitation's.
    sa.Column("recipient", sa.Text, nullable=False),
    sa.Column("language", sa.Text),  # null: the recipient's own
    sa.Column("sealed", sa.LargeBinary),  # the path of a link, encrypted; removed once the message is sent or given up
    sa.Column("next_attempt_at", Millis),
    # Attempts that were begun. Who records an outcome has to have begun the last of them.
    sa.Column("attempts", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("sent_at", Millis),
    sa.Column("failed_at", Millis),  # given up
    sa.Column("failure", sa.Text),  # the server's last message
    sa.Index("ix_mail_messages_account_id", "account_id"),
    sqlite_autoincrement=True,
)
_mail = mail_messages.c
partial_index("ix_mail_messages_user_id", _mail.user_id, where=_mail.user_id.is_not(None))
partial_index("ix_mail_messages_due", _mail.next_attempt_at, _mail.id, where=_mail.next_attempt_at.is_not(None))
partial_index("ix_mail_messages_sent", _mail.recipient, _mail.sent_at, where=_mail.sent_at.is_not(None))
partial_index("ix_mail_messages_sent_at", _mail.sent_at, where=_mail.sent_at.is_not(None))
partial_index("ix_mail_messages_failed_at", _mail.failed_at, where=_mail.failed_at.is_not(None))
partial_index("ix_mail_messages_invitation_id", _mail.invitation_id, where=_mail.invitation_id.is_not(None))
# A person's own links are a queue of their own, which comes first.
OWN_LINKS = ("sign_in_link", "password_link", "address_link")
is_own_link = _mail.kind.in_([sa.literal_column(f"'{each}'") for each in OWN_LINKS])
partial_index(
    "ix_mail_messages_own_due",
    _mail.next_attempt_at,
    _mail.id,
    where=sa.and_(_mail.next_attempt_at.is_not(None), is_own_link),
)
index_references(mail_messages)

# Only people of whom something is known have a row.
mail_recipients = sa.Table(
    "mail_recipients",
    metadata,
    of_account("user_id", primary_key=True),
    sa.Column("language", sa.Text),  # of the pages that they last saw
    # The address that the person has given themself, once they have shown that it is theirs.
    sa.Column("confirmed", sa.Text),
    # The address that a server refused, when, and what it said. It counts as long as it is the person's address.
    sa.Column("bounced", sa.Text),
    sa.Column("bounced_at", Millis),
    sa.Column("bounce", sa.Text),
)
partial_index(
    "ix_mail_recipients_confirmed",
    sa.func.lower(mail_recipients.c.confirmed),
    where=mail_recipients.c.confirmed.is_not(None),
)
