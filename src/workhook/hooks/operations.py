"""The routes of Area B: one list, made for repositories and for organizations."""

from __future__ import annotations

from collections.abc import Iterator

from workhook.events.catalog import HookTarget
from workhook.hooks import api, bodies
from workhook.hooks import schemas as s
from workhook.http.operations import AREA_B, Operation, Query
from workhook.http.paging import PAGING, PER_PAGE

_CURSOR = {"type": "string", "pattern": "^v1_[0-9]{1,16}$"}
_TIME = {"type": "string", "format": "date-time"}
_DELIVERY_QUERY = (
    PER_PAGE,
    Query("cursor", "The delivery that the page starts from, as a `Link` header gave it.", _CURSOR),
    Query("status", "`success` is a 2xx answer, `failure` everything else.", {"enum": ["success", "failure"]}),
    Query("event", "Only this event."),
    Query("action", "Only this action."),
    Query("guid", "Only the attempts that share this guid."),
    Query("since", "Delivered at or after.", _TIME),
    Query("until", "Delivered at or before.", _TIME),
    Query("redelivery", "Only repeats, or only first attempts.", {"type": "boolean"}),
)


def _of_place(kind: HookTarget) -> Iterator[Operation]:
    repository = kind == "repository"
    root = "/repos/{owner}/{repo}" if repository else "/orgs/{org}"
    read, write = f"{kind}_hooks.read", f"{kind}_hooks.write"
    remove = "repository_hooks.delete" if repository else write
    hooks, hook = f"{root}/hooks", f"{root}/hooks/{{hook_id}}"
    delivery = f"{hook}/deliveries/{{delivery_id}}"
    tag = f"{kind} webhooks"

    def op(method: str, path: str, name: str, summary: str, access: str, handler: object, **more: object) -> Operation:
        return Operation(
            AREA_B, method, path, handler, f"{kind}_{name}", summary, access, tag,  # type: ignore[arg-type]
            path_types={"hook_id": "integer", "delivery_id": "integer", "redelivery_id": "integer"}, **more,  # type: ignore[arg-type]
        )  # fmt: skip

    yield op("GET", hooks, "hooks_list", f"List the webhooks of the {kind}", read, api.list_hooks,
             query=PAGING, answers={200: list[s.HookShape]}, problems=(422,))  # fmt: skip
    yield op("POST", hooks, "hooks_create", f"Create a webhook for the {kind}", write, api.create_hook,
             body=bodies.hook_create(kind), body_required=True, answers={201: s.HookShape},
             problems=(400, 413, 422))  # fmt: skip
    yield op("GET", hook, "hooks_get", "Get a webhook", read, api.get_hook, answers={200: s.HookShape})
    yield op("PATCH", hook, "hooks_update", "Update a webhook", write, api.update_hook,
             body=bodies.hook_update(kind), answers={200: s.HookShape}, problems=(400, 413, 422))  # fmt: skip
    yield op("DELETE", hook, "hooks_delete", "Delete a webhook", remove, api.delete_hook, answers={204: None})
    yield op("GET", f"{hook}/config", "hooks_get_config", "Get a webhook's configuration", read, api.get_config,
             answers={200: s.ConfigShape})  # fmt: skip
    yield op("PATCH", f"{hook}/config", "hooks_update_config", "Update a webhook's configuration", write,
             api.update_config, body=bodies.CONFIG_UPDATE, answers={200: s.ConfigShape},
             problems=(400, 413, 422))  # fmt: skip
    yield op("POST", f"{hook}/pings", "hooks_ping", "Send a ping to a webhook", write, api.ping,
             answers={204: None}, problems=(413, 422))  # fmt: skip
    yield op("GET", f"{hook}/deliveries", "deliveries_list", "List the deliveries of a webhook", read,
             api.list_deliveries, query=_DELIVERY_QUERY, answers={200: list[s.DeliveryItem]},
             problems=(400, 422))  # fmt: skip
    yield op("GET", delivery, "deliveries_get", "Get a delivery", read, api.get_delivery,
             answers={200: s.DeliveryDetail}, problems=(400, 422))  # fmt: skip
    yield op("POST", f"{delivery}/attempts", "deliveries_redeliver", "Send a delivery again", write, api.redeliver,
             answers={202: s.Accepted}, problems=(400, 422))  # fmt: skip
    yield op("POST", f"{hook}/deliveries/redeliver", "deliveries_redeliver_many", "Send many deliveries again", write,
             api.redeliver_many, body=bodies.REDELIVER, answers={202: s.Queued}, problems=(400, 413, 422))  # fmt: skip
    yield op("GET", f"{hook}/redeliveries/{{redelivery_id}}", "redeliveries_get", "See how far a redelivery has come",
             read, api.get_redelivery, answers={200: s.RedeliveryShape})  # fmt: skip
    yield op("POST", f"{root}/events", "events_publish", f"Publish an event of the {kind}", f"{kind}.publish",
             api.publish, body=bodies.PUBLISH, body_required=True, answers={202: s.Published},
             problems=(400, 413, 422))  # fmt: skip
    if repository:
        for path, name in (("tests", "hooks_test"), ("test", "hooks_test_old")):
            yield op("POST", f"{hook}/{path}", name, "Send the latest push to a webhook", write, api.test,
                     answers={204: None}, problems=(413, 422), deprecated=path == "test")  # fmt: skip
        yield op("POST", f"{root}/dispatches", "dispatch", "Publish a repository_dispatch event", "repository.publish",
                 api.dispatch, body=bodies.DISPATCH, body_required=True, answers={204: None},
                 problems=(400, 413, 422))  # fmt: skip


def _of_apps() -> Iterator[Operation]:
    tag = "organization webhooks"
    yield Operation(
        AREA_B, "GET", "/orgs/{org}/oauth-hooks", api.list_app_hooks, "oauth_hooks_list",
        "List the webhooks that OAuth apps made", "oauth_hooks.read", tag,
        query=PAGING, answers={200: list[s.AppHookShape]}, problems=(422,),
        description="In the organization and in its repositories. The lists of webhooks show them to the app alone.",
    )  # fmt: skip
    yield Operation(
        AREA_B, "DELETE", "/orgs/{org}/oauth-hooks/{hook_id}", api.delete_app_hook, "oauth_hooks_delete",
        "Delete a webhook that an OAuth app made", "oauth_hooks.delete", tag,
        path_types={"hook_id": "integer"}, answers={204: None},
        description="In the organization or in one of its repositories. What waits to be sent to it is dropped.",
    )  # fmt: skip


OPERATIONS = (*_of_place("repository"), *_of_place("organization"), *_of_apps())
