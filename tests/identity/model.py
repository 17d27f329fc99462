"""Expected permissions, derived from "Tokens and permissions" and "Who may" of the design as a check on `policy.RULES`.

Nothing here is computed by the program. A new operation has no expectation until it is added to this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.work.requests_kit import TABLE as WORK

FULL = {"repository_hooks": "write", "organization_hooks": "write", "work": "write"}
HERE, OTHER_REPOSITORY, OTHER_ORGANIZATION = "here", "another repository", "another organization"
CONFINED = ("fine_grained", "app_user", "installation")
EVERY = frozenset({"classic", "oauth", *CONFINED})

ALLOWED = "allowed"


@dataclass(frozen=True)
class Credential:
    """The credentials of a request.

    `kind` is nobody, bad, a kind of token, app (a JWT) or client (ID and secret). `place` is where a token's
    permissions apply. `header` is None for requests without credentials. `other` means an app other than the one in the
    path.
    """

    name: str
    kind: str
    caller: str = ""
    header: str | None = field(default=None, repr=False)
    scopes: frozenset[str] = frozenset()
    permissions: Mapping[str, str] = field(default_factory=dict)
    place: str = HERE
    other: bool = False

    def has(self, permission: tuple[str, str] | None) -> bool:
        name, level = permission or ("", "")
        return permission is None or self.permissions.get(name) in (level, "write")


@dataclass(frozen=True)
class Need:
    """The requirements of an operation.

    Each one of `scopes` suffices alone; if empty, no scope is required. `whole` means that the operation concerns the
    entire organization, so a token for selected repositories does not suffice.
    """

    target: str  # open, work, repository, organization, user, administrator, app, client
    scopes: tuple[str, ...] = ()
    permission: tuple[str, str] | None = None
    role: str = ""
    kinds: frozenset[str] = EVERY
    whole: bool = False
    own: bool = False  # for apps and tokens: those of others are not found


# --- webhooks, accounts, apps ----------------------------------------------------------------------------------------

_READ = ("admin:repo_hook", "read:repo_hook", "repo", "write:repo_hook")
_WRITE = ("admin:repo_hook", "repo", "write:repo_hook")
_DELETE = ("admin:repo_hook", "repo")
_HOOKS_READ, _HOOKS_WRITE = ("repository_hooks", "read"), ("repository_hooks", "write")
_ORG_READ, _ORG_WRITE = ("organization_hooks", "read"), ("organization_hooks", "write")

_read = Need("repository", _READ, _HOOKS_READ, "admin")
_write = Need("repository", _WRITE, _HOOKS_WRITE, "admin")
_org_read = Need("organization", ("admin:org_hook",), _ORG_READ, "owner")
_org_write = Need("organization", ("admin:org_hook",), _ORG_WRITE, "owner")
_client = Need("client", own=True)
_manage = Need("organization", ("admin:org",), None, "owner", kinds=frozenset({"classic"}))
_PEOPLE = frozenset({"classic", "oauth", "fine_grained", "app_user"})
_OPEN = Need("open")


def _of_hooks(place: str, reading: Need, writing: Need, deleting: Need) -> dict[str, Need]:
    one = f"{place}/hooks/{{}}"
    return {
        **dict.fromkeys((f"GET {place}/hooks", f"GET {one}", f"GET {one}/config", f"GET {one}/health"), reading),
        **dict.fromkeys((f"GET {one}/deliveries", f"GET {one}/deliveries/{{}}"), reading),
        f"GET {one}/redeliveries/{{}}": reading,
        **dict.fromkeys((f"POST {place}/hooks", f"PATCH {one}", f"PATCH {one}/config", f"POST {one}/pings"), writing),
        **dict.fromkeys((f"POST {one}/deliveries/{{}}/attempts", f"POST {one}/deliveries/redeliver"), writing),
        f"DELETE {one}": deleting,
    }


def _of_apps(apps: str) -> list[str]:
    one = f"{apps}/{{}}"
    return [
        f"GET {apps}", f"POST {apps}", f"GET {one}", f"PATCH {one}", f"DELETE {one}",
        f"POST {one}/secrets", f"GET {one}/secrets/{{}}", f"DELETE {one}/secrets/{{}}", f"DELETE {one}/tokens",
    ]  # fmt: skip


_REPOSITORY, _ORGANIZATION = "/repos/{}/{}", "/orgs/{}"
_INSTALLATION, _INSTALLED = "/app/installations/{}", "/orgs/{}/installations"

WEBHOOKS: dict[str, Need] = {
    **dict.fromkeys(
        ("GET /", "GET /rate_limit", "GET /zen", "GET /meta", "GET /versions", "GET /webhook-events"), _OPEN
    ),
    "GET /apps/{}": _OPEN,
    **dict.fromkeys(
        (
            "GET /user",
            "GET /user/emails",
            "GET /user/orgs",
            "GET /user/repos",
            "GET /user/teams",
            "GET /user/memberships/orgs",
            "POST /graphql",
        ),
        Need("user", kinds=_PEOPLE),
    ),
    # Users see others in the same organization. The path names the organization.
    **dict.fromkeys(
        (
            f"GET {_ORGANIZATION}",
            f"GET {_ORGANIZATION}/repos",
            f"GET {_ORGANIZATION}/members",
            f"GET {_ORGANIZATION}/members/{{}}",
            f"GET {_ORGANIZATION}/memberships/{{}}",
            "GET /users/{}",
            "GET /users/{}/orgs",
            "GET /users/{}/repos",
            "GET /users/{}/keys",
            "GET /users/{}/gpg_keys",
            "GET /user/{}",
            "GET /organizations/{}",
        ),
        Need("organization", role="member"),
    ),
    "GET /user/memberships/orgs/{}": Need("organization", role="member", kinds=_PEOPLE),
    **dict.fromkeys((f"GET {_REPOSITORY}", "GET /repositories/{}"), Need("repository", role="read")),
    **dict.fromkeys(
        (
            f"GET {_REPOSITORY}/collaborators",
            f"GET {_REPOSITORY}/collaborators/{{}}",
            f"GET {_REPOSITORY}/collaborators/{{}}/permission",
        ),
        Need("repository", role="write"),
    ),
    **_of_hooks(_REPOSITORY, _read, _write, Need("repository", _DELETE, _HOOKS_WRITE, "admin")),
    **dict.fromkeys((f"POST {_REPOSITORY}/hooks/{{}}/tests", f"POST {_REPOSITORY}/hooks/{{}}/test"), _write),
    **dict.fromkeys(
        (f"POST {_REPOSITORY}/events", f"POST {_REPOSITORY}/dispatches"),
        Need("repository", _WRITE, _HOOKS_WRITE, "write"),
    ),
    **_of_hooks(_ORGANIZATION, _org_read, _org_write, _org_write),
    **{
        key: Need("organization", ("admin:org_hook",), ask, "owner", frozenset({"classic", "fine_grained"}), whole=True)
        for key, ask in (
            (f"GET {_ORGANIZATION}/oauth-hooks", _ORG_READ),
            (f"DELETE {_ORGANIZATION}/oauth-hooks/{{}}", _ORG_WRITE),
        )
    },
    f"POST {_ORGANIZATION}/events": _org_write,
    f"GET {_ORGANIZATION}/audit-log": Need(
        "organization", ("admin:org", "admin:org_hook"), _ORG_WRITE, "owner", whole=True
    ),
    # server administration
    **dict.fromkeys(
        (
            "GET /admin/users",
            "POST /admin/users",
            "DELETE /admin/users/{}",
            "POST /admin/users/{}/disable",
            "POST /admin/users/{}/enable",
            "POST /admin/organizations",
            "DELETE /admin/organizations/{}",
        ),
        Need("administrator", ("site_admin",), kinds=frozenset({"classic"})),
    ),
    # personal tokens
    **dict.fromkeys(("GET /user/tokens", "POST /user/tokens"), Need("user", kinds=frozenset({"classic"}))),
    **dict.fromkeys(
        ("GET /user/tokens/{}", "DELETE /user/tokens/{}"), Need("user", kinds=frozenset({"classic"}), own=True)
    ),
    # management of apps by owners
    **dict.fromkeys((*_of_apps("/orgs/{}/oauth-apps"), *_of_apps("/orgs/{}/apps")), _manage),
    **dict.fromkeys((f"{method} /orgs/{{}}/apps/{{}}/keys" for method in ("GET", "POST")), _manage),
    **dict.fromkeys(("GET /orgs/{}/apps/{}/keys/{}", "DELETE /orgs/{}/apps/{}/keys/{}"), _manage),
    f"DELETE {_ORGANIZATION}": _manage,
    **dict.fromkeys((f"GET {_INSTALLED}", f"POST {_INSTALLED}"), _manage),
    **dict.fromkeys((f"{method} {_INSTALLED}/{{}}" for method in ("GET", "PATCH", "DELETE")), _manage),
    **dict.fromkeys(
        (f"{method} /user/installations/{{}}/repositories/{{}}" for method in ("PUT", "DELETE")),
        Need("user", ("admin:org",), role="owner", kinds=frozenset({"classic"})),
    ),
    **dict.fromkeys((f"{method} {_INSTALLED}/{{}}/suspended" for method in ("PUT", "DELETE")), _manage),
    # operations of apps
    **dict.fromkeys(("GET /app", "GET /app/installations", "GET /app/installation-requests"), Need("app")),
    **dict.fromkeys((f"GET {_INSTALLATION}", f"DELETE {_INSTALLATION}"), Need("app", own=True)),
    **dict.fromkeys((f"{method} {_INSTALLATION}/suspended" for method in ("PUT", "DELETE")), Need("app", own=True)),
    f"POST {_INSTALLATION}/access_tokens": Need("app", own=True),
    **dict.fromkeys(
        (f"GET {place}/installation" for place in (_ORGANIZATION, _REPOSITORY, "/users/{}", "/repositories/{}")),
        Need("app", own=True),
    ),
    **dict.fromkeys(
        ("GET /installation/repositories", "DELETE /installation/token"),
        Need("user", kinds=frozenset({"installation"})),
    ),
    "GET /user/installations": Need("user", kinds=frozenset({"app_user"})),
    "GET /user/installations/{}/repositories": Need("user", kinds=frozenset({"app_user"}), own=True),
    **dict.fromkeys((f"{method} /applications/{{}}/token" for method in ("POST", "PATCH", "DELETE")), _client),
    "DELETE /applications/{}/grant": _client,
    "POST /applications/{}/token/scoped": _client,
}

_REPOSITORY_ROLES = {"owner": "admin", "admin": "admin", "member": "write", "app": "app"}
_ORGANIZATION_ROLES = {"owner": "owner", "member": "member", "app": "app"}
_ORDER = ("read", "write", "admin", "app")  # for an app's installation, only the permission matters


def of_webhooks(key: str, by: Credential) -> str:
    """Return the expected outcome in the webhook API: 401, 403, 404 or `ALLOWED`. `key` is a key of `WEBHOOKS`."""
    need = WEBHOOKS[key]
    if by.kind == "bad":
        return "401"
    if need.target == "open":
        return "401" if by.kind == "client" else ALLOWED
    if need.target in ("app", "client"):
        if by.kind != need.target:
            return "401"
        return "404" if need.own and by.other else ALLOWED
    if by.kind in ("nobody", "app", "client"):
        return "401"
    if by.kind not in need.kinds:
        return "403"
    if need.target == "administrator":  # no one in the cast is an administrator
        return "404" if by.scopes & set(need.scopes) else "403"
    if need.target == "user":
        return _of_user(key, need, by)
    return _of_place(need, by)


def _of_user(key: str, need: Need, by: Credential) -> str:
    if need.scopes and not by.scopes & set(need.scopes):
        return "403"
    if need.role:
        return {"owner": ALLOWED, "member": "403"}.get(by.caller, "404")
    if not need.own:
        return ALLOWED
    if key == "PATCH /user/memberships/orgs/{}":  # existing members remain unchanged
        return ALLOWED if by.caller in ("owner", "member") else "404"
    if "/repository_invitations/" in key:  # the path names a missing invitation
        return "404"
    if "/user/tokens" in key:  # the path names a token of the owner
        return ALLOWED if by.caller == "owner" else "404"
    mine = by.caller in ("owner", "admin", "member") and by.place == HERE and by.permissions == FULL
    return ALLOWED if mine else "404"


def _of_place(need: Need, by: Credential) -> str:
    roles = _REPOSITORY_ROLES if need.target == "repository" else _ORGANIZATION_ROLES
    if by.caller not in roles or by.place == OTHER_ORGANIZATION:
        return "404"
    if need.target == "repository" and by.place == OTHER_REPOSITORY:
        return "404"
    role = roles[by.caller]
    if need.target == "organization" and need.role == "owner" and role == "member":
        return "403"
    if need.target == "repository" and _ORDER.index(role) < _ORDER.index(need.role):
        return "403"
    if by.kind in CONFINED:
        fits = by.has(need.permission) and not (need.whole and by.place == OTHER_REPOSITORY)
    else:
        fits = not need.scopes or bool(by.scopes & set(need.scopes))
    return ALLOWED if fits else "403"


# The consent page does not mention these, because apps cannot do them for a user.
_OWNERS_OF_PEOPLE = Need("organization", ("admin:org",), None, "owner", kinds=frozenset({"classic"}))
_ADMINS_OF_PEOPLE = Need("repository", ("repo",), None, "admin", kinds=frozenset({"classic"}))
_OWN_INVITATION = Need("user", ("repo",), kinds=frozenset({"classic"}), own=True)
WEBHOOKS |= {
    **dict.fromkeys((f"{method} {_ORGANIZATION}/invitations" for method in ("GET", "POST")), _OWNERS_OF_PEOPLE),
    f"DELETE {_ORGANIZATION}/invitations/{{}}": _OWNERS_OF_PEOPLE,
    f"PUT {_ORGANIZATION}/memberships/{{}}": _OWNERS_OF_PEOPLE,
    # The path names another user. `tests.work.test_consent` tests leaving.
    **dict.fromkeys((f"DELETE {_ORGANIZATION}/{each}/{{}}" for each in ("memberships", "members")), _OWNERS_OF_PEOPLE),
    **dict.fromkeys((f"{method} {_REPOSITORY}/collaborators/{{}}" for method in ("PUT", "DELETE")), _ADMINS_OF_PEOPLE),
    f"GET {_REPOSITORY}/invitations": _ADMINS_OF_PEOPLE,
    **dict.fromkeys((f"{method} {_REPOSITORY}/invitations/{{}}" for method in ("PATCH", "DELETE")), _ADMINS_OF_PEOPLE),
    "PATCH /user/memberships/orgs/{}": Need("user", ("admin:org",), kinds=frozenset({"classic"}), own=True),
    "GET /user/repository_invitations": Need("user", ("repo",), kinds=frozenset({"classic"})),
    **dict.fromkeys((f"{method} /user/repository_invitations/{{}}" for method in ("PATCH", "DELETE")), _OWN_INVITATION),
}

# --- work management -------------------------------------------------------------------------------------------------

STREAM = "GET /projects/{}/stream"
WORK_SCOPES = {"read": ("work", "work:read"), "write": ("work",)}
_COLUMNS = {"owner": 0, "member": 1, "client": 2, "stranger": 3, "second": 3, "admin": 1, "app": 1}
# An admin of the project who is not in the organization is treated like a member except for these. Projects to delete
# and restore are different ones.
_ADMIN = {
    "GET /organizations/{}/members": 404,
    "GET /organizations/{}/usage": 404,
    "GET /organizations/{}/export": 404,
    "GET /organizations/{}/billing": 404,
    "PATCH /organizations/{}/billing": 404,
    "PUT /organizations/{}/billing/logo": 404,
    "DELETE /organizations/{}/billing/logo": 404,
    "GET /organizations/{}/members/{}": 404,
    "PATCH /organizations/{}/members/{}": 404,
    "PATCH /projects/{}/billing": 200,
    "DELETE /projects/{}": 404,
    "POST /projects/{}/restore": 404,
    "POST /projects/{}/members": 200,
    "DELETE /projects/{}/members/{}": 200,
    "DELETE /task_comments/{}": 200,
    "DELETE /file_comments/{}": 200,
    "DELETE /file_comments/{}/comments/{}": 200,
    "GET /services/{}": 404,
    "PATCH /services/{}": 404,
    "DELETE /services/{}": 404,
}
_NOT_BY_AN_APP = {"POST /projects/{}/clients", "DELETE /clients/{}"}  # only users decide who is in a project
SPANNING = {
    "GET /me", "GET /projects", "GET /trash", "GET /search", "GET /services", "GET /reports/timesheets", "GET /tasks",
    "GET /timesheets", "GET /timesheets/running", "GET /invoices", "GET /files", "GET /comments",
}  # fmt: skip
EXPORT = "GET /organizations/{}/export"
_OF_ORGANIZATION = {
    "GET /organizations/{}/members",
    "GET /organizations/{}/usage",
    "GET /organizations/{}/billing",
    "PATCH /organizations/{}/billing",
    "PUT /organizations/{}/billing/logo",
    "DELETE /organizations/{}/billing/logo",
    "GET /organizations/{}/members/{}",
    "PATCH /organizations/{}/members/{}",
    "GET /services/{}",
    "PATCH /services/{}",
    "DELETE /services/{}",
}


# A user's notifications, in whatever organization.
_OF_ONESELF = {
    "GET /me/notifications", "POST /me/notifications/{}/read", "POST /me/notifications/read",
    "GET /me/notification_settings", "PATCH /me/notification_settings",
}  # fmt: skip


def need_of_work(key: str) -> Need:
    level = "read" if key.startswith("GET ") else "write"
    if key in _OF_ONESELF:
        return Need("work", WORK_SCOPES[level], kinds=frozenset({"classic", "oauth"}))
    if key == EXPORT:
        return Need("work", ("admin:org",), kinds=frozenset({"classic"}))
    return Need("work", WORK_SCOPES[level], ("work", level))


def of_work(key: str, by: Credential) -> str:
    """Return the expected outcome in the work API. `key` is a key of `WORK`, or `STREAM`."""
    need = need_of_work(key)
    if by.kind in ("nobody", "bad", "app", "client"):
        return "401"
    if by.kind not in need.kinds:
        return "403"
    if by.kind in CONFINED:
        if not by.has(need.permission):
            return "403"
    elif not by.scopes & set(need.scopes) or (key == EXPORT and not by.scopes & set(WORK_SCOPES["read"])):
        return "404" if key == EXPORT and by.caller not in ("owner", "member") and by.scopes & {"admin:org"} else "403"
    if key in SPANNING:
        return ALLOWED
    if key in ("POST /projects", "POST /services"):
        return _of_new(key, by)
    return _of_record(key, by)


def _of_record(key: str, by: Credential) -> str:
    statuses = (200, 200, 403, 404) if key == STREAM else WORK[key][0]
    status = statuses[_COLUMNS[by.caller]]
    if by.caller == "admin":
        status = _ADMIN.get(key, status)
    if by.caller == "app" and key in _NOT_BY_AN_APP:
        status = 403
    if by.caller == "member" and key == "DELETE /projects/{}/members/{}":  # the path names the member, who may leave
        status = 200
    if by.place == OTHER_ORGANIZATION or (by.place == OTHER_REPOSITORY and key not in _OF_ORGANIZATION):
        status = 422 if key == "POST /tasks/bulk" else 404
    elif by.place == OTHER_REPOSITORY and not key.startswith("GET ") and status != 404:
        status = 403
    return ALLOWED if status == 200 else str(status)


def _of_new(key: str, by: Credential) -> str:
    """Return the expected outcome of creating a project in the caller's organization, or a service in this one."""
    inside = {"owner": HERE, "member": HERE, "second": OTHER_ORGANIZATION}.get(by.caller, "")
    if by.caller == "app":
        inside = OTHER_ORGANIZATION if by.place == OTHER_ORGANIZATION else HERE
    if by.kind in CONFINED:
        reached = OTHER_ORGANIZATION if by.place == OTHER_ORGANIZATION else HERE
        if inside != reached:
            return "403"
        if key == "POST /services" and inside != HERE:
            return "422"
        if by.place == OTHER_REPOSITORY:
            return "403"
    elif key == "POST /services" and inside != HERE:
        return "422"
    if key == "POST /services" and by.caller != "owner":
        return "403"
    return ALLOWED


def shows_the_project(by: Credential) -> bool:
    """Return whether lists that span projects include this one. Clients see it too."""
    return by.caller not in ("stranger", "second") and by.place == HERE
