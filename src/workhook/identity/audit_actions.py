"""What the audit log calls operations: the same for the API and for the pages, for what is done and what is refused.

A route declares its `action`. Without one, an operation of the API is called after its own name, and a page is
`page.view`, which is only looked at: its path says which. A page that changes something declares what the API calls
that change, so a search finds both.
"""

from __future__ import annotations

import re
from functools import cache

from workhook.http.operations import WORK_API, Operation

VIEW = "page.view"

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
    """What is refused is called what it is called when it is done: one search finds both."""
    if operation.action:
        return operation.action
    return VIEW if is_page(operation) else _from_name(operation.name, operation.area is WORK_API)


def is_page(operation: Operation) -> bool:
    """Whether people see it in a browser: it is none of the API's."""
    return operation.name.startswith(("page_", "place_"))


@cache
def _from_name(name: str, verb_first: bool) -> str:
    """The work API names its operations `create_task`, the webhook API `repository_hooks_create`."""
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
