"""Who may do what: one table, read by the guard, the headers and the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass

from workhook.core.errors import Forbidden, NotFound
from workhook.http.openapi import Access
from workhook.identity.schemas import Actor, Organization, Repository

SCOPES = ("repo", "admin:repo_hook", "write:repo_hook", "read:repo_hook", "admin:org_hook", "work", "work:read")
_IMPLIED = {
    "repo": {"read:repo_hook", "write:repo_hook", "admin:repo_hook"},
    "admin:repo_hook": {"write:repo_hook", "read:repo_hook"},
    "write:repo_hook": {"read:repo_hook"},
    "work": {"work:read"},
}
_ROLES = (None, "read", "write", "admin")


@dataclass(frozen=True)
class Rule:
    """`scopes`: a token needs one of these. `target`: what the path names. `role`: what the caller needs there."""

    target: str  # repository | organization | user
    scopes: tuple[str, ...] = ()
    role: str | None = None


RULES = {
    "user": Rule("user"),
    "organization.read": Rule("organization", role="member"),
    "repository.read": Rule("repository", role="read"),
    "repository_hooks.read": Rule("repository", ("read:repo_hook", "repo"), "admin"),
    "repository_hooks.write": Rule("repository", ("write:repo_hook", "repo"), "admin"),
    "repository_hooks.delete": Rule("repository", ("admin:repo_hook", "repo"), "admin"),
    "organization_hooks": Rule("organization", ("admin:org_hook",), "owner"),
    "repository.publish": Rule("repository", ("repo", "write:repo_hook"), "write"),
    "organization.publish": Rule("organization", ("admin:org_hook",), "owner"),
    "work.read": Rule("user", ("work:read",)),
    "work.write": Rule("user", ("work",)),
}


def expand(scopes: frozenset[str]) -> frozenset[str]:
    """With what each scope implies."""
    implied: set[str] = set(scopes)
    for scope in scopes:
        implied |= _IMPLIED.get(scope, set())
    return frozenset(implied)


def accepted(rule: Rule) -> str:
    """What `X-Accepted-OAuth-Scopes` lists: every scope that lets a token through."""
    fitting = [scope for scope in SCOPES if not rule.scopes or expand(frozenset({scope})) & set(rule.scopes)]
    return ", ".join(sorted(fitting)) if rule.scopes else ""


_CALLERS = {
    ("repository", "read"): "somebody who can read the repository",
    ("repository", "write"): "somebody who can write to the repository",
    ("repository", "admin"): "an admin of the repository",
    ("organization", "member"): "a member of the organization",
    ("organization", "owner"): "an owner of the organization",
}


def access_of(name: str) -> Access:
    """A rule as the OpenAPI document tells it."""
    rule = RULES[name]
    scopes = " or ".join(f"`{scope}`" for scope in rule.scopes)
    token = f"a token with the scope {scopes}" if scopes else "a token, of any scope"
    caller = f" of {_CALLERS[rule.target, rule.role]}" if rule.role else ""
    fitting = tuple(filter(None, accepted(rule).split(", ")))
    return Access(fitting, f"Needs {token}{caller}.")


def check_scopes(actor: Actor, rule: Rule) -> None:
    """Raises `Forbidden` naming the scope that is missing."""
    if rule.scopes and not expand(actor.scopes) & set(rule.scopes):
        wanted = " or ".join(rule.scopes)
        raise Forbidden(f"The token lacks a scope: this needs {wanted}.", code="missing_scope")


def check_repository(repository: Repository | None, rule: Rule) -> Repository:
    """Raises `NotFound` for what the caller cannot see and `Forbidden` for what it may not do."""
    if repository is None or repository.role is None:
        raise NotFound()
    if _ROLES.index(repository.role) < _ROLES.index(rule.role):
        if rule.role == "admin":
            raise Forbidden("Must have admin rights to Repository.", code="missing_role")
        raise Forbidden(f"Must have {rule.role} rights to Repository.", code="missing_role")
    return repository


def check_organization(organization: Organization | None, rule: Rule) -> Organization:
    """Likewise for an organization."""
    if organization is None or organization.role is None:
        raise NotFound()
    if rule.role == "owner" and organization.role != "owner":
        raise Forbidden("You must be an organization owner.", code="missing_role")
    return organization
