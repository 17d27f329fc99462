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
Two areas on one server.

**The work-management API** has the prefix `/api/v1`: projects and everything in them. An answer is \
`{"success": true, …}`, an error `{"success": false, "code", "message", "errors", "request_id"}`.

**The webhook API** has webhooks, their deliveries, and publishing of events. It is served at the root and also under \
`/api/v3`, for clients that add this prefix. Clients made for GitHub's API work with it. An error is \
`{"message", "documentation_url", "status"}`, with `errors` if single fields are wrong. The header \
`X-Service-Api-Version` (or `X-GitHub-Api-Version`) may name the version that a client was written for.

**Authentication**: `Authorization: Bearer TOKEN` (`token TOKEN` is taken too). Each operation names \
scopes, one of which the token needs. What a caller cannot see is 404; what it sees but may not do is 403.

**Parameters**: the work-management API refuses unknown parameters (422), in the query, in the body and in the items \
of a list. It also refuses a parameter that is sent twice. The fields of a body may stand in the query instead: a \
field called `body` as well, though it is not listed among the parameters. A body that is not JSON is 400, even where \
an operation takes no body. The webhook API ignores unknown parameters and takes the last of a repeated one; its \
bodies must be JSON, too.

**Limits**: the `X-RateLimit-*` headers tell how many requests the token has left in this hour. When none is left, the \
webhook API answers 403 and the work-management API 429, both with `Retry-After`.

**Conditional requests**: a GET answers an `ETag`. Send it back in `If-None-Match`: while nothing has changed you get \
304. With a token, a 304 does not count against the request limit, up to ten times that limit in an hour.

**Lists**: follow the `Link` header; do not make cursors yourself.

Every answer has an `X-Request-Id` (in the webhook API also `X-GitHub-Request-Id`).
If the request was refused or failed, the server's log names it.
"""

TAGS: Mapping[str, str] = {
    "Projects": "A project is also a repository: the webhook API knows it as `owner/name`.",
    "Trash": "What was deleted and can still be restored.",
    "Members": "People who are in a project.",
    "Notifications": "What the caller is told of, and chooses to be told of.",
    "Clients": "People from outside, who see only their own projects.",
    "Columns": "The columns of a project's board.",
    "Tasks": "Tasks sit in the columns of a project.",
    "Task Comments": "Comments on tasks.",
    "Files": "Files and folders of a project.",
    "File comments": "Comments on files, and replies to them.",
    "Timesheets": "Time spent on tasks, and timers.",
    "Services": "What an organization sells.",
    "Service Checkouts": "Subscriptions: they can be paused, cancelled and deleted.",
    "Task Credits": "An append-only ledger of credits.",
    "Billing": "What invoices say of organizations and projects, and what new ones begin with.",
    "Invoices": "Drafts become sent, then paid or void.",
    "Users": "The caller, and the people of an organization.",
    "Activity": "What happened in a project.",
    "Search": "Search for words in tasks, files, comments and replies.",
    "repository webhooks": "Webhooks of one repository, their deliveries, and publishing events of it.",
    "organization webhooks": "Webhooks that get the events of every repository of an organization, and its own.",
    "people": "Who is in an organization or a repository: inviting, accepting, removing, leaving.",
    "administration": "The server's people and organizations, for those who administer it.",
    "tokens": "Tokens that act for the caller: personal ones, and those of apps. A token is shown once.",
    "apps": "Apps that act for themselves: where they are installed, and the tokens that they make with their key.",
    "app management": "Owners of an organization register OAuth apps and apps here, and install apps.",
    "OAuth": "How an app gets a token for a user: the code flow with PKCE, the device flow, renewal, revocation.",
    "audit log": "Who did what in an organization, from where, and what was refused.",
    "support": "What clients ask first: who am I, what can I see, which events exist.",
    "system": "For those who run the server: health, metrics, this document. No token, no limit.",
}

ANSWERS: Mapping[int, str] = {
    200: "The answer.",
    201: "It was created; `Location` says where it is.",
    202: "Accepted: the request is stored and carried out after this answer.",
    204: "Done. There is no body.",
    206: "The part that `Range` asked for; `Content-Range` says which it is.",
    304: "Nothing has changed since the `ETag` that was sent in `If-None-Match`. There is no body.",
}

_PROBLEMS: Mapping[int, str] = {
    400: "The request cannot be read: its JSON or form, its query string, a cursor, or the version that it asks for.",
    401: "There is no token, or the token is wrong, expired or revoked.",
    403: "The caller sees this but may not do it: the message names the role or scope that is missing.",
    404: "There is no such thing, or the caller cannot see it.",
    409: "The current state does not allow this; `code` says why.",
    412: "`If-Match` names another state than the current one: somebody else changed it.",
    413: "The body is too large.",
    414: "Path and query are too long. The connection is closed.",
    415: "The body is of another media type than the operation takes.",
    416: "`Range` begins behind the end of the file; `Content-Range` says how long the file is.",
    422: "A value is wrong; every wrong field is listed.",
    429: "The token has no requests left in this hour.",
    500: "The server failed. Whoever runs it finds the cause in the log by the request id.",
    503: "The database cannot be used, or the server has too much to do. Nothing was done; try again later.",
}
_WEBHOOK_PROBLEMS: Mapping[int, str] = {
    403: "The caller sees this but may not do it, or a rate limit is reached (`Retry-After`): the token's of an hour, "
    "or that of pings, tests and redeliveries of one webhook in a minute.",
    409: "The current state does not allow this; the message says why.",
    422: "Validation failed.",
}

_COMMON_EXAMPLES: Mapping[int, Mapping[str, Problem]] = {
    401: {
        "no token": Unauthenticated("Requires authentication"),
        "a token that is not good": Unauthenticated("Bad credentials"),
    },
    404: {"not found": NotFound()},
    413: {"too large": TooLarge("The request body is larger than 1048576 bytes.")},
    414: {"too long": TargetTooLong("The request target is longer than 8192 bytes.")},
    416: {"behind the end": Problem("The file has 1048576 bytes.", code="range_not_satisfiable")},
    500: {"failed": Problem("The server failed. The request id helps to find out why.")},
    503: {"no database": Unavailable("The database cannot be written.")},
}
_WORK_EXAMPLES: Mapping[int, Mapping[str, Problem]] = {
    400: {"bad JSON": Malformed("Problems parsing JSON")},
    403: {"missing scope": Forbidden("The token lacks a scope: this needs work.", code="missing_scope")},
    409: {"archived": Conflict("The project is archived.", code="archived")},
    412: {"changed": PreconditionFailed("It was changed since you read it. Read it again, then decide.")},
    415: {"no JSON": UnsupportedMediaType("Send JSON (Content-Type: application/json), not text/plain.")},
    422: {"missing field": Invalid(faults=[Fault(field="title", code="missing", message="title is required")])},
    429: {"no requests left": TooManyRequests("API rate limit exceeded. Wait until the time in X-RateLimit-Reset.")},
}
_HOOK_FAULT = Fault(resource="Hook", field="url", code="custom", message="url cannot be blank")
_WEBHOOK_EXAMPLES: Mapping[int, Mapping[str, Problem]] = {
    400: {"bad JSON": Malformed("Problems parsing JSON"), "not an object": Malformed("Body should be a JSON object")},
    403: {
        "missing role": Forbidden("Must have admin rights to Repository."),
        "missing scope": Forbidden("The token lacks a scope: this needs write:repo_hook or repo."),
        "no requests left": Forbidden("API rate limit exceeded. Wait until the time in X-RateLimit-Reset."),
        "too many by hand": Forbidden(
            "You have exceeded a secondary rate limit: at most 1000 pings, tests and redeliveries a minute for one "
            "webhook. Try again in 31 seconds."
        ),
    },
    422: {
        "wrong value": Invalid(faults=[_HOOK_FAULT]),
        "wrong type": Invalid("Invalid request.\n\nFor 'properties/events', nil is not an array."),
    },
}


def problem_text(style: str, status: int) -> str:
    """Return the description of a status in the style."""
    return (_WEBHOOK_PROBLEMS.get(status) if style == "github" else None) or _PROBLEMS[status]


def problem_examples(style: str, status: int) -> Mapping[str, Problem]:
    """Return example problems by name, to be rendered as the server renders them."""
    own = _WEBHOOK_EXAMPLES if style == "github" else _WORK_EXAMPLES
    return own.get(status) or _COMMON_EXAMPLES[status]
