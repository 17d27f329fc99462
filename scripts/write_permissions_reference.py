"""Writes docs/integrators/permissions.md from the policy table and the operations. A test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workhook import asgi
from workhook.http.openapi_text import TAGS
from workhook.http.operations import WEBHOOK_API, WORK_API, Operation
from workhook.identity.policy import PERMISSIONS, RULES, SCOPES, Rule, expand
from workhook.identity.tokens.issue import KINDS

PAGE = Path(__file__).parent.parent / "docs" / "integrators" / "permissions.md"

HEAD = """# Tokens and permissions

A token does what its user may, and no more than it was given: scopes, or permissions on chosen organizations and
repositories. What the caller or its token does not see is 404, like what is not there. What it sees but may not do is
403, and the message names the role, the scope or the permission that is missing.

Every answer names what the operation takes: `X-Accepted-OAuth-Scopes` (one of these is enough),
`X-Accepted-GitHub-Permissions`, and of a token with scopes its own in `X-OAuth-Scopes`. In `/openapi.json` they are
under `security` and `x-permissions`.

`GitHub-Authentication-Token-Expiration` tells when the token ends, if it does, and `X-OAuth-Client-Id` the client id of
the OAuth app that the token is of.

## Kinds of token
| kind | begins with | how it is issued | carries |
| --- | --- | --- | --- |
"""
_ISSUED = {
    "classic": "`POST /user/tokens`, `workhook token create`",
    "fine_grained": "the same",
    "oauth": "an OAuth app's authorization code or device flow",
    "app_user": "the same flows of an app",
    "installation": "`POST /app/installations/{id}/access_tokens` with the app's JWT; for an hour",
}
_CARRIES = {
    "classic": "scopes",
    "fine_grained": "permissions on one organization, or on chosen repositories of it",
    "oauth": "scopes",
    "app_user": "the permissions of the app's installations, as far as the user has them, or less",
    "installation": "the installation's permissions on its repositories",
}
_FOR_SCOPES = {
    "repo": "webhooks of repositories, and publishing events; collaborators, with a classic token",
    "admin:repo_hook": "webhooks of repositories, deleting them too; publishing events",
    "write:repo_hook": "webhooks of repositories, but for deleting; publishing events",
    "read:repo_hook": "reading webhooks of repositories",
    "admin:org_hook": "webhooks of the organization; its audit log",
    "admin:org": "the organization's audit log; with a classic token also people, OAuth apps, apps and installations",
    "work": "work management",
    "work:read": "reading in work management",
    "site_admin": "people and organizations of the server, for its administrators; with a classic token",
}
_FOR_PERMISSIONS = {
    "repository_hooks": "webhooks of repositories, and publishing events",
    "organization_hooks": "webhooks of the organization, whatever repositories were chosen; its audit log if all were",
    "work": "work management",
}
_SCOPES = """

## Scopes
| scope | for | has also |
| --- | --- | --- |
"""
_PERMISSIONS = """

## Permissions
Each is `read` or `write`, which is also `read`.

| permission | for |
| --- | --- |
"""
_WEBHOOKS = """
## Webhooks, accounts and apps
The role is that in the repository or organization that the path names. Of an installation the permission alone decides.
"""
_ROLES = """
## Roles
| who | is |
| --- | --- |
| owner | an owner of the organization: an admin of every repository |
| admin, write, read | somebody who was added to a repository with this role |
| member | in the organization: has the role write in every project that is not private |
| client | somebody from outside who looks into a project: no role in its repository |
| app | an app's installation: a member who sees private projects too, within its repositories; it is never an owner |

In work management each operation asks for a place in the project rather than for a role:

| what | owner | member, app | client |
| --- | --- | --- | --- |
| tasks, columns, files | all | all | read; create tasks and files; change and delete its own |
| comments | change its own; hide, delete all (an admin too) | change and delete its own | change and delete its own |
| what is private in a project, timesheets, credits, draft invoices | all | all | does not exist |
| invoices that were sent, checkouts | all | all | read |
| services | all | read | does not exist |
| who is in a project | change (an admin of the project, too) | read | nothing |
| clients | all | all; an app by itself only reads | itself |
| deleting a project | yes (an admin of the project, too) | no | no |

A collaborator with the role read changes nothing. A token of chosen repositories makes no projects and changes no
services. It starts no timer while the user's other one runs where it does not reach.
"""
_CALLERS = {
    None: "", "read": "read", "write": "write", "admin": "admin", "member": "member", "owner": "owner",
    "invited": "member or invited",
}  # fmt: skip


def render() -> str:
    """Return the whole page."""
    operations = [each for each in asgi.described() if each.access is not None]
    lines = [f"| {row} |" for row in _kinds()]
    page = HEAD + "\n".join(lines) + _SCOPES + "\n".join(f"| {row} |" for row in _scopes()) + _PERMISSIONS
    page += "\n".join(f"| `{name}` | {_FOR_PERMISSIONS[name]} |" for name in PERMISSIONS) + "\n" + _ROLES + _WEBHOOKS
    for tag in _tags(operations):
        page += f"\n### {tag[0].upper() + tag[1:]}\n| operation | scope | permission | role | kinds of token |\n"
        page += "| --- | --- | --- | --- | --- |\n"
        page += "\n".join(_row(each) for each in operations if each.area is WEBHOOK_API and each.tag == tag) + "\n"
    return page + _work(operations)


def _kinds() -> Iterator[str]:
    for kind in KINDS.values():
        yield f"{kind.title} | `{kind.prefix}` | {_ISSUED[kind.name]} | {_CARRIES[kind.name]}"


def _scopes() -> Iterator[str]:
    for scope in SCOPES:
        implied = expand(frozenset({scope})) - {scope}
        yield f"`{scope}` | {_FOR_SCOPES[scope]} | {', '.join(f'`{each}`' for each in SCOPES if each in implied)}"


def _tags(operations: list[Operation]) -> list[str]:
    used = {each.tag for each in operations if each.area is WEBHOOK_API}
    return [*(tag for tag in TAGS if tag in used), *sorted(used - set(TAGS))]


def _row(operation: Operation) -> str:
    rule = RULES[str(operation.access)]
    permission = f"`{'='.join(rule.permission)}`" if rule.permission else ""
    scopes = " or ".join(f"`{each}`" for each in rule.scopes)
    path = f"`{operation.method} {operation.path}`"
    return f"| {path} | {scopes} | {permission} | {_CALLERS[rule.role]} | {_taken(rule)} |"


def _taken(rule: Rule) -> str:
    if rule.target in ("app", "client"):
        return {"app": "the app's JWT", "client": "the app's client id and secret"}[rule.target]
    if rule.kinds == frozenset(KINDS):
        return "every"
    return ", ".join(name.replace("_", " ") for name in KINDS if name in rule.kinds)


def _work(operations: list[Operation]) -> str:
    own = [each for each in operations if str(each.access).startswith("notifications.")]
    whole = [each for each in operations if each.access == "organization.export"]
    mine = [each for each in operations if each.area is WORK_API and each not in (*own, *whole)]
    reading = sorted({each.tag for each in mine})
    page = "\n## Work management\nEvery kind of token. Roles: above.\n\n| operations | scope | permission |\n"
    page += "| --- | --- | --- |\n"
    for name, what in (("work.read", "every GET"), ("work.write", "everything else")):
        rule = RULES[name]
        assert rule.permission is not None
        assert all((each.access == name) == ((each.method == "GET") == (name == "work.read")) for each in mine)
        scopes = " or ".join(f"`{scope}`" for scope in SCOPES if expand(frozenset({scope})) & set(rule.scopes))
        page += f"| {what} | {scopes} | `{'='.join(rule.permission)}` |\n"
    page += f"\nResources: {', '.join(reading)}.\n\n"
    kinds = _taken(RULES["notifications.read"])
    page += f"{', '.join(sorted({each.tag for each in own}))}: the same scopes; only tokens of the kinds {kinds}.\n\n"
    paths, rule = ", ".join(f"`{each.method} {each.path}`" for each in whole), RULES["organization.export"]
    scopes = " or ".join(f"`{each}`" for each in rule.scopes)
    return page + f"{paths}: {scopes} and `work:read`, of an owner; only tokens of the kind {_taken(rule)}.\n"


if __name__ == "__main__":
    PAGE.write_text(render())
