"""The texts of the OpenAPI document, and its example errors."""

from __future__ import annotations

from collections.abc import Mapping

from workhook.core.errors import (
    Conflict,
    Fault,
    Forbidden,
    Invalid,
    Malformed,
    NotFound,
    PreconditionFailed,
    Problem,
    TargetTooLong,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)

SUMMARY = "Work management in which every change is a signed, stored, replayable webhook."

DESCRIPTION = """\
The server has two APIs.

**The work-management API** has the prefix `/api/v1` and covers projects and everything in them. A response is \
`{"success": true, …}`, an error `{"success": false, "code", "message", "errors", "request_id"}`.

**The webhook API** covers webhooks, their deliveries, and publishing events. It is served at the root and also under \
`/api/v3`, for clients that add this prefix. Clients written for GitHub's API work with it. An error is \
`{"message", "documentation_url", "status"}`, with `errors` if individual fields are invalid. The header \
`X-Service-Api-Version` (or `X-GitHub-Api-Version`) can name the version that a client was written for.

**Authentication**: send `Authorization: Bearer TOKEN` (`token TOKEN` is accepted too). Each operation lists scopes; \
the token needs one of them. Resources that the caller cannot see return 404. Operations that the caller may not \
perform on a visible resource return 403.

**Parameters**: the work-management API rejects unknown parameters (422) in the query, in the body, and in the items \
of a list, and parameters that are sent twice. Body fields can also be sent in the query, including a field called \
`body`, although it is not listed as a parameter. A body that is not JSON returns 400, even where an operation takes \
no body. The webhook API ignores unknown parameters and uses the last value of a repeated one; its bodies must be \
JSON, too.

**Rate limits**: the `X-RateLimit-*` headers state how many requests the token has left in this hour. When none is \
left, the webhook API returns 403 and the work-management API 429, both with `Retry-After`.

**Conditional requests**: a GET response has an `ETag`. Send it back in `If-None-Match`, and you get 304 as long as \
nothing has changed. With a token, a 304 does not count against the rate limit, up to ten times that limit per hour.

**Lists**: follow the `Link` header. Do not construct cursors yourself.

Every response has an `X-Request-Id` (in the webhook API also `X-GitHub-Request-Id`).
The server's log contains it for every request that was rejected or failed.
"""

TAGS: Mapping[str, str] = {
    "Projects": "A project is also a repository: the webhook API knows it as `owner/name`.",
    "Trash": "Deleted items that can still be restored.",
    "Members": "The members of a project.",
    "Notifications": "The caller's notifications and notification settings.",
    "Clients": "People outside the team, who see only their own projects.",
    "Columns": "The columns of a project's board.",
    "Tasks": "The tasks in the columns of a project.",
    "Task Comments": "Comments on tasks.",
    "Files": "Files and folders of a project.",
    "File comments": "Comments on files, and replies to them.",
    "Timesheets": "Time spent on tasks, and timers.",
    "Services": "The services that an organization sells.",
    "Service Checkouts": "Subscriptions, which can be paused, canceled, and deleted.",
    "Task Credits": "An append-only ledger of credits.",
    "Billing": "Billing details of organizations and projects, and the defaults of new invoices.",
    "Invoices": "An invoice starts as a draft, is sent, and is then paid or voided.",
    "Users": "The caller, and the members of an organization.",
    "Activity": "The history of a project.",
    "Search": "Search in tasks, files, comments, replies, invoices, and credit notes.",
    "repository webhooks": "Webhooks of a repository, their deliveries, and publishing events.",
    "organization webhooks": "Webhooks that receive the events of an organization and of all its repositories.",
    "people": "Members, collaborators, and invitations of organizations and repositories.",
    "administration": "The users and organizations of the server, for its administrators.",
    "tokens": "Tokens that act for the caller: personal tokens, and tokens issued to apps. A token is shown only once.",
    "apps": "Apps that act as themselves: their installations, and the tokens they create with their private key.",
    "app management": "OAuth apps, apps, and installations of an organization, managed by its owners.",
    "OAuth": "How an app gets a token for a user: authorization code flow with PKCE, device flow, refresh, revocation.",
    "audit log": "Who did what in an organization, from where, and what was denied.",
    "support": "The basics for clients: the caller, what the caller can see, and the available events.",
    "system": "Health, metrics, and this document. No API token is needed, and no rate limit applies.",
}

ANSWERS: Mapping[int, str] = {
    200: "The request succeeded.",
    201: "Created. `Location` contains the address.",
    202: "Accepted: the request is stored, and carried out after this response.",
    204: "The request succeeded. The response has no body.",
    206: "The requested `Range`; `Content-Range` states its position.",
    304: "Not modified since the response whose `ETag` was sent in `If-None-Match`. The response has no body.",
}

PROBLEMS: Mapping[int, str] = {
    400: "The request is malformed: its JSON or form, its query string, a cursor, or the requested API version.",
    401: "The token is missing, invalid, expired, or revoked.",
    403: "The caller can see the resource but may not do this. The message names the missing role or scope.",
    404: "The resource does not exist, or the caller cannot see it.",
    409: "The current state of the resource does not allow this; `code` gives the reason.",
    412: "The resource has changed since the version named in `If-Match`.",
    413: "The body is too large.",
    414: "The path and query are too long. The connection is closed.",
    415: "The operation does not accept the media type of the body.",
    416: "`Range` starts after the end of the file; `Content-Range` states the size of the file.",
    422: "A value is invalid. Every invalid field is listed.",
    429: "A rate limit is exceeded. Wait for the number of seconds in `Retry-After`.",
    500: "The server failed. Its log contains the cause, under the request ID.",
    503: "The database cannot be used, or the server is overloaded. Nothing was changed; try again later.",
}
WEBHOOK_PROBLEMS: Mapping[int, str] = {
    403: "The caller can see the resource but may not do this, or a rate limit is exceeded (`Retry-After`): the "
    "token's hourly limit, or the limit of pings, tests, and redeliveries per webhook and minute.",
    409: "The current state of the resource does not allow this; the message gives the reason.",
    422: "Validation failed.",
}

COMMON_EXAMPLES: Mapping[int, Mapping[str, Problem]] = {
    401: {
        "no token": Unauthenticated("Requires authentication"),
        "invalid token": Unauthenticated("Bad credentials"),
    },
    404: {"not found": NotFound()},
    413: {"too large": TooLarge("The request body is larger than 1048576 bytes.")},
    414: {"too long": TargetTooLong("The request target is longer than 8192 bytes.")},
    416: {"past the end": Problem("The file has 1048576 bytes.", code="range_not_satisfiable")},
    500: {"failed": Problem("The server failed. Its log contains the cause, under the request ID.")},
    503: {"database unavailable": Unavailable("The database cannot be written.")},
}
WORK_EXAMPLES: Mapping[int, Mapping[str, Problem]] = {
    400: {"bad JSON": Malformed("Problems parsing JSON")},
    403: {"missing scope": Forbidden("The token needs the scope work.", code="missing_scope")},
    409: {"archived": Conflict("The project is archived.", code="archived")},
    412: {"changed": PreconditionFailed("This has changed since you read it. Fetch it again before changing it.")},
    415: {"not JSON": UnsupportedMediaType("Send JSON (Content-Type: application/json), not text/plain.")},
    422: {"missing field": Invalid.at("title", "title is required", code="missing")},
    429: {"no requests left": TooManyRequests("API rate limit exceeded. Wait until the time in X-RateLimit-Reset.")},
}
_HOOK_FAULT = Fault(resource="Hook", field="url", code="custom", message="url cannot be blank")
WEBHOOK_EXAMPLES: Mapping[int, Mapping[str, Problem]] = {
    400: {"bad JSON": Malformed("Problems parsing JSON"), "not an object": Malformed("Body should be a JSON object")},
    403: {
        "missing role": Forbidden("Must have admin rights to Repository."),
        "missing scope": Forbidden("The token needs the scope write:repo_hook or repo."),
        "no requests left": Forbidden("API rate limit exceeded. Wait until the time in X-RateLimit-Reset."),
        "too many manual deliveries": Forbidden(
            "You have exceeded a secondary rate limit: at most 1000 pings, tests, and redeliveries a minute for one "
            "webhook. Try again in 31 seconds."
        ),
    },
    422: {
        "invalid value": Invalid(faults=[_HOOK_FAULT]),
        "invalid type": Invalid("Invalid request.\n\nFor 'properties/events', nil is not an array."),
    },
}
