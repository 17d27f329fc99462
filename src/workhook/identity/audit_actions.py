"""What the audit log calls operations: the thing, a full stop, and what was done: `task.create`, `hook.ping`."""

from __future__ import annotations

import re
from functools import cache

from workhook.http.operations import WORK_API, Operation

# What is refused is called what it is called when it is done: one search finds both.
_OTHERWISE = {
    "account_get_by_number": "account.get",
    "app_access_tokens_create": "installation.create_token",
    "app_installation_of_organization": "installation.get",
    "app_installation_of_repository": "installation.get",
    "app_installation_of_repository_by_number": "installation.get",
    "app_installation_requests": "installation.list_requests",
    "app_installation_of_user": "installation.get",
    "change_tasks": "task.bulk",
    "installation_repositories_list": "installation.list_repositories",
    "installation_token_revoke": "installation.revoke_token",
    "oauth_access_token": "oauth_token.issue",
    "oauth_device_code": "device_code.create",
    "oauth_grant_delete": "grant.revoke",
    "oauth_token_delete": "oauth_token.revoke",
    "organization_get_by_number": "organization.get",
    "organization_invitations_cancel": "invitation.delete",
    "organization_members_remove": "member.remove",
    "organization_memberships_remove": "member.remove",
    "organization_memberships_set": "member.add",
    "page_authorize": "grant.authorize",
    "page_authorize_decide": "grant.authorize",
    "page_device_decide": "grant.authorize",
    "page_device_enter": "grant.authorize",
    "page_grant": "grant.revoke",
    "page_install": "installation.create",
    "page_install_decide": "installation.create",
    "page_install_permissions": "installation.create",
    "page_link": "user.sign_in",
    "page_link_post": "user.sign_in",
    "page_login_post": "user.sign_in",
    "page_logout": "user.sign_out",
    "page_oidc": "user.sign_in",
    "page_oidc_callback": "user.sign_in",
    "page_password_post": "user.password_change",
    "page_session_end": "user.session_end",
    "page_sessions_end": "user.session_end",
    "rate_limit": "rate_limit.get",
    "repository_collaborators_remove": "member.remove",
    "repository_collaborators_set": "member.add",
    "repository_dispatch": "event.dispatch",
    "repository_get_by_number": "repository.get",
    "repository_hooks_test_old": "hook.test",
    "repository_invitations_cancel": "invitation.delete",
    "tokens_delete": "token.revoke",
    "user_memberships_accept": "member.add",
    "user_repository_invitations_accept": "member.add",
    "user_repository_invitations_decline": "invitation.delete",
    "user_repository_invitations_list": "invitation.list",
    "user_installation_repositories_add": "installation.update",
    "user_installation_repositories_remove": "installation.update",
    "user_installation_repositories_list": "installation.list_repositories",
}
_PLACE = re.compile(r"^(repository|organization)_(?=[a-z]+_)|^(app|user)_(?=installations_)")

_TYPES = (
    ("access", ("get", "list", "read", "search", "follow", "report", "authenticate")),
    ("create", ("create", "add", "issue", "register", "install", "upload", "setup", "scope")),
    ("remove", ("delete", "remove", "purge", "revoke", "uninstall")),
    ("restore", ("restore",)),
    ("authentication", ("sign_in", "login", "logout", "sign_out", "authorize")),
)
_DONE = {"created": "create", "deleted": "delete", "removed": "remove", "restored": "restore", "archived": "archive",
         "unarchived": "unarchive", "purged": "purge", "edited": "edit", "added": "add"}  # fmt: skip
_TYPE_OF = {verb: kind for kind, verbs in _TYPES for verb in verbs}


def action_of(operation: Operation) -> str:
    """The work API names its operations `create_task`, the webhook API `repository_hooks_create`."""
    return _action_of(operation.name, operation.area is WORK_API)


@cache
def _action_of(name: str, verb_first: bool) -> str:
    if name in _OTHERWISE:
        return _OTHERWISE[name]
    if verb_first:
        verb, _, thing = name.partition("_")
    else:
        thing, _, verb = _split(_PLACE.sub("", name))
    return f"{thing.removesuffix('s')}.{verb}" if thing and verb else thing or verb


def _split(name: str) -> tuple[str, str, str]:
    """`hooks_update_config` is about a hook, `oauth_apps_create` about an OAuth app: the plural is where to part."""
    thing, plural, verb = re.sub(r"^((?:re)?deliver)ies_", r"\1ys_", name).partition("s_")
    return (thing, plural, verb) if plural and verb else name.rpartition("_")[::1]


def verb_of(done: str) -> str:
    """`create` of `created`: events tell what has happened, the log what somebody did."""
    return _DONE[done]


def operation_type(action: str) -> str:
    """The field's word for the kind of an action: create, access, modify, remove, restore, authentication."""
    verb = action.rpartition(".")[2]
    return _TYPE_OF.get(verb) or _TYPE_OF.get(verb.partition("_")[0]) or "modify"
