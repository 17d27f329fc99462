"""The lists of people, places, apps, tokens and webhooks. They have numbered pages, and tell how many there are."""

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
"""Of work for who may write: those who only read are looked at, too."""

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
    # Of each invitation that waits (a place has a thousand at most) is asked whether its inviter still may invite, and
    # whether the viewer knows whom it is for: some dozens of looks.
    *(
        _few(each)
        for each in (
            "organization_invitations_list", "repository_invitations_list", "user_repository_invitations_list",
        )
    ),
    _few("user_memberships", {"state": "pending"}),
    # Everybody on the server is counted with a page; only administrators ask for it.
    _few("admin_users_list"),
    # On PostgreSQL the plan for these values goes through all projects.
    *(_few(each) for each in ("user_repositories", "account_repositories", "organization_repositories")),
    _few("account_repositories", place="shared"),
    # All of an installation that is shown is read of each that is only counted; and who asks with a token of an app's
    # user is looked up with every installation of the app.
    _few("installations_list"),
    _few("app_installations_list", caller="app"),
    _few("user_installations_list", caller="app_user"),
    # Of each repository is asked, for the count, what the caller may do there.
    _few("installation_repositories_list", caller="installation"),
    _few("user_installation_repositories_list", caller="app_user"),
)  # fmt: skip
"""What looks at more than it shows and counts, and why. Not judged."""
