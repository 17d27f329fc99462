"""No record has a list without bound: each answer and each event that carries the record has all of it."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

import msgspec

from workhook.asgi import described
from workhook.core.money import CURRENCIES
from workhook.delivery.connection import MAX_HEAD_BYTES
from workhook.events.catalog import CATALOG
from workhook.events.schemas import RESOURCES
from workhook.hooks.health import HOURS
from workhook.http.calls import JSON_BODY_MAX
from workhook.identity import policy
from workhook.identity.apps import actions as apps
from workhook.identity.apps.installing import REPOSITORIES_MAX
from workhook.identity.apps.schemas import CALLBACKS_MAX
from workhook.identity.tokens.schemas import REPOSITORIES_MAX as TOKEN_REPOSITORIES_MAX
from workhook.work.board.projects.schemas import LABEL_COLORS_MAX
from workhook.work.board.tasks.bulk import OPERATIONS_MAX
from workhook.work.board.tasks.field_types import BLOCKERS_MAX, KEYS_MAX
from workhook.work.discussion.actions import REPLIES_MAX
from workhook.work.history.time_reports import ROWS_MAX
from workhook.work.money.invoices.inputs import ITEMS_MAX, TIMESHEETS_MAX
from workhook.work.money.payments.booking import BOOKED_MAX
from workhook.work.money.services.schemas import PRICES_MAX

_LABELS = _ASSIGNEES = 100  # `TaskContent`
_RATES = 1000  # `ProjectBillingEdit`
_OF_THE_PROGRAM = 100
"""The program itself lists these: kinds, permissions, scopes, names of events, checks. Or the list is always empty."""

# A payment, a refund of what is left of each, and credit notes: `booking.require_room`.
_BOOKED = 4 * BOOKED_MAX
_INVOICE = {
    "invoice_items": ITEMS_MAX, "recurring_invoice_items": ITEMS_MAX, "taxes": ITEMS_MAX, "payments": _BOOKED,
    "credit_notes": _BOOKED,
}  # fmt: skip
_TASK = {
    "assignees": _ASSIGNEES, "blocked_by": BLOCKERS_MAX, "fields": KEYS_MAX, "labels": _LABELS, "sections": KEYS_MAX,
}  # fmt: skip

# By the record that has the list: how many entries it has at most. With a new list, write what bounds it and where that
# is checked, or give it a place of its own with pages.
ANSWERS: Mapping[str, Mapping[str, int]] = {
    "AppHookShape": {"events": len(CATALOG) + 1},
    "AppRepositoryShape": {"topics": _OF_THE_PROGRAM},
    "AppShape": {
        "callback_urls": CALLBACKS_MAX, "keys": apps.KEYS_MAX, "permissions": _OF_THE_PROGRAM,
        "secrets": apps.SECRETS_MAX,
    },
    "AuditEntry": {"data": _OF_THE_PROGRAM},
    "Authorization": {"scopes": _OF_THE_PROGRAM},
    "CreatedToken": {
        "permissions": _OF_THE_PROGRAM, "repositories": TOKEN_REPOSITORIES_MAX, "scopes": len(policy.SCOPES),
    },
    "CreditNote": {"invoice_items": ITEMS_MAX, "taxes": ITEMS_MAX},
    "DeliveryRequest": {"headers": _OF_THE_PROGRAM, "payload": JSON_BODY_MAX},
    "DeliveryResponse": {"headers": MAX_HEAD_BYTES},
    "EventType": {"actions": _OF_THE_PROGRAM, "schema": _OF_THE_PROGRAM, "targets": _OF_THE_PROGRAM},
    "FileComment": {"comments": REPLIES_MAX},
    "GraphQLAnswer": {"data": _OF_THE_PROGRAM, "errors": _OF_THE_PROGRAM},
    "HookHealth": {"buckets": HOURS},
    "HookShape": {"events": len(CATALOG) + 1},
    "InstallationShape": {
        "events": _OF_THE_PROGRAM, "permissions": _OF_THE_PROGRAM, "single_file_paths": _OF_THE_PROGRAM,
    },
    "InstallationTokenShape": {"permissions": _OF_THE_PROGRAM, "repositories": REPOSITORIES_MAX},
    "IntegrationShape": {"events": _OF_THE_PROGRAM, "permissions": _OF_THE_PROGRAM},
    "Invoice": _INVOICE,
    "InvoiceItemShape": {"timesheet_ids": TIMESHEETS_MAX},
    "Meta": {"hooks": _OF_THE_PROGRAM},
    "OauthAppShape": {"callback_urls": CALLBACKS_MAX, "secrets": apps.SECRETS_MAX},
    "OwnInstallationShape": {
        "app_permissions": _OF_THE_PROGRAM, "events": _OF_THE_PROGRAM, "permissions": _OF_THE_PROGRAM,
        "repository_ids": REPOSITORIES_MAX, "single_file_paths": _OF_THE_PROGRAM,
    },
    "PlacedInvoice": _INVOICE,
    "Project": {"label_colors": LABEL_COLORS_MAX},
    "ProjectBilling": {"rates": _RATES},
    "Readiness": {"checks": _OF_THE_PROGRAM},
    "ReportRowShape": {"amounts": len(CURRENCIES)},
    "ReportTotalsShape": {"amounts": len(CURRENCIES)},
    "RepositoryProfileShape": {"topics": _OF_THE_PROGRAM},
    "ScopedInstallation": {"permissions": _OF_THE_PROGRAM, "single_file_paths": _OF_THE_PROGRAM},
    "ServerMetadata": {
        f"{name}_supported": _OF_THE_PROGRAM
        for name in (
            "code_challenge_methods", "grant_types", "response_modes", "response_types", "scopes",
            "token_endpoint_auth_methods",
        )
    },
    "Service": {"service_prices": PRICES_MAX},
    "ServiceCheckoutShape": {"addons_purchased": 0},
    "Task": _TASK,
    "TokenShape": {
        "permissions": _OF_THE_PROGRAM, "repositories": TOKEN_REPOSITORIES_MAX, "scopes": len(policy.SCOPES),
    },
}  # fmt: skip
WHOLE_LISTS: Mapping[str, int] = {
    "GET /webhook-events": len(CATALOG),
    "GET /user/emails": 1,
    "GET /user/teams": 0,
    "GET /users/{username}/keys": 0,
    "GET /users/{username}/gpg_keys": 0,
    "GET /app/installation-requests": 0,
    "GET /orgs/{org}/apps/{slug}/keys": apps.KEYS_MAX,
    "GET /reports/timesheets": ROWS_MAX,
    "POST /tasks/bulk": OPERATIONS_MAX,
}
RECORDS_OF_EVENTS = {
    "credit_note": "CreditNote", "file_comment": "FileComment", "hook": "HookShape", "invoice": "Invoice",
    "project": "Project", "service": "Service", "service_checkout": "ServiceCheckoutShape", "task": "Task",
}  # fmt: skip

_LISTS = (list, tuple, set, frozenset, dict, Sequence, Mapping)


def _options(kind: Any) -> Iterator[Any]:
    """The types that a type stands for, without annotations."""
    if get_origin(kind) is Annotated:
        yield from _options(get_args(kind)[0])
    elif get_origin(kind) in (Union, types.UnionType):
        for each in get_args(kind):
            yield from _options(each)
    else:
        yield kind


def _is_struct(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _structs(kind: Any, seen: set[type[msgspec.Struct]]) -> None:
    """Add every struct that a value of the type can hold."""
    for each in _options(kind):
        if get_origin(each) in _LISTS:
            for inner in get_args(each):
                _structs(inner, seen)
        elif _is_struct(each) and each not in seen:
            seen.add(each)
            for field in msgspec.structs.fields(each):
                _structs(field.type, seen)


def _lists_of(struct: type[msgspec.Struct]) -> set[str]:
    return {
        field.encode_name
        for field in msgspec.structs.fields(struct)
        if any(get_origin(each) in _LISTS for each in _options(field.type))
    }


def _known(answer: Any) -> bool:
    return _is_struct(answer) and answer.__name__ in ANSWERS


def test_every_list_of_an_answer_has_pages_or_a_bound() -> None:
    whole, seen, lists_by_record = set[str](), set[type[msgspec.Struct]](), dict[str, set[str]]()
    pages = set[type[msgspec.Struct]]()
    for operation in described():
        is_paged = bool({"per_page", "cursor"} & {each.name for each in operation.query})
        for answer in operation.answers.values():
            is_list = get_origin(answer) is list or (_is_struct(answer) and bool(_lists_of(answer)))
            if is_list and not _known(answer):
                whole |= set() if is_paged else {f"{operation.method} {operation.path}"}
                pages |= {answer} if _is_struct(answer) else set()
            if is_list or _is_struct(answer):
                _structs(answer, seen)
    assert whole == set(WHOLE_LISTS)
    for struct in seen - pages:
        if lists := _lists_of(struct):
            lists_by_record.setdefault(struct.__name__, set()).update(lists)
    assert lists_by_record == {name: set(lists) for name, lists in ANSWERS.items()}


def _event_lists(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of lists and of objects with free keys in a JSON Schema."""
    kind = schema.get("type")
    if "array" in (kind if isinstance(kind, list) else [kind]) or isinstance(schema.get("additionalProperties"), dict):
        yield path
    for name, each in schema.get("properties", {}).items():
        yield from _event_lists(each, (*path, name))
    for each in (*schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        yield from _event_lists(each, path)


def test_every_list_of_an_event_is_one_of_its_record() -> None:
    for path in {found for name, schema in RESOURCES.items() for found in _event_lists(schema, (name,))}:
        record, *inner = path
        owner = RECORDS_OF_EVENTS[record] if len(inner) == 1 else "InvoiceItemShape"
        assert inner[-1] in ANSWERS[owner], path
