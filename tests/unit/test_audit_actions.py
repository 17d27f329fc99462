"""The names of operations in the audit log, which are searchable and the same for completed and refused operations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import pytest

from workhook.asgi import operations
from workhook.identity.audit import VIEW, action_of, is_page, operation_type

if TYPE_CHECKING:
    from workhook.http.calls import Services


def no_services() -> Services:
    return cast("Services", None)


ACTIONS = {each.name: action_of(each) for each in operations(no_services, dict)}

# As recorded by the code of each operation.
DONE = {
    "app_access_tokens_create": "installation.create_token",
    "app_installations_delete": "installation.delete",
    "app_installations_suspend": "installation.suspend",
    "app_installations_unsuspend": "installation.unsuspend",
    "installation_token_revoke": "installation.revoke_token",
    "installations_create": "installation.create",
    "oauth_access_token": "oauth_token.issue",
    "oauth_grant_delete": "grant.revoke",
    "oauth_token_delete": "oauth_token.revoke",
    "oauth_token_reset": "oauth_token.reset",
    "page_authorize_decide": "grant.authorize",
    "page_device_decide": "grant.authorize",
    "page_grant": "grant.revoke",
    "page_login_post": "user.sign_in",
    "page_password_post": "user.password_change",
    "page_session_end": "user.session_end",
    "oauth_token_scope": "oauth_token.scope",
    "page_install_decide": "installation.create",
    "user_installation_repositories_add": "installation.update",
    "user_installation_repositories_remove": "installation.update",
    "tokens_create": "token.create",
    "tokens_delete": "token.revoke",
}


@pytest.mark.parametrize("name", sorted(DONE))
def test_refused_operations_have_the_same_action_as_completed_ones(name: str) -> None:
    assert ACTIONS[name] == DONE[name]


def test_actions_contain_no_truncated_plurals() -> None:
    cut = {name: action for name, action in ACTIONS.items() if re.search(r"(?:ie|cce)(?=[._])", action)}
    assert cut == {}, "a plural was taken apart in the wrong place"


def test_actions_have_an_operation_type() -> None:
    kinds = {name: operation_type(ACTIONS[name]) for name in DONE}
    assert kinds["app_access_tokens_create"] == kinds["tokens_create"] == "create"
    assert kinds["installation_token_revoke"] == kinds["tokens_delete"] == kinds["oauth_grant_delete"] == "remove"
    assert kinds["page_login_post"] == kinds["page_authorize_decide"] == "authentication"


PAGES = {each.name: each for each in operations(no_services, dict) if is_page(each)}


def test_pages_use_the_same_actions_as_the_api() -> None:
    assert ACTIONS["place_task_restore_task"] == ACTIONS["restore_task"] == "task.restore"
    assert ACTIONS["place_hook_project_change_secret"] == ACTIONS["repository_hooks_update"] == "hook.update"
    assert ACTIONS["place_columns_add_column"] == ACTIONS["create_column"] == "column.create"
    internal = {name: action for name, action in ACTIONS.items() if re.match("page|place", action) and action != VIEW}
    assert internal == {}
    viewed = {name for name, page in PAGES.items() if page.method != "GET" and ACTIONS[name] == VIEW}
    assert viewed == {"place_board_filter_cards", "place_task_preview_preview"}, "these change nothing"


def test_reading_a_page_is_a_view() -> None:
    for name in ("place_hook_project_hooks", "place_audit_audit_log", "place_organization_show_settings"):
        assert ACTIONS[name] == VIEW
    assert operation_type(VIEW) == "access"
