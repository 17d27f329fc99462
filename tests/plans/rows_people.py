"""The lists of people, organizations, projects, apps, tokens and webhooks.

They have numbered pages and report a total.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.plans.rows import Row


def _few(
    operation: str,
    query: Mapping[str, str] | None = None,
    *,
    place: str = "few",
    caller: str = "few",
    bound: int = 0,
) -> Row:
    return Row(operation, query or {}, place=place, caller=caller, bound=bound, counts=True)


_MEMBERS, _COLLABORATORS = "organization_members", "repository_collaborators"
_WITH_READERS = 2000
"""Allowed work for the collaborators with write access: those with read access are read as well."""

ROWS = (
    *(
        _few(each)
        for each in (
            "user_organizations", "tokens_list", "oauth_apps_list", "apps_list", "repository_hooks_list",
            "organization_hooks_list", "oauth_hooks_list", _MEMBERS, _COLLABORATORS,
        )
    ),
    _few("account_organizations", place="shared"),
    _few("user_memberships"),
    _few("user_memberships", {"state": "active"}),
    *(_few(_MEMBERS, {"role": each}) for each in ("all", "admin", "member")),
    _few(_MEMBERS, {"filter": "all"}),
    _few(_MEMBERS, {"role": "admin"}, place="project", caller="owner"),
    *(_few(_COLLABORATORS, {"affiliation": each}) for each in ("all", "direct", "outside")),
    *(_few(_COLLABORATORS, {"permission": each}) for each in ("pull", "maintain", "admin")),
    *(_few(_COLLABORATORS, {"permission": each}, bound=_WITH_READERS) for each in ("triage", "push")),
)  # fmt: skip

NOT_YET = (
    # For each pending invitation (a place has at most a thousand), the inviter's right to invite and the viewer's
    # knowledge of the invitee are checked, which takes a few dozen reads.
    *(
        _few(each)
        for each in (
            "organization_invitations_list", "repository_invitations_list", "user_repository_invitations_list",
        )
    ),
    _few("user_memberships", {"state": "pending"}),
    # Everyone on the server is counted with each page, but only administrators request it.
    _few("admin_users_list"),
    # On PostgreSQL, the plan for these values scans all projects.
    *(_few(each) for each in ("user_repositories", "account_repositories", "organization_repositories")),
    _few("account_repositories", place="shared"),
    # All columns of a shown installation are also read for those that are only counted, and callers with a user token
    # of an app are looked up with every installation of the app.
    _few("installations_list"),
    _few("app_installations_list", caller="app"),
    _few("user_installations_list", caller="app_user"),
    # For the total, the caller's role in each repository is checked.
    _few("installation_repositories_list", caller="installation"),
    _few("user_installation_repositories_list", caller="app_user"),
)  # fmt: skip
"""Lists that read more than they show and count, with the reason. They are not judged."""
