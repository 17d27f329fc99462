"""The catalog of events: the names, who may use them, and the shape of payloads."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from scripts.event_schemas import rendered
from workhook.core.json import encode
from workhook.events.catalog import CATALOG, EVENT_TYPES, HookTarget, known, valid_for
from workhook.events.samples import PING_QUOTES, random_quote
from workhook.events.schemas import RESOURCES, RESOURCES_FILE

Payload = dict[str, Any]

# The "Events" section of the work API, copied by hand.
OWN_ACTIONS = {
    "project": {"created", "edited", "archived", "unarchived", "deleted", "budget_reached"},
    "column": {"created", "edited", "moved", "deleted"},
    "task": {"created", "edited", "moved", "completed", "reopened", "deleted"},
    "task_comment": {"created", "edited", "deleted"},
    "file": {"created", "edited", "deleted"},
    "file_comment": {"created", "edited", "deleted"},
    "file_comment_reply": {"created", "edited", "deleted"},
    "timesheet": {"started", "paused", "resumed", "finished", "edited", "deleted"},
    "service_checkout": {"created", "completed", "paused", "unpaused", "canceled", "deleted"},
    "task_credit": {"granted", "spent", "expired", "reversed"},
    "invoice": {
        "created",
        "edited",
        "sent",
        "partially_paid",
        "paid",
        "refunded",
        "credited",
        "voided",
        "deleted",
    },
    "client": {"added", "removed"},
    "member": {"added", "removed"},
    "service": {"created", "edited", "deleted"},
    "folder": {"created", "edited", "deleted"},
    "hook": {"deactivated"},
}
# Additional actions in GitHub's payloads of events that both use.
SHARED_ACTIONS = {"project": {"closed", "reopened"}, "member": {"edited"}}
ONLY_OWN = OWN_ACTIONS.keys() - SHARED_ACTIONS.keys()

USER = {"id": 7, "login": "octo", "username": "octo", "email": "octo@example.com"}
REPOSITORY = {
    "id": 12,
    "name": "website",
    "full_name": "acme/website",
    "private": False,
    "owner": {"login": "acme", "id": 3},
}
TIMES = {"created_at": "2026-11-20T09:00:00.000Z", "updated_at": "2026-11-20T09:00:00.000Z"}


def record_id(prefix: str) -> str:
    return f"{prefix}_{'0' * 26}"


def around(name: str, action: str, record: Payload, **more: object) -> Payload:
    context: Payload = {"repository": REPOSITORY, "organization": {"login": "acme", "id": 3}, "sender": USER}
    return {"action": action, name: record, **context, **more}


def new_task() -> Payload:
    """Return a task with every optional value unset."""
    unset = ("description", "cover_url", "priority", "deadline", "hourly_rate", "billable", "estimate", "completed_at")
    empty: Payload = dict.fromkeys(unset)
    project, column = {"id": record_id("prj"), "title": "Website"}, {"id": record_id("col"), "title": "Doing"}
    lists: Payload = {"fields": {}, "sections": {}, "assignees": [], "labels": []}
    base: Payload = {
        "id": record_id("tsk"),
        "number": 1,
        "title": "Ship it",
        "position": 0,
        "project": project,
        "column": column,
    }
    return {**base, **empty, **lists, **TIMES}


def faults(name: str, payload: Payload) -> list[str]:
    """Return the paths at which the payload violates the event's schema."""
    schema = CATALOG[name].schema
    assert schema is not None
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return ["/".join(map(str, error.path)) or error.message for error in validator.iter_errors(payload)]


OF_APPS = (
    "deployment_protection_rule", "deployment_review", "github_app_authorization", "installation",
    "installation_repositories", "installation_target", "merge_group", "repository_dispatch", "security_advisory",
    "workflow_dispatch",
)  # fmt: skip


@pytest.mark.parametrize(("target", "count"), [("repository", 54 + len(OF_APPS)), ("organization", 63 + len(OF_APPS))])
def test_a_hook_may_subscribe_to_every_event_that_github_allows(target: HookTarget, count: int) -> None:
    names = {name for name in CATALOG if valid_for(name, target) and name not in ONLY_OWN}
    assert len(names) == count
    assert {"push", "pull_request", "issues", "ping", "project", "member"} <= names


def test_the_catalog_contains_githubs_75_events_and_our_own() -> None:
    assert len(CATALOG.keys() - ONLY_OWN) == 75
    assert {event.name for event in CATALOG.values() if event.origin == "own"} == OWN_ACTIONS.keys()


def test_only_organization_hooks_may_subscribe_to_organization_events() -> None:
    for name in ("service", "organization", "membership", "team", "projects_v2", "org_block", "custom_property"):
        assert valid_for(name, "organization"), name
        assert not valid_for(name, "repository"), name


def test_every_hook_may_subscribe_to_all_other_own_events() -> None:
    for name in OWN_ACTIONS.keys() - {"service"}:
        assert valid_for(name, "repository"), name
        assert valid_for(name, "organization"), name


@pytest.mark.parametrize("name", OF_APPS)
def test_every_hook_may_subscribe_to_githubs_app_events(name: str) -> None:
    assert known(name)
    assert valid_for(name, "repository")
    assert valid_for(name, "organization")


def test_events_without_subscribers_can_be_published() -> None:
    for name in ("marketplace_purchase", "sponsorship"):
        assert known(name), name
        assert not valid_for(name, "repository"), name
        assert not valid_for(name, "organization"), name


def test_a_star_subscribes_to_every_event_but_is_not_an_event() -> None:
    assert valid_for("*", "repository")
    assert valid_for("*", "organization")
    assert not known("*")


@pytest.mark.parametrize("name", ["", "Push", "push ", "tasks", "no_such_event"])
def test_an_unknown_event_is_refused(name: str) -> None:
    assert not known(name)
    assert not valid_for(name, "repository")
    assert not valid_for(name, "organization")


@pytest.mark.parametrize("name", sorted(OWN_ACTIONS))
def test_own_events_have_a_schema_for_exactly_their_actions(name: str) -> None:
    event = CATALOG[name]
    assert set(event.actions) == OWN_ACTIONS[name] | SHARED_ACTIONS.get(name, set())
    assert len(set(event.actions)) == len(event.actions)
    schema = json.loads(encode(event.schema))
    assert set(schema["properties"]["action"]["enum"]) == OWN_ACTIONS[name]
    assert {"action", name, "sender"} <= set(schema["required"])


def test_event_names_shared_with_github_keep_its_targets() -> None:
    assert CATALOG["project"].targets == {"app", "repository", "organization"}
    assert CATALOG["member"].targets == {"app", "business", "repository", "organization"}


def test_schemas_are_valid_and_exist_only_for_own_payloads() -> None:
    with_schema = {event.name for event in CATALOG.values() if event.schema is not None}
    assert with_schema == OWN_ACTIONS.keys() | {"push", "ping"}
    for name in with_schema:
        schema = CATALOG[name].schema
        assert schema is not None
        Draft202012Validator.check_schema(schema)


def test_the_schemas_of_records_are_up_to_date() -> None:
    assert RESOURCES_FILE.read_text(encoding="utf-8") == rendered(), "run python -m scripts.event_schemas"


def test_the_schema_of_a_column_is_as_expected() -> None:
    moment = {"type": "string", "format": "date-time"}
    properties = {
        "id": {"type": "string", "pattern": "^col_[0-9a-z]{26}$"},
        "title": {"type": "string"},
        "position": {"type": "integer", "minimum": 0},
        "stage": {"type": ["string", "null"], "enum": ["in_queue", "in_progress", "done", None]},
        "finished": {"type": "boolean"},
        "start_timer": {"type": "boolean"},
        "created_at": moment,
        "updated_at": moment,
    }
    assert RESOURCES["column"] == {"type": "object", "required": list(properties), "properties": properties}


def test_every_event_is_described_in_one_line() -> None:
    for event in CATALOG.values():
        assert event.description.endswith("."), event.name
        assert "\n" not in event.description, event.name
        assert len(event.description) <= 100, event.name


def test_the_list_of_events_is_sorted_and_serializable() -> None:
    rows = json.loads(encode(EVENT_TYPES))
    assert [row["name"] for row in rows] == sorted(CATALOG)
    assert all(set(row) == {"name", "actions", "description", "targets", "schema"} for row in rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["star"]["actions"] == ["created", "deleted"]
    assert by_name["star"]["targets"] == ["app", "organization", "repository"]
    assert by_name["star"]["schema"] is None
    assert by_name["task"]["schema"]["title"] == "task"


def test_a_task_without_optional_values_fits_its_schema() -> None:
    assert faults("task", around("task", "created", new_task())) == []


@pytest.mark.parametrize("field", sorted(new_task()))
def test_every_field_of_a_record_is_required(field: str) -> None:
    task = new_task()
    del task[field]
    assert faults("task", around("task", "created", task)) == ["task"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "tsk_short"),
        ("id", record_id("prj")),
        ("title", None),
        ("priority", "High"),
        ("deadline", 1_763_000_000_000),
        ("position", -1),
        ("fields", {"points": 3}),
        ("sections", {"links": "none"}),
        ("assignees", [{"username": "octo"}]),
    ],
)
def test_an_invalid_value_violates_the_schema(field: str, value: object) -> None:
    found = faults("task", around("task", "created", {**new_task(), field: value}))
    assert found
    assert all(path.startswith(f"task/{field}") for path in found)


def test_additional_fields_are_allowed() -> None:
    assert faults("task", around("task", "created", {**new_task(), "colour": "red"}, correlation="x")) == []


def test_an_edit_contains_old_and_new_values() -> None:
    task = new_task()
    assert faults("task", around("task", "edited", task, changes={"title": {"from": "Ship", "to": "Ship it"}})) == []
    assert faults("task", around("task", "edited", task, changes={"priority": {"from": None, "to": "low"}})) == []
    assert faults("task", around("task", "edited", task, changes={"title": {"from": "Ship"}})) == ["changes/title"]
    assert faults("task", around("task", "edited", task, changes={})) == ["changes"]
    assert faults("task", around("task", "edited", task)) == ["'changes' is a required property"]
    assert faults("task", around("task", "closed", task)) == ["action"]


def test_only_project_events_require_a_repository() -> None:
    member = around("member", "added", USER)
    assert faults("member", member) == []
    assert faults("member", {**member, "repository": None}) == []
    del member["repository"]
    assert faults("member", member) == []
    assert faults("task", {**around("task", "created", new_task()), "repository": None}) == ["repository"]


def test_the_sender_may_be_the_service_itself() -> None:
    credit: Payload = {
        "id": record_id("crd"),
        "kind": "expire",
        "amount": -2.5,
        "balance_after": 0,
        "reversed": False,
        **dict.fromkeys(("task", "notes", "user", "expires_at")),
        **TIMES,
    }
    assert faults("task_credit", {**around("task_credit", "expired", credit), "sender": None}) == []


def test_a_push_with_commits_fits_its_schema() -> None:
    person = {"name": "Octo", "email": "octo@example.com"}
    link = "http://127.0.0.1/acme/website"
    commit: Payload = {"id": "a" * 40, "tree_id": "b" * 40, "distinct": True, "message": "First", "url": link}
    commit |= {"timestamp": "2026-11-20T09:00:00Z", "author": person, "committer": person}
    commit |= {"added": ["README.md"], "removed": [], "modified": []}
    push: Payload = {"ref": "refs/heads/main", "before": "0" * 40, "after": "a" * 40, "base_ref": None, "compare": link}
    push |= {"created": True, "deleted": False, "forced": False, "commits": [commit], "head_commit": commit}
    push |= {"pusher": person, "repository": REPOSITORY, "sender": USER}
    assert faults("push", push) == []
    assert faults("push", {**push, "head_commit": None, "commits": []}) == []
    broken = copy.deepcopy(push)
    del broken["commits"][0]["added"]
    assert faults("push", {**broken, "head_commit": None, "ref": "main"}) == ["ref", "commits/0"]


def test_a_ping_fits_its_schema() -> None:
    base = "http://127.0.0.1/orgs/acme/hooks/5"
    hook: Payload = {"type": "Organization", "id": 5, "name": "web", "active": True, "events": ["*"], **TIMES}
    hook |= {"config": {"url": "http://127.0.0.1:1/", "content_type": "json", "insecure_ssl": "0"}}
    hook |= {"url": base, "ping_url": f"{base}/pings", "deliveries_url": f"{base}/deliveries"}
    ping: Payload = {
        "zen": random_quote(),
        "hook_id": 5,
        "hook": hook,
        "organization": {"login": "acme", "id": 3},
        "sender": USER,
    }
    assert faults("ping", ping) == []
    del ping["organization"]
    assert len(faults("ping", ping)) == 1


def test_the_ping_quotes_are_short_and_unique() -> None:
    assert len(set(PING_QUOTES)) == len(PING_QUOTES) >= 12
    assert all(0 < len(saying) <= 60 for saying in PING_QUOTES)
    assert random_quote() in PING_QUOTES
