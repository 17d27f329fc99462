"""The OpenAPI document, as it is made of all operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from workhook import asgi
from workhook.core.errors import Fault
from workhook.events.hook_config import CONFIG_KEYS, parse_config, require_standard_secret
from workhook.http import openapi, openapi_text
from workhook.identity.policy import access_of


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


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in _references(document):
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def _schemas(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the document that lists values or properties, and its place."""
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


def test_listed_values_are_of_one_type_for_generated_clients(document: dict[str, Any]) -> None:
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


def test_arguments_of_generated_clients_have_names_of_their_own(document: dict[str, Any]) -> None:
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


def test_objects_in_a_query_are_json(document: dict[str, Any]) -> None:
    create = document["paths"]["/api/v1/projects/{id}/invoices"]["post"]
    items = next(each for each in create["parameters"] if each.get("name") == "invoice_items")
    line = items["content"]["application/json"]["schema"]["items"]
    assert set(line["required"]) == {"description", "qty", "unit_price"}
    assert set(line["properties"]) - set(line["required"]) == {"discount", "discount_amount", "tax", "tax_category"}


def test_a_body_says_that_it_has_no_other_fields(document: dict[str, Any]) -> None:
    for method, path, each in _operations(document):
        if not path.startswith("/api/v1/") or "requestBody" not in each:
            continue
        ((_, content),) = each["requestBody"]["content"].items()
        schema = content["schema"]
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        assert schema["additionalProperties"] is False, f"{method} {path}"


def test_an_idempotency_key_can_be_refused_by_every_post(document: dict[str, Any]) -> None:
    posts = [each for method, path, each in _operations(document) if method == "post" and path.startswith("/api/v1/")]
    assert posts
    assert all({"409", "422"} <= set(each["responses"]) for each in posts)


def test_every_operation_of_the_work_api_can_refuse_what_it_does_not_take(document: dict[str, Any]) -> None:
    work = [each for _, path, each in _operations(document) if path.startswith("/api/v1")]
    assert work
    assert all({"400", "413", "415", "422"} <= set(each["responses"]) for each in work)


@pytest.mark.parametrize("path", ["/api/v1/projects/{id}/timesheets", "/api/v1/reports/timesheets"])
def test_what_can_be_a_table_says_so(document: dict[str, Any], path: str) -> None:
    assert set(document["paths"][path]["get"]["responses"]["200"]["content"]) == {"application/json", "text/csv"}


def test_every_tag_is_described_and_stands_where_its_description_does(document: dict[str, Any]) -> None:
    assert [tag["name"] for tag in document["tags"]] == list(openapi_text.TAGS)


@pytest.mark.parametrize(
    ("path", "parameter", "description"),
    [
        ("/api/v1/invoices/{invoice_id}", "invoice_id", "The id of the invoice."),
        ("/repositories/{repository_id}", "repository_id", "The id of the repository."),
        ("/orgs/{org}/oauth-apps/{client_id}", "client_id", "The client id of the OAuth app."),
    ],
)
def test_parts_of_a_path_are_called_what_they_are(
    document: dict[str, Any], path: str, parameter: str, description: str
) -> None:
    parameters = document["paths"][path]["get"]["parameters"]
    assert [each["description"] for each in parameters if each.get("name") == parameter] == [description]


def test_no_description_is_indented_as_its_docstring_is(document: dict[str, Any]) -> None:
    described = [each["description"] for each in document["components"]["schemas"].values() if "description" in each]
    assert any("\n" in each for each in described)
    assert not [each for each in described if "\n " in each]


def test_what_a_token_needs_is_told(document: dict[str, Any]) -> None:
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


def test_a_webhooks_settings_have_examples_that_it_takes() -> None:
    """Swagger UI makes up a text for a pattern that has none, and sends it."""
    given = {name: key.schema["examples"][0] for name, key in CONFIG_KEYS.items()}
    faults: list[Fault] = []
    change = parse_config(given, lambda url: None, faults)
    assert faults == []
    assert change.shown["username"] == "octo"
    require_standard_secret({name: value for name, value in change.shown.items() if value}, "s3cret")
