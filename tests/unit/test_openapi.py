"""The OpenAPI document, generated from all operations."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

import msgspec
import pytest

from workhook import asgi
from workhook.asgi import described
from workhook.core.errors import Fault
from workhook.core.money import CURRENCIES
from workhook.delivery.client import MAX_HEAD_BYTES
from workhook.events.catalog import CATALOG
from workhook.events.hook_config import CONFIG_KEYS, parse_config, require_standard_secret
from workhook.events.schemas import RESOURCES
from workhook.hooks.health import HOURS
from workhook.http import openapi, openapi_text
from workhook.http.calls import JSON_BODY_MAX
from workhook.http.openapi_parts import Schemas
from workhook.http.operations import VERSIONS
from workhook.identity import policy
from workhook.identity.apps import actions as apps
from workhook.identity.apps.installer import REPOSITORIES_MAX
from workhook.identity.apps.schemas import CALLBACKS_MAX
from workhook.identity.policy import access_of
from workhook.identity.tokens.personal import REPOSITORIES_MAX as TOKEN_REPOSITORIES_MAX
from workhook.work.board.projects.schemas import LABEL_COLORS_MAX
from workhook.work.board.tasks.bulk import OPERATIONS_MAX
from workhook.work.board.tasks.inputs import BLOCKERS_MAX, KEYS_MAX
from workhook.work.discussion.actions import REPLIES_MAX
from workhook.work.history.time_reports import ROWS_MAX
from workhook.work.money.invoices.schemas import ITEMS_MAX, TIMESHEETS_MAX
from workhook.work.money.payments.actions import BOOKED_MAX
from workhook.work.money.services.schemas import PRICES_MAX


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi.document(asgi.described(), access_of)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        yield from ((method, path, each) for method, each in item.items() if method != "servers")


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _references(each)


def test_every_reference_resolves(document: dict[str, Any]) -> None:
    for reference in _references(document):
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_component_names_are_unique_nouns(document: dict[str, Any]) -> None:
    """Generated clients use them as the names of their types, so no name may come from the code."""
    names = list(document["components"]["schemas"])
    assert [name for name in names if not re.fullmatch("[A-Z][A-Za-z]+", name)] == []
    assert [name for name in names if name.endswith(("Shape", "Answer", "Struct"))] == []
    assert len({name.lower() for name in names}) == len(names)
    assert not set(names) & {"Accepted", "Booked", "Key", "Publish", "Published", "Queued", "Redeliver"}


def test_two_classes_with_the_same_name_are_refused() -> None:
    task, other = msgspec.defstruct("TaskShape", [("id", int)]), msgspec.defstruct("Task", [("name", str)])
    assert set(Schemas([task], []).components) == {"Task"}
    with pytest.raises(AssertionError, match="two schemas are called Task"):
        Schemas([task, other], [])
    first, second = (msgspec.defstruct("Twin", [("id", int)], module=name) for name in ("one", "two"))
    with pytest.raises(AssertionError, match=r"not a name for generated clients: (one|two)\.Twin"):
        Schemas([first, second], [])


def _schemas(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object in the document with `enum` or `properties`, and its path."""
    if isinstance(value, dict):
        if isinstance(value.get("enum"), list) or isinstance(value.get("properties"), dict):
            yield path, value
        for name, each in value.items():
            yield from _schemas(each, f"{path}/{name}")
    if isinstance(value, list):
        for place, each in enumerate(value):
            yield from _schemas(each, f"{path}/{place}")


def test_every_property_has_a_type_for_generated_clients(document: dict[str, Any]) -> None:
    properties = {
        f"{path}/{name}": each
        for path, schema in _schemas(document)
        for name, each in schema.get("properties", {}).items()
    }
    assert len(properties) > 1000
    untyped = {path for path, each in properties.items() if not {"type", "$ref", "anyOf", "oneOf"} & each.keys()}
    assert untyped == {"/components/schemas/WebhookFault/value"}, "anything that was sent"


def test_enum_values_have_one_type_for_generated_clients(document: dict[str, Any]) -> None:
    listed = [(path, schema) for path, schema in _schemas(document) if "enum" in schema]
    assert len(listed) > 50
    kinds = {"string": str, "integer": int}
    for path, schema in listed:
        assert {type(each) for each in schema["enum"]} == {kinds[schema["type"]]}, path


def test_no_property_has_a_default_that_generated_clients_make_required(document: dict[str, Any]) -> None:
    defaults = [path for path, schema in _schemas(document) for each in schema.get("properties", {}).values()
                if "default" in each]  # fmt: skip
    assert defaults == []
    config = document["components"]["schemas"]["ConfigCreate"]["properties"]
    assert 'Default: `"0"`.' in config["insecure_ssl"]["description"]


def test_arguments_of_generated_clients_have_unique_names(document: dict[str, Any]) -> None:
    names = set()
    for method, path, each in _operations(document):
        name = each["operationId"]
        assert name.isidentifier(), name
        assert name not in names, name
        names.add(name)
        arguments = [one["name"] for one in each["parameters"] if one.get("in") in ("path", "query")]
        arguments += ["body"] if "requestBody" in each else []
        assert len(arguments) == len(set(arguments)), f"{method} {path}"
        assert not {"client", "self"} & set(arguments), f"{method} {path}"


def test_objects_in_a_query_are_described_as_json(document: dict[str, Any]) -> None:
    create = document["paths"]["/api/v1/projects/{id}/invoices"]["post"]
    items = next(each for each in create["parameters"] if each.get("name") == "invoice_items")
    line = items["content"]["application/json"]["schema"]["items"]
    assert set(line["required"]) == {"description", "qty", "unit_price"}
    assert set(line["properties"]) - set(line["required"]) == {"discount", "discount_amount", "tax", "tax_category"}


def test_request_bodies_allow_no_additional_fields(document: dict[str, Any]) -> None:
    for method, path, each in _operations(document):
        if not path.startswith("/api/v1/") or "requestBody" not in each:
            continue
        ((_, content),) = each["requestBody"]["content"].items()
        schema = content["schema"]
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        assert schema["additionalProperties"] is False, f"{method} {path}"


def test_every_post_describes_refused_idempotency_keys(document: dict[str, Any]) -> None:
    posts = [each for method, path, each in _operations(document) if method == "post" and path.startswith("/api/v1/")]
    assert posts
    assert all({"409", "422"} <= set(each["responses"]) for each in posts)


def test_every_work_operation_describes_refused_requests(document: dict[str, Any]) -> None:
    work = [each for _, path, each in _operations(document) if path.startswith("/api/v1")]
    assert work
    assert all({"400", "413", "415", "422"} <= set(each["responses"]) for each in work)


@pytest.mark.parametrize("path", ["/api/v1/projects/{id}/timesheets", "/api/v1/reports/timesheets"])
def test_csv_responses_are_described(document: dict[str, Any], path: str) -> None:
    assert set(document["paths"][path]["get"]["responses"]["200"]["content"]) == {"application/json", "text/csv"}


def test_tags_are_in_the_order_of_their_descriptions(document: dict[str, Any]) -> None:
    assert [tag["name"] for tag in document["tags"]] == list(openapi_text.TAGS)


@pytest.mark.parametrize(
    ("path", "parameter", "description"),
    [
        ("/api/v1/invoices/{invoice_id}", "invoice_id", "ID of the invoice."),
        ("/repositories/{repository_id}", "repository_id", "ID of the repository."),
        ("/orgs/{org}/oauth-apps/{client_id}", "client_id", "Client ID of the OAuth app."),
    ],
)
def test_path_parameters_are_described_by_resource(
    document: dict[str, Any], path: str, parameter: str, description: str
) -> None:
    parameters = document["paths"][path]["get"]["parameters"]
    assert [each["description"] for each in parameters if each.get("name") == parameter] == [description]


def test_descriptions_are_not_indented(document: dict[str, Any]) -> None:
    described = [each["description"] for each in document["components"]["schemas"].values() if "description" in each]
    assert any("\n" in each for each in described)
    assert not [each for each in described if "\n " in each]


def test_required_scopes_and_permissions_are_described(document: dict[str, Any]) -> None:
    create = document["paths"]["/repos/{owner}/{repo}/hooks"]["post"]
    assert create["security"] == [{"bearer": [each]} for each in ("admin:repo_hook", "repo", "write:repo_hook")]
    assert create["x-permissions"] == {"repository_hooks": "write"}
    assert "`repository_hooks: write` of an admin of the repository." in create["description"]
    project = document["paths"]["/api/v1/projects"]["get"]
    assert project["security"] == [{"bearer": ["work"]}, {"bearer": ["work:read"]}]
    assert project["x-permissions"] == {"work": "read"}
    manage = document["paths"]["/orgs/{org}/apps"]["get"]
    assert manage["security"] == [{"bearer": ["admin:org"]}]
    assert "x-permissions" not in manage
    assert document["paths"]["/app"]["get"]["security"] == [{"app": []}]
    used = {scheme for _, _, each in _operations(document) for one in each["security"] for scheme in one}
    assert used == set(document["components"]["securitySchemes"])


def test_examples_of_webhook_settings_are_valid() -> None:
    """For a pattern without an example, Swagger UI makes up a text and sends it."""
    given = {name: key.schema["examples"][0] for name, key in CONFIG_KEYS.items()}
    faults: list[Fault] = []
    change = parse_config(given, lambda url: None, faults)
    assert faults == []
    assert change.shown["username"] == "octo"
    require_standard_secret({name: value for name, value in change.shown.items() if value}, "s3cret")


# --- bounded lists ----------------------------------------------------------------------------------------------------
# Every list in a record is bounded, because each response and event with the record contains all of it.


_LABELS = _ASSIGNEES = 100  # `TaskContent`
_RATES = 1000  # `ProjectBillingEdit`
_OF_THE_PROGRAM = 100
"""Lists of values defined by the program (kinds, permissions, scopes, events, checks), or that are always empty."""

# A payment, a refund of each remainder, and credit notes: `recording.require_capacity`.
_BOOKED = 4 * BOOKED_MAX
_INVOICE = {
    "invoice_items": ITEMS_MAX, "recurring_invoice_items": ITEMS_MAX, "taxes": ITEMS_MAX, "payments": _BOOKED,
    "credit_notes": _BOOKED,
}  # fmt: skip
_TASK = {
    "assignees": _ASSIGNEES, "blocked_by": BLOCKERS_MAX, "fields": KEYS_MAX, "labels": _LABELS, "sections": KEYS_MAX,
}  # fmt: skip

# The maximum number of entries in each list of a record. For a new list, state its limit and where it is enforced, or
# give it its own paginated resource.
ANSWERS: Mapping[str, Mapping[str, int]] = {
    "AppHookShape": {"events": len(CATALOG) + 1},
    "AppRepositoryShape": {"topics": _OF_THE_PROGRAM, "custom_properties": _OF_THE_PROGRAM},
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
    "RepositoryProfileShape": {"topics": _OF_THE_PROGRAM, "custom_properties": _OF_THE_PROGRAM},
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
    "GET /versions": len(VERSIONS),
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
    """Yield the members of a type without annotations."""
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
    """Add every struct that a value of the type can contain."""
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


def test_every_list_in_a_response_is_paginated_or_bounded() -> None:
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
    """Yield the paths of lists and of objects with arbitrary keys in a JSON Schema."""
    kind = schema.get("type")
    if "array" in (kind if isinstance(kind, list) else [kind]) or isinstance(schema.get("additionalProperties"), dict):
        yield path
    for name, each in schema.get("properties", {}).items():
        yield from _event_lists(each, (*path, name))
    for each in (*schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        yield from _event_lists(each, path)


def test_every_list_in_an_event_belongs_to_its_record() -> None:
    for path in {found for name, schema in RESOURCES.items() for found in _event_lists(schema, (name,))}:
        record, *inner = path
        owner = RECORDS_OF_EVENTS[record] if len(inner) == 1 else "InvoiceItemShape"
        assert inner[-1] in ANSWERS[owner], path
