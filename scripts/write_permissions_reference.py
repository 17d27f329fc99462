"""Write docs/integrators/permissions.md from the policy table and the operations. `check_repository` compares the two.

python -m scripts.write_permissions_reference
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workhook import asgi
from workhook.http.openapi_text import TAGS
from workhook.http.operations import WEBHOOK_API, WORK_API, Operation
from workhook.identity.policy import PERMISSIONS, RULES, SCOPES, Rule, expand
from workhook.identity.tokens.issue import KINDS

PAGE = Path(__file__).parent.parent / "docs" / "integrators" / "permissions.md"

HEAD = """# Permissions

A token grants at most what its user may do, limited by its scopes, or by its permissions on chosen organizations and
repositories. Objects that the caller or the token cannot see return 404. Operations that are visible but not allowed
return 403, with the missing role, scope, or permission in the message.

In every response, `X-Accepted-OAuth-Scopes` lists the scopes that the operation accepts (one of them is enough), and
`X-Accepted-GitHub-Permissions` lists the permissions. `X-OAuth-Scopes` lists the scopes of a token that has any. In
`/openapi.json`, scopes and permissions are under `security` and `x-permissions`.
`GitHub-Authentication-Token-Expiration` states when the token expires, and `X-OAuth-Client-Id` states which OAuth app
it belongs to.

## Kinds of tokens

| kind | prefix | issued by | grants |
| --- | --- | --- | --- |
"""
_ISSUED = {
    "classic": "the web app, `POST /user/tokens`, `workhook token create`",
    "fine_grained": "`POST /user/tokens`, `workhook token create`",
    "oauth": "an OAuth app's authorization code flow or device flow",
    "app_user": "an app's authorization code flow or device flow",
    "installation": "`POST /app/installations/{id}/access_tokens` with the app's JWT; valid for an hour",
}
_CARRIES = {
    "classic": "scopes",
    "fine_grained": "permissions on an organization, or on chosen repositories of it",
    "oauth": "scopes",
    "app_user": "at most the permissions that both the app's installations and the user have",
    "installation": "the installation's permissions on its repositories",
}
_FOR_SCOPES = {
    "repo": "webhooks of repositories, publishing events; with a classic token also collaborators",
    "admin:repo_hook": "webhooks of repositories, publishing events",
    "write:repo_hook": "webhooks of repositories except deleting them, publishing events",
    "read:repo_hook": "reading webhooks of repositories",
    "admin:org_hook": "webhooks of the organization, its audit log",
    "admin:org": "the organization's audit log; with a classic token also people, OAuth apps, apps, and installations",
    "work": "the work API",
    "work:read": "reading with the work API",
    "site_admin": "people and organizations of the server, for administrators with a classic token",
}
_FOR_PERMISSIONS = {
    "repository_hooks": "webhooks of repositories, publishing events",
    "organization_hooks": "webhooks of the organization, for any chosen repositories; its audit log if all are chosen",
    "work": "the work API",
}
_SCOPES = """

## Scopes

| scope | grants | includes |
| --- | --- | --- |
"""
_PERMISSIONS = """

## Fine-grained permissions

Each is `read` or `write`; `write` includes `read`.

| permission | grants |
| --- | --- |
"""
_WEBHOOKS = """
## Webhooks, accounts, and apps

The role is the role in the repository or organization named in the path. For installations, only the permission counts.
"""
_ROLES = """
## Roles

| role | who has it |
| --- | --- |
| owner | an owner of the organization, who is an admin of every repository |
| admin, write, read | a person added to a repository with this role |
| member | a member of the organization, with the role write in every project that is not private |
| client | an outside person with limited access to a project, without a role in its repository |
| app | an app's installation: like a member who also sees private projects, within its repositories; never an owner |

In the work API, access depends on the person's place in the project:

| object | owner | member, app | client |
| --- | --- | --- | --- |
| tasks, columns, files | all | all | read; create tasks and files; change and delete their own |
| comments | change their own; hide and delete all (admins as well) | change and delete their own | the same |
| private content, timesheets, credits, draft invoices | all | all | hidden |
| sent invoices, subscriptions | all | all | read |
| services | all | read | hidden |
| people in a project | change (admins of the project as well) | read | hidden |
| clients | all | all; apps acting for themselves only read | themselves |
| deleting a project | yes (admins of the project as well) | no | no |

Collaborators with the role read change nothing. A token for chosen repositories cannot create projects or change
services, and cannot start a timer while the user's other timer runs in a project that the token cannot access.
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
        page += f"\n### {tag[0].upper() + tag[1:]}\n\n| operation | scope | permission | role | kinds of tokens |\n"
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
        return "all"
    return ", ".join(name.replace("_", " ") for name in KINDS if name in rule.kinds)


def _work(operations: list[Operation]) -> str:
    own = [each for each in operations if str(each.access).startswith("notifications.")]
    whole = [each for each in operations if each.access == "organization.export"]
    mine = [each for each in operations if each.area is WORK_API and each not in (*own, *whole)]
    reading = sorted({each.tag for each in mine})
    page = (
        "\n## Work API\n\nFor every kind of token. See [Roles](#roles) above.\n\n| operations | scope | permission |\n"
    )
    page += "| --- | --- | --- |\n"
    for name, what in (("work.read", "every GET"), ("work.write", "all others")):
        rule = RULES[name]
        assert rule.permission is not None
        assert all((each.access == name) == ((each.method == "GET") == (name == "work.read")) for each in mine)
        scopes = " or ".join(f"`{scope}`" for scope in SCOPES if expand(frozenset({scope})) & set(rule.scopes))
        page += f"| {what} | {scopes} | `{'='.join(rule.permission)}` |\n"
    page += f"\nResources: {', '.join(reading)}.\n\n"
    kinds = _taken(RULES["notifications.read"]).replace(", ", " and ")
    page += f"{', '.join(sorted({each.tag for each in own}))}: the same scopes, only for {kinds} tokens.\n\n"
    paths, rule = ", ".join(f"`{each.method} {each.path}`" for each in whole), RULES["organization.export"]
    scopes = " or ".join(f"`{each}`" for each in rule.scopes)
    return page + f"{paths}: {scopes} and `work:read`, only for owners with a {_taken(rule)} token.\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
