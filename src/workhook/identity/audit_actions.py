"""What the audit log calls operations: the same for the API and for the pages, for what is done and what is refused.

An operation of the API is called after its own name. A page that changes something is called as the API calls that
change, so a search finds both. A page that is only looked at is `page.view`: its path says which.
"""

from __future__ import annotations

import re
from functools import cache

from workhook.http.operations import WORK_API, Operation

VIEW = "page.view"

# What is refused is called what it is called when it is done: one search finds both.
_NAMED = {
    "account.get": ("account_get_by_number",),
    "app.create": ("place_apps_app_create",),
    "app.create_key": ("place_apps_add_key",),
    "app.create_secret": ("place_apps_app_add_secret",),
    "app.delete": ("place_apps_app_delete",),
    "app.delete_key": ("place_apps_delete_key",),
    "app.delete_secret": ("place_apps_app_delete_secret",),
    "app.revoke_tokens": ("place_apps_app_revoke_tokens",),
    "app.update": ("place_apps_app_update",),
    "calendar_feed.create": ("place_calendar_feeds_renew_feed",),
    "calendar_feed.destroy": ("place_calendar_feeds_end_feed",),
    "client.add": ("place_clients_put_client_back",),
    "client.remove": ("place_clients_remove_client",),
    "column.create": ("place_columns_add_column",),
    "column.delete": ("place_columns_delete_column",),
    "column.edit": ("place_columns_edit_column", "place_columns_place_column"),
    "column.restore": ("place_columns_bring_back",),
    "delivery.redeliver": ("place_delivery_project_redeliver", "place_delivery_organization_redeliver"),
    "delivery.redeliver_many": ("place_delivery_project_redeliver_many", "place_delivery_organization_redeliver_many"),
    "device_code.create": ("oauth_device_code",),
    "event.dispatch": ("repository_dispatch",),
    "event.receive": ("page_receive",),
    "file.create": ("place_files_upload",),
    "file.delete": ("place_files_delete_file",),
    "file.edit": (
        "place_file_changes_rename_file",
        "place_file_changes_change_sight",
        "place_file_changes_move_files",
        "place_file_changes_attach_file",
    ),
    "file.restore": ("place_files_restore_file",),
    "file_comment.create": ("place_file_comments_comment",),
    "file_comment.delete": ("place_file_comments_delete_comment",),
    "file_comment.edit": ("place_file_comments_edit_comment",),
    "file_comment_reply.create": ("place_file_comments_reply",),
    "file_comment_reply.delete": ("place_file_comments_delete_reply",),
    "file_comment_reply.edit": ("place_file_comments_edit_reply",),
    "folder.create": ("place_files_create_folder",),
    "folder.delete": ("place_files_delete_folder",),
    "folder.edit": ("place_file_changes_rename_folder",),
    "grant.authorize": ("page_authorize", "page_authorize_decide", "page_device_decide", "page_device_enter"),
    "grant.revoke": ("oauth_grant_delete", "page_grant"),
    "hook.create": ("place_hook_project_create", "place_hook_organization_create", "place_receiver_create_receiver"),
    "hook.delete": (
        "place_hook_project_delete", "place_hook_organization_delete", "place_app_hook_project_delete",
        "place_app_hook_organization_delete", "oauth_hooks_delete",
    ),
    "hook.ping": ("place_trial_project_ping", "place_trial_organization_ping"),
    "hook.test": ("repository_hooks_test_old", "place_trial_project_test_event", "place_trial_organization_test_event"),
    "hook.update": (
        "place_hook_project_update", "place_hook_organization_update", "place_hook_project_switch",
        "place_hook_organization_switch", "place_hook_project_change_secret", "place_hook_organization_change_secret",
    ),
    "installation.create": (
        "page_install", "page_install_decide", "page_install_permissions", "place_installations_begin",
    ),
    "installation.create_token": ("app_access_tokens_create",),
    "installation.delete": ("place_installations_uninstall",),
    "installation.get": (
        "app_installation_of_organization", "app_installation_of_repository",
        "app_installation_of_repository_by_number", "app_installation_of_user",
    ),
    "installation.list_repositories": ("installation_repositories_list", "user_installation_repositories_list"),
    "installation.list_requests": ("app_installation_requests",),
    "installation.revoke_token": ("installation_token_revoke",),
    "installation.suspend": ("place_installations_suspend",),
    "installation.update": (
        "user_installation_repositories_add", "user_installation_repositories_remove", "place_installations_allow",
        "place_installations_choose_repositories",
    ),
    "invitation.create": ("place_clients_invite_client_by_link",),
    "invitation.delete": (
        "organization_invitations_cancel", "repository_invitations_cancel", "user_repository_invitations_decline",
        "place_people_cancel", "place_collaborators_cancel", "place_invitations_decline_organization",
        "place_invitations_decline_project", "place_invitation_links_decline",
    ),
    "invitation.link": ("place_people_renew_link", "place_collaborators_renew_link"),
    "invitation.list": ("user_repository_invitations_list",),
    "invoice.create": ("place_billing_create_invoice", "place_time_make_invoice"),
    "invoice.delete": ("place_billing_delete_draft",),
    "invoice.edit": (
        "place_billing_save_details", "place_billing_add_line", "place_billing_add_time", "place_billing_save_line",
        "place_billing_remove_line", "place_billing_group_time", "place_billing_add_unbilled",
    ),
    "invoice.credit": ("place_billing_make_credit_note",),
    "invoice.pay": ("place_billing_book_payment",),
    "invoice.refund": ("place_billing_give_back",),
    "invoice.send": ("place_billing_issue",),
    "invoice.void": ("place_billing_make_void",),
    "member.add": (
        "organization_memberships_set", "repository_collaborators_set", "user_memberships_accept",
        "user_repository_invitations_accept", "place_people_invite", "place_collaborators_add",
        "place_invitations_accept_organization", "place_invitations_accept_project", "place_invitation_links_accept",
        "page_invitation", "page_invitation_post",
    ),
    "member.remove": (
        "organization_members_remove", "organization_memberships_remove", "repository_collaborators_remove",
        "place_people_remove", "place_collaborators_remove",
    ),
    "member.update": ("place_people_change_role", "place_collaborators_change_role"),
    "notification.mark_read": (
        "read_notification", "read_notifications", "place_inbox_read_one", "place_inbox_read_all",
    ),
    "notification_setting.edit": (
        "edit_notification_settings", "place_notification_settings_edit_notification_settings",
        "place_notification_settings_trust_address", "place_notification_settings_ask_to_confirm",
        "place_notification_settings_show_confirmation", "place_notification_settings_confirm",
        "page_unsubscribe", "page_unsubscribe_post",
    ),
    "oauth_app.create": ("place_apps_oauth_create",),
    "oauth_app.create_secret": ("place_apps_oauth_add_secret",),
    "oauth_app.delete": ("place_apps_oauth_delete",),
    "oauth_app.delete_secret": ("place_apps_oauth_delete_secret",),
    "oauth_app.revoke_tokens": ("place_apps_oauth_revoke_tokens",),
    "oauth_app.update": ("place_apps_oauth_update",),
    "oauth_token.issue": ("oauth_access_token",),
    "oauth_token.revoke": ("oauth_token_delete",),
    "organization_billing.edit": (
        "put_organization_logo", "delete_organization_logo", "place_billing_settings_save_organization",
        "place_billing_settings_save_own", "place_billing_settings_put_logo", "place_billing_settings_put_own_logo",
        "place_billing_settings_remove_logo", "place_billing_settings_remove_own_logo",
    ),
    "organization.delete": ("admin_organizations_delete", "place_organization_delete_organization_of_form"),
    "organization.edit": ("place_organization_save_settings",),
    "organization.get": ("organization_get_by_number",),
    VIEW: ("place_board_filter_cards", "place_task_preview_preview"),
    "project.create": (
        "place_owner_create_project", "place_welcome_create_project", "place_welcome_import_first",
        "place_import_import_board",
    ),
    "project.delete": ("place_project_delete",),
    "project.edit": ("place_project_archive", "place_project_save_settings", "place_project_color_label"),
    "project_billing.edit": ("place_billing_settings_save_project",),
    "project.restore": ("place_project_restore_project",),
    "rate_limit.get": ("rate_limit",),
    "repository.get": ("repository_get_by_number",),
    "service.create": ("place_services_create_service",),
    "service.delete": ("place_services_delete_service",),
    "service.edit": (
        "place_services_save_service", "place_services_add_price", "place_services_set_default_price",
        "place_services_remove_price",
    ),
    "service_checkout.cancel": ("place_subscriptions_cancel",),
    "service_checkout.complete": ("place_subscriptions_start",),
    "service_checkout.create": ("place_subscriptions_subscribe",),
    "service_checkout.delete": ("place_subscriptions_delete",),
    "service_checkout.pause": ("place_subscriptions_pause",),
    "service_checkout.unpause": ("place_subscriptions_resume",),
    "task.bulk": ("change_tasks", "place_selection_change_cards", "place_selection_put_back", "place_columns_move_all"),
    "task.create": (
        "place_board_add_task", "place_receiver_add_card", "place_task_duplicate_task", "place_subtasks_add_subtask",
    ),
    "task.delete": ("place_task_delete_task",),
    "task.edit": (
        "place_board_move_task", "place_list_edit_row", "place_calendar_move_deadline", "place_task_edit_task",
        "place_task_change_labels", "place_task_change_assignees", "place_task_change_checklist",
        "place_subtasks_tick_subtask", "place_task_waits_change_blockers",
    ),
    "task.restore": ("place_task_restore_task",),
    "task_comment.create": ("place_task_comments_add_comment",),
    "task_comment.delete": ("place_task_comments_delete_comment",),
    "task_comment.edit": ("place_task_comments_edit_comment",),
    "task_credit.create": ("place_credits_grant", "place_credits_spend"),
    "task_credit.delete": ("place_credits_reverse",),
    "timesheet.create": (
        "place_time_start_timer", "place_time_add_entry", "place_timers_start_timer", "place_own_time_start_own_timer",
        "place_own_time_add_own_entry",
    ),
    "timesheet.delete": ("place_time_delete_entry",),
    "timesheet.edit": ("place_time_edit_entry", "place_timers_change_timer"),
    "timesheet.finish": ("place_time_finish_timer",),
    "timesheet.pause": ("place_time_pause_timer",),
    "timesheet.restore": ("place_time_restore_entry",),
    "timesheet.resume": ("place_time_resume_timer",),
    "token.create": ("place_tokens_create_token",),
    "token.revoke": ("place_tokens_revoke_token", "tokens_delete"),
    "trash.restore": ("place_trash_restore",),
    "organization.export": ("place_export_download",),
    "organization.create": ("admin_organizations_create", "place_administration_add_organization"),
    "user.create": ("admin_users_create", "place_administration_add_user"),
    "user.delete": ("admin_users_delete", "place_administration_delete_user", "place_own_data_delete_account"),
    "user.disable": ("admin_users_disable", "place_administration_disable_user"),
    "user.enable": ("admin_users_enable", "place_administration_enable_user"),
    "user.link_create": ("page_forgotten_post",),
    "user.export": ("place_own_data_download_own_data",),
    "user.list": ("admin_users_list",),
    "user.edit": ("place_settings_edit_profile", "place_settings_choose_appearance", "place_welcome_save_names"),
    "user.password_change": ("page_password_post",),
    "user.session_end": ("page_session_end", "page_sessions_end"),
    "user.sign_in": (
        "page_link", "page_link_post", "page_login_post", "page_oidc", "page_oidc_callback", "place_confirm_confirm",
    ),
    "user.sign_out": ("page_logout", "place_confirm_again"),
}  # fmt: skip
_ACTION_OF = {name: action for action, names in _NAMED.items() for name in names}
_PLACE = re.compile(r"^(repository|organization)_(?=[a-z]+_)|^(app|user)_(?=installations_)")

_TYPES = (
    ("access", ("view", "get", "list", "read", "search", "follow", "report", "authenticate")),
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
    if _is_page(operation.name) and operation.name not in _ACTION_OF:
        return VIEW
    return _action_of(operation.name, operation.area is WORK_API)


def is_page(operation: Operation) -> bool:
    """Whether people see it in a browser: it is none of the API's."""
    return _is_page(operation.name)


def _is_page(name: str) -> bool:
    return name.startswith(("page_", "place_"))


@cache
def _action_of(name: str, verb_first: bool) -> str:
    if name in _ACTION_OF:
        return _ACTION_OF[name]
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
