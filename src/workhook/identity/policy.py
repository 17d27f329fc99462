"""The access rules: one table for the authenticator, headers, the OpenAPI document and docs/integrators/permissions.md.

A rule names the object in the path (`target`), the caller's required role there, and what the token needs, depending on
its kind: one of the scopes, or the permission.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import msgspec

from workhook.core.errors import Forbidden, NotFound, require_found, say
from workhook.http.openapi import Requirement
from workhook.identity.schemas import Actor, Organization, Repository, name_of_role
from workhook.identity.tokens.issue import APP_USER, CLASSIC, FINE_GRAINED, INSTALLATION, KINDS, OAUTH
from workhook.identity.tokens.lookup import allows, check_reach, check_whole_account, covers, not_accessible

SCOPES = (
    "repo", "admin:repo_hook", "write:repo_hook", "read:repo_hook", "admin:org_hook", "admin:org", "work", "work:read",
    "site_admin",
)  # fmt: skip
OAUTH_SCOPES = tuple(each for each in SCOPES if each != "site_admin")
"""Scopes that an app can request. No app can administer the server."""
_IMPLIED = {
    "repo": {"read:repo_hook", "write:repo_hook", "admin:repo_hook"},
    "admin:repo_hook": {"write:repo_hook", "read:repo_hook"},
    "write:repo_hook": {"read:repo_hook"},
    "work": {"work:read"},
}
PERMISSIONS = ("repository_hooks", "organization_hooks", "work")  # each read or write; write includes read
_ROLES = (None, "read", "write", "admin")

PEOPLE = frozenset({CLASSIC.name, FINE_GRAINED.name, OAUTH.name, APP_USER.name})  # tokens that act for a user
ANY_KIND = frozenset(KINDS)

Target = Literal["repository", "organization", "user", "app", "client"]


@dataclass(frozen=True)
class Rule:
    """An access rule. For the target `app`, the caller is an app with a JWT; for `client`, with its ID and secret."""

    target: Target  # the object in the path
    scopes: tuple[str, ...] = ()  # a token with scopes needs one of these, if there are any
    permission: tuple[str, str] | None = None  # what a token with permissions needs
    role: str | None = None  # `invited` accepts members and invited people, whom the operation distinguishes
    kinds: frozenset[str] = ANY_KIND  # the accepted kinds of token
    whole: bool = False  # tokens for selected repositories are rejected


_READ_HOOKS, _WRITE_HOOKS = ("repository_hooks", "read"), ("repository_hooks", "write")
_PERSONAL = frozenset({CLASSIC.name, FINE_GRAINED.name})
_UNCONFINED = frozenset({CLASSIC.name, OAUTH.name})
_CLASSIC = frozenset({CLASSIC.name})  # for operations that no consent page mentions

RULES = {
    # the caller and accounts
    "user": Rule("user", kinds=PEOPLE),
    "account.read": Rule("user"),  # `identity.members` determines which ones
    "organization.read": Rule("organization", role="member"),
    "organization.membership": Rule("organization", role="invited", kinds=PEOPLE),
    "repository.read": Rule("repository", role="read"),
    "repository.collaborators": Rule("repository", role="write"),  # as on GitHub
    # webhooks
    "repository_hooks.read": Rule("repository", ("read:repo_hook", "repo"), _READ_HOOKS, "admin"),
    "repository_hooks.write": Rule("repository", ("write:repo_hook", "repo"), _WRITE_HOOKS, "admin"),
    "repository_hooks.delete": Rule("repository", ("admin:repo_hook", "repo"), _WRITE_HOOKS, "admin"),
    "organization_hooks.read": Rule("organization", ("admin:org_hook",), ("organization_hooks", "read"), "owner"),
    "organization_hooks.write": Rule("organization", ("admin:org_hook",), ("organization_hooks", "write"), "owner"),
    # Webhooks of OAuth apps. Only a user's own tokens can see them, since apps cannot see those of other apps.
    "oauth_hooks.read": Rule(
        "organization", ("admin:org_hook",), ("organization_hooks", "read"), "owner", _PERSONAL, whole=True
    ),
    "oauth_hooks.delete": Rule(
        "organization", ("admin:org_hook",), ("organization_hooks", "write"), "owner", _PERSONAL, whole=True
    ),
    "repository.publish": Rule("repository", ("repo", "write:repo_hook"), _WRITE_HOOKS, "write"),
    "organization.publish": Rule("organization", ("admin:org_hook",), ("organization_hooks", "write"), "owner"),
    # work management; each resource has its own roles (`work.kernel.access`)
    "work.read": Rule("user", ("work:read",), ("work", "read")),
    "work.write": Rule("user", ("work",), ("work", "write")),
    # Notifications span organizations, so confined tokens have no access.
    "notifications.read": Rule("user", ("work:read",), kinds=_UNCONFINED),
    "notifications.write": Rule("user", ("work",), kinds=_UNCONFINED),
    # members, collaborators and invitations (`work.people.invitations`)
    "organization.people": Rule("organization", ("admin:org",), role="owner", kinds=_CLASSIC),
    "organization.leave": Rule("organization", ("admin:org",), role="member", kinds=_CLASSIC),
    "organization.decline": Rule("organization", ("admin:org",), role="invited", kinds=_CLASSIC),  # or leave
    "repository.people": Rule("repository", ("repo",), role="admin", kinds=_CLASSIC),
    "repository.leave": Rule("repository", ("repo",), role="read", kinds=_CLASSIC),
    "user.memberships": Rule("user", ("admin:org",), kinds=_CLASSIC),
    "user.invitations": Rule("user", ("repo",), kinds=_CLASSIC),
    # the organization's apps and its audit log
    "organization.admin": Rule("organization", ("admin:org",), role="owner", kinds=_CLASSIC),
    # All data of the organization. The operation also requires `work:read`.
    "organization.export": Rule("user", ("admin:org",), kinds=_CLASSIC),
    # A webhook for all events shows its owner as much as the audit log does, so its scope suffices.
    "audit_log.read": Rule(
        "organization", ("admin:org", "admin:org_hook"), ("organization_hooks", "write"), "owner", whole=True
    ),
    "installations.write": Rule("user", ("admin:org",), kinds=_CLASSIC),  # the path names no organization
    # the server; the operation checks that the caller administers it
    "site_admin": Rule("user", ("site_admin",), kinds=_CLASSIC),
    # tokens
    "tokens": Rule("user", kinds=_CLASSIC),
    "app": Rule("app"),
    "client": Rule("client"),
    "installation": Rule("user", kinds=frozenset({INSTALLATION.name})),
    "user.installations": Rule("user", kinds=frozenset({APP_USER.name})),
}


@lru_cache(maxsize=1024)
def expand(scopes: frozenset[str]) -> frozenset[str]:
    return scopes.union(*(_IMPLIED.get(scope, ()) for scope in scopes))


@cache
def accepted(rule: Rule) -> str:
    """Return the value of `X-Accepted-OAuth-Scopes`: every scope that grants access."""
    return ", ".join(sorted(scope for scope in SCOPES if expand(frozenset({scope})) & set(rule.scopes)))


_CALLERS = {
    ("repository", "read"): "a user who can read the repository",
    ("repository", "write"): "a user who can write to the repository",
    ("repository", "admin"): "an admin of the repository",
    ("organization", "member"): "a member of the organization",
    ("organization", "owner"): "an owner of the organization",
    ("organization", "invited"): "a member of the organization, or a user invited to it",
}


def access_of(name: str) -> Requirement:
    rule = RULES[name]
    fitting = tuple(filter(None, accepted(rule).split(", ")))
    if rule.target == "app":
        text = "Requires a JSON Web Token (RS256) of an app, signed with its private key."
        return Requirement((), text, scheme="app")
    if rule.target == "client":
        text = "Requires the client ID and secret of an app, with HTTP Basic authentication."
        return Requirement((), text, scheme="client")
    caller = f" of {_CALLERS[rule.target, rule.role]}" if rule.role else ""
    return Requirement(fitting, f"Requires {_needed_token(rule)}{caller}.", permission=_given_to(rule))


def _given_to(rule: Rule) -> tuple[str, str] | None:
    """Return the permission if the operation accepts any tokens with permissions."""
    return rule.permission if any(each.confined for each in KINDS.values() if each.name in rule.kinds) else None


def _needed_token(rule: Rule) -> str:
    scopes = " or ".join(f"`{scope}`" for scope in rule.scopes)
    token = f"a token with the scope {scopes}" if scopes else "a token"
    if permission := _given_to(rule):
        token += f" or the permission `{permission[0]}: {permission[1]}`"
    if rule.kinds != ANY_KIND:
        names = ", ".join(each.title for each in KINDS.values() if each.name in rule.kinds)
        token += f" (accepted kinds: {names})"
    return token


def check_kind(actor: Actor, rule: Rule) -> None:
    if actor.token_kind in rule.kinds:
        return
    if KINDS[actor.token_kind].confined:
        raise not_accessible(actor)
    raise Forbidden(f"This operation does not accept {KINDS[actor.token_kind].title}s.", code="wrong_token_kind")


def check_token(actor: Actor, rule: Rule) -> None:
    if not KINDS[actor.token_kind].confined:
        if rule.scopes and not expand(actor.scopes) & set(rule.scopes):
            wanted = " or ".join(rule.scopes)
            raise Forbidden(f"The token needs the scope {wanted}.", code="missing_scope")
    elif rule.permission and not any(allows(each, rule.permission) for each in actor.grants or ()):
        raise not_accessible(actor)


def admit(actor: Actor, rule: Rule) -> Actor:
    """Check a `user` rule as the authenticator does, for operations that also accept credentials other than a token."""
    check_kind(actor, rule)
    check_token(actor, rule)
    return msgspec.structs.replace(actor, need=rule.permission)


def check_repository(repository: Repository | None, rule: Rule, actor: Actor) -> Repository:
    """Raise `NotFound` if the caller cannot see the repository, and `Forbidden` if they lack a right."""
    repository = require_found(repository)
    hidden = repository.role is None or not covers(actor, repository.owner.id, repository.id)
    actor.request.set_subject(repository.owner.id, repository.id, hidden=hidden, names=repository.names)
    if repository.role is None or hidden:
        raise NotFound()
    # For an installation, the permission decides, which is checked next.
    if actor.installation_id is None and _ROLES.index(repository.role) < _ROLES.index(rule.role):
        raise Forbidden(say("Must have {} rights to Repository.", name_of_role(str(rule.role))), code="missing_role")
    check_reach(actor, repository.owner.id, repository.id)
    return repository


def check_organization(organization: Organization | None, rule: Rule, actor: Actor) -> Organization:
    """Raise `NotFound` if the caller cannot see the organization, and `Forbidden` if they lack a right."""
    organization = require_found(organization)
    is_seen = organization.role is not None or (rule.role == "invited" and organization.is_invited)
    hidden = not is_seen or not covers(actor, organization.account.id)
    actor.request.set_subject(organization.account.id, hidden=hidden, names=[organization.account.login])
    if hidden:
        raise NotFound()
    if rule.role == "owner" and organization.role != "owner" and actor.installation_id is None:
        raise Forbidden("You must be an organization owner.", code="missing_role")
    check = check_whole_account if rule.whole else check_reach
    check(actor, organization.account.id)
    return organization
