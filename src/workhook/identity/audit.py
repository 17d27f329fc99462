"""The audit log: who did what to what, from where. Written in the transaction of the change itself.

What knows most about a change records it (`record`). A change that nobody records and that has events is recorded here,
from the call that is being answered (`of_events`). So each write leaves one entry, and what changes nothing none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from workhook.core import json
from workhook.core.clock import now_ms
from workhook.events.outbox import Event
from workhook.http.calls import Call, current
from workhook.http.operations import WORK_API, Operation
from workhook.identity.authenticator import Caller
from workhook.identity.schemas import Actor
from workhook.identity.tables import audit_log
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into

# What is refused is called what it is called when it is done: one search finds both.
_NAMED = {
    "account.get": ("account_get_by_number",),
    "device_code.create": ("oauth_device_code",),
    "event.dispatch": ("repository_dispatch",),
    "grant.authorize": ("page_authorize", "page_authorize_decide", "page_device_decide", "page_device_enter"),
    "grant.revoke": ("oauth_grant_delete", "page_grant"),
    "hook.test": ("repository_hooks_test_old",),
    "installation.create": (
        "page_install", "page_install_decide", "page_install_permissions", "place_installations_begin",
    ),
    "installation.delete": ("place_installations_ask_to_uninstall", "place_installations_uninstall"),
    "installation.create_token": ("app_access_tokens_create",),
    "installation.get": (
        "app_installation_of_organization", "app_installation_of_repository",
        "app_installation_of_repository_by_number", "app_installation_of_user", "place_installations_show",
    ),
    "installation.list": ("place_installations_show_list",),
    "installation.list_repositories": ("installation_repositories_list", "user_installation_repositories_list"),
    "installation.list_requests": ("app_installation_requests",),
    "installation.revoke_token": ("installation_token_revoke",),
    "installation.suspend": ("place_installations_suspend",),
    "installation.update": (
        "user_installation_repositories_add", "user_installation_repositories_remove", "place_installations_allow",
        "place_installations_choose_repositories",
    ),
    "invitation.delete": (
        "organization_invitations_cancel", "repository_invitations_cancel", "user_repository_invitations_decline",
        "place_people_cancel", "place_collaborators_cancel", "place_invitations_decline_organization",
        "place_invitations_decline_project", "place_invitation_links_decline",
    ),
    "invitation.create": ("place_clients_invite_client_by_link",),
    "invitation.link": ("place_people_renew_link", "place_collaborators_renew_link"),
    "invitation.list": ("user_repository_invitations_list",),
    "member.add": (
        "organization_memberships_set", "repository_collaborators_set", "user_memberships_accept",
        "user_repository_invitations_accept", "place_people_invite", "place_collaborators_add",
        "place_invitations_accept_organization", "place_invitations_accept_project",
        "place_invitation_links_accept", "page_invitation", "page_invitation_post",
    ),
    "member.remove": (
        "organization_members_remove", "organization_memberships_remove", "repository_collaborators_remove",
        "place_people_remove", "place_people_ask_to_remove", "place_collaborators_remove",
        "place_collaborators_ask_to_remove",
    ),
    "member.update": ("place_people_change_role", "place_collaborators_change_role"),
    "client.add": ("place_clients_add_client",),
    "client.remove": ("place_clients_remove_client",),
    "project.delete": ("place_project_ask_to_delete", "place_project_delete"),
    "project.edit": ("place_project_archive", "place_project_save_settings"),
    "project.restore": ("place_project_restore_project",),
    "audit_log.read": ("place_audit_audit_log", "place_audit_export"),
    "organization.edit": ("place_organization_save_settings",),
    "app.create": ("place_apps_app_create", "place_apps_app_show_new"),
    "app.create_key": ("place_apps_add_key",),
    "app.create_secret": ("place_apps_app_add_secret",),
    "app.delete": ("place_apps_app_ask_to_delete", "place_apps_app_delete"),
    "app.delete_key": ("place_apps_delete_key",),
    "app.delete_secret": ("place_apps_app_delete_secret",),
    "app.get": ("place_apps_app_show",),
    "app.list": ("place_apps_app_show_list",),
    "app.revoke_tokens": ("place_apps_app_revoke_tokens",),
    "app.update": ("place_apps_app_update",),
    "oauth_app.create": ("place_apps_oauth_create", "place_apps_oauth_show_new"),
    "oauth_app.create_secret": ("place_apps_oauth_add_secret",),
    "oauth_app.delete": ("place_apps_oauth_ask_to_delete", "place_apps_oauth_delete"),
    "oauth_app.delete_secret": ("place_apps_oauth_delete_secret",),
    "oauth_app.get": ("place_apps_oauth_show",),
    "oauth_app.list": ("place_apps_oauth_show_list",),
    "oauth_app.revoke_tokens": ("place_apps_oauth_revoke_tokens",),
    "oauth_app.update": ("place_apps_oauth_update",),
    "oauth_token.issue": ("oauth_access_token",),
    "oauth_token.revoke": ("oauth_token_delete",),
    "organization.get": ("organization_get_by_number", "place_organization_show_settings"),
    "project.create": ("place_owner_create_project", "place_welcome_make_project"),
    "rate_limit.get": ("rate_limit",),
    "repository.get": ("repository_get_by_number",),
    "task.bulk": ("change_tasks",),
    "token.create": ("place_tokens_create_token",),
    "token.revoke": ("place_tokens_revoke_token", "tokens_delete"),
    "user.edit": ("place_settings_edit_profile",),
    "user.password_change": ("page_password_post",),
    "user.session_end": ("page_session_end", "page_sessions_end"),
    "user.sign_in": ("page_link", "page_link_post", "page_login_post", "page_oidc", "page_oidc_callback",
                     "place_confirm_confirm"),
    "user.sign_out": ("page_logout", "place_confirm_again"),
}  # fmt: skip
# The pages of webhooks exist twice each (`web.hooks.site`).
_PAGES = {
    "hook.list": ("hook_{}_hooks",),
    "hook.create": ("hook_{}_new", "hook_{}_create"),
    "hook.get": ("hook_{}_hook", "trial_{}_verify", "trial_{}_event"),
    "hook.update": ("hook_{}_update", "hook_{}_switch", "hook_{}_ask_for_secret", "hook_{}_change_secret"),
    "hook.delete": ("hook_{}_delete", "app_hook_{}_delete"),
    "hook.ping": ("trial_{}_ping",),
    "hook.test": ("trial_{}_test_event",),
    "delivery.list": ("delivery_{}_deliveries", "delivery_{}_newest_delivery"),
    "delivery.get": (
        "delivery_{}_delivery", "delivery_{}_payload_file", "delivery_{}_response_file", "delivery_{}_next_attempt",
    ),
    "delivery.redeliver": ("delivery_{}_redeliver",),
    "delivery.redeliver_many": (
        "delivery_{}_ask_redeliver_many", "delivery_{}_redeliver_many", "delivery_{}_redelivery",
        "delivery_{}_progress",
    ),
}  # fmt: skip
_ACTION_OF = {name: action for action, names in _NAMED.items() for name in names} | {
    f"place_{name.format(owner)}": action
    for action, names in _PAGES.items()
    for name in names
    for owner in ("project", "organization")
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


COLUMNS = (
    "at", "account_id", "repository_id", "actor_id", "token_id", "app_id", "action", "status", "request_id", "times",
    "target", "address", "detail",
)  # fmt: skip
insert = insert_into(audit_log, *COLUMNS)

ADDRESS_MAX_CHARS = 64
TARGET_MAX_CHARS = 500
_RECORDED = object()
_EVENTS = object()


class AuditTarget(msgspec.Struct, frozen=True):
    """One thing that something was done to. `account_id`: whose owners read it. `detail` never holds a secret."""

    target: str
    account_id: int
    repository_id: int | None = None
    detail: Mapping[str, object] | None = None


async def record(
    tx: Transaction,
    actor: Actor | None,
    action: str,
    target: str,
    *,
    account_id: int,
    repository_id: int | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """`actor` None: Workhook itself, the command line, or an app that calls for itself. The rest: see `AuditTarget`."""
    record_all(tx, actor, action, [AuditTarget(target, account_id, repository_id, detail)])


def record_all(tx: Transaction, actor: Actor | None, action: str, entries: Sequence[AuditTarget]) -> None:
    """`record` for any number of things, with one statement."""
    if not entries:
        return
    tx.state[_RECORDED] = True
    tx.defer(insert, _rows(actor, action, entries))


def row_of_call(actor: Actor, account_id: int, repository_id: int | None, happened: str) -> Mapping[str, object]:
    """The columns of the entry that tells of the current call, which has made one event: `happened` is its name as
    `told_as` answers it."""
    call = current()
    assert call is not None, "an actor calls"
    entry = AuditTarget(_target(call), account_id, repository_id, {"events": {happened: 1}})
    [row] = _rows(actor, action_of(call.operation), [entry])
    return row


def _rows(actor: Actor | None, action: str, entries: Sequence[AuditTarget]) -> list[dict[str, object]]:
    call = current()
    common = {
        "at": now_ms(),
        **caller(call, actor),
        "action": action,
        "status": None,
        "request_id": call.request_id if call else None,
        "times": 1,
    }
    return [
        {
            **common,
            "account_id": each.account_id,
            "repository_id": each.repository_id,
            "target": each.target[:TARGET_MAX_CHARS],
            "detail": json.encode_text(dict(each.detail or {})),
        }
        for each in entries
    ]


def caller(call: Call | None, actor: Actor | None = None) -> dict[str, object]:
    """The columns that tell who it was; `actor` where that is not who calls."""
    found = call.actor if call is not None and isinstance(call.actor, Caller) else None
    app = found.app if found else None
    if actor is None and found is not None:
        actor = found.actor
    address = (actor.address if actor else None) or (call.address if call else None)
    return {
        "actor_id": actor.user.id if actor else None,
        "token_id": (actor.token_id or None) if actor else None,
        "app_id": actor.app_id if actor else app.id if app else None,
        "address": address[:ADDRESS_MAX_CHARS] if address else None,
    }


async def of_events(tx: Transaction, events: Sequence[Event]) -> None:
    """A fan-out of `events.outbox` that delivers nothing: what a call changed is recorded as its last act."""
    if current() is not None:
        known = _EVENTS in tx.state
        tx.state.setdefault(_EVENTS, []).extend(events)
        if not known and tx.is_last_step:  # so that it is written with what the other fan-outs write
            await _record_call(tx)
        elif not known:
            tx.before_commit(_record_call)


async def _record_call(tx: Transaction) -> None:
    """One entry for each account that something happened to, and nobody reads of another's.

    There is more than one where many things were changed at once, or where something made way: who starts a timer here
    has paused the one elsewhere. What made way is told first, so what the call names is of the last event's account.
    """
    call, events = current(), tx.state[_EVENTS]
    if call is None or tx.state.get(_RECORDED):
        return
    action, named_in = action_of(call.operation), events[-1].account_id
    for account_id in dict.fromkeys(each.account_id for each in events):
        mine = [each for each in events if each.account_id == account_id]
        repositories = {each.repository_id for each in mine}
        await record(
            tx,
            None,
            action,
            _target(call) if account_id == named_in else action.rpartition(".")[0],
            account_id=account_id,
            repository_id=repositories.pop() if len(repositories) == 1 else None,
            detail={"events": dict(Counter(told_as(each.name, each.action) for each in mine))},
        )


def told_as(event: str, action: str | None) -> str:
    """How an entry names an event: `task.created`, `push`."""
    return f"{event}.{action}" if action else event


def _target(call: Call) -> str:
    """What was made (`task/tsk_…`), or else what the path names (`tasks/tsk_…` as `task/tsk_…`)."""
    thing = action_of(call.operation).rpartition(".")[0]
    made = _made_id(call.made) if call.operation.method == "POST" else None
    if made is None:
        made = next((str(each) for each in reversed(list(call.request.path_params.values()))), None)
    return f"{thing}/{made}" if made is not None else thing


def _made_id(body: Any) -> object:
    """Of `{"id": …}` or `{"task": {"id": …}, …}`."""
    fields = msgspec.structs.asdict(body) if isinstance(body, msgspec.Struct) else body
    if not isinstance(fields, dict):
        return None
    if isinstance(fields.get("id"), str | int):
        return fields["id"]
    inner = next(iter(fields.values()), None)
    if isinstance(inner, msgspec.Struct):
        return getattr(inner, "id", None)
    return inner.get("id") if isinstance(inner, dict) else None
