"""The activity page of a project, and the event stream that makes open pages reload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from workhook.core import json
from workhook.core.clock import parse_rfc3339
from workhook.core.errors import NotFound
from workhook.events import order
from workhook.events.payloads import to_show
from workhook.http.calls import Response
from workhook.web.frame import paging
from workhook.web.frame.names import Names, logins_of
from workhook.web.frame.places import Places, Visit
from workhook.web.frame.texts import gettext, text
from workhook.work.board import columns
from workhook.work.board.tasks.inputs import PLAIN_FIELDS
from workhook.work.board.tasks.schemas import TERMS
from workhook.work.history.activity import queries
from workhook.work.history.activity.live import HEARTBEAT, Listener, Stream, follow
from workhook.work.history.activity.queries import ActivityQuery
from workhook.work.kernel.people import PersonShape

_SENTENCES: Mapping[str, Mapping[str, str]] = {
    "task": {
        "created": text("%(who)s created the task “%(what)s”."),
        "edited": text("%(who)s updated the task “%(what)s”."),
        "moved": text("%(who)s moved “%(what)s” within %(to)s."),
        "completed": text("%(who)s completed “%(what)s”."),
        "reopened": text("%(who)s reopened “%(what)s”."),
        "deleted": text("%(who)s deleted the task “%(what)s”."),
    },
    "column": {
        "created": text("%(who)s created the column “%(what)s”."),
        "edited": text("%(who)s updated the column “%(what)s”."),
        "moved": text("%(who)s moved the column “%(what)s”."),
        "deleted": text("%(who)s deleted the column “%(what)s”."),
    },
    "task_comment": {
        "created": text("%(who)s commented on “%(what)s”."),
        "edited": text("%(who)s edited a comment on “%(what)s”."),
        "deleted": text("%(who)s deleted a comment on “%(what)s”."),
    },
    "file": {
        "created": text("%(who)s uploaded the file “%(what)s”."),
        "edited": text("%(who)s updated the file “%(what)s”."),
        "deleted": text("%(who)s deleted the file “%(what)s”."),
    },
    "file_comment": {
        "created": text("%(who)s commented on the file “%(what)s”."),
        "edited": text("%(who)s edited a comment on the file “%(what)s”."),
        "deleted": text("%(who)s deleted a comment on the file “%(what)s”."),
    },
    "file_comment_reply": {
        "created": text("%(who)s replied to a comment on a file."),
        "edited": text("%(who)s edited a reply to a comment on a file."),
        "deleted": text("%(who)s deleted a reply to a comment on a file."),
    },
    "folder": {
        "created": text("%(who)s created the folder “%(what)s”."),
        "edited": text("%(who)s updated the folder “%(what)s”."),
        "deleted": text("%(who)s deleted the folder “%(what)s”."),
    },
    "timesheet": {
        "started": text("%(who)s started a timer."),
        "paused": text("%(who)s paused a timer."),
        "resumed": text("%(who)s resumed a timer."),
        "finished": text("%(who)s logged time."),
        "edited": text("%(who)s edited a time entry."),
        "deleted": text("%(who)s deleted a time entry."),
    },
    "invoice": {
        "created": text("%(who)s created invoice %(what)s."),
        "edited": text("%(who)s updated invoice %(what)s."),
        "sent": text("%(who)s issued invoice %(what)s."),
        "partially_paid": text("%(who)s recorded a payment for invoice %(what)s."),
        "paid": text("%(who)s marked invoice %(what)s as paid."),
        "refunded": text("%(who)s refunded a payment for invoice %(what)s."),
        "credited": text("%(who)s issued a credit note for invoice %(what)s."),
        "voided": text("%(who)s voided invoice %(what)s."),
        "deleted": text("%(who)s deleted invoice %(what)s."),
    },
    "service_checkout": {
        "created": text("%(who)s added a subscription to “%(what)s”."),
        "completed": text("The subscription to “%(what)s” started."),
        "paused": text("%(who)s paused the subscription to “%(what)s”."),
        "unpaused": text("%(who)s resumed the subscription to “%(what)s”."),
        "canceled": text("%(who)s canceled the subscription to “%(what)s”."),
        "deleted": text("%(who)s deleted the subscription to “%(what)s”."),
    },
    "task_credit": {
        "granted": text("%(who)s granted credits."),
        "spent": text("%(who)s spent credits."),
        "expired": text("Credits expired."),
        "reversed": text("%(who)s reversed a credit entry."),
    },
    "client": {
        "added": text("%(who)s added the client %(what)s."),
        "removed": text("%(who)s removed the client %(what)s."),
    },
    "member": {
        "added": text("%(who)s added %(what)s to the team."),
        "removed": text("%(who)s removed %(what)s from the team."),
    },
    "project": {
        "created": text("%(who)s created the project “%(what)s”."),
        "edited": text("%(who)s updated the project “%(what)s”."),
        "archived": text("%(who)s archived the project “%(what)s”."),
        "unarchived": text("%(who)s unarchived the project “%(what)s”."),
        "deleted": text("%(who)s deleted the project “%(what)s”."),
        "budget_reached": text("The budget of “%(what)s” is almost or completely used up."),
    },
    "hook": {"deactivated": text("A webhook was disabled.")},
}
ACTIONS_OF = {event: tuple(actions) for event, actions in _SENTENCES.items()}
_RESTORED: Mapping[str, str] = {
    "task": text("%(who)s restored the task “%(what)s”."),
    "file": text("%(who)s restored the file “%(what)s”."),
}
_DRAFT: Mapping[str, str] = {
    "created": text("%(who)s created a draft invoice."),
    "edited": text("%(who)s updated a draft invoice."),
    "deleted": text("%(who)s deleted a draft invoice."),
}
_OF_ONESELF: Mapping[tuple[str, str | None], str] = {
    ("client", "added"): text("%(who)s joined as a client."),
    ("client", "removed"): text("%(who)s left the project."),
    ("member", "added"): text("%(who)s joined the team."),
    ("member", "removed"): text("%(who)s left the team."),
}
_ACROSS = text("%(who)s moved “%(what)s” from %(from)s to %(to)s.")
_FINISHED_BY = text("%(who)s completed “%(what)s” by moving it from %(from)s to %(to)s.")
_CLOSED_BY = text("%(who)s completed “%(what)s” with commit %(commit)s “%(message)s”.")
_ATTACHED = text("%(who)s attached the file “%(what)s” to a task.")
_TAKEN_OFF = text("%(who)s removed the file “%(what)s” from its task.")
_DELETED_OF: Mapping[str, str] = {
    "task_comment": text("%(who)s deleted a comment by %(whose)s on “%(what)s”."),
    "file_comment": text("%(who)s deleted a comment by %(whose)s on the file “%(what)s”."),
    "file_comment_reply": text("%(who)s deleted a reply by %(whose)s to a comment on a file."),
}
"""For a comment by someone else."""
_CHANGED = text("%(who)s changed the %(fields)s of “%(what)s”.")
_AMONG_ITSELF: Mapping[str, str] = {
    _SENTENCES["task"]["created"]: text("%(who)s created the task."),
    _SENTENCES["task"]["edited"]: text("%(who)s updated the task."),
    _SENTENCES["task"]["moved"]: text("%(who)s moved the task within %(to)s."),
    _SENTENCES["task"]["completed"]: text("%(who)s completed the task."),
    _SENTENCES["task"]["reopened"]: text("%(who)s reopened the task."),
    _SENTENCES["task"]["deleted"]: text("%(who)s deleted the task."),
    _SENTENCES["task_comment"]["created"]: text("%(who)s commented."),
    _SENTENCES["task_comment"]["edited"]: text("%(who)s edited a comment."),
    _SENTENCES["task_comment"]["deleted"]: text("%(who)s deleted a comment."),
    _DELETED_OF["task_comment"]: text("%(who)s deleted a comment by %(whose)s."),
    _RESTORED["task"]: text("%(who)s restored the task."),
    _ACROSS: text("%(who)s moved the task from %(from)s to %(to)s."),
    _FINISHED_BY: text("%(who)s completed the task by moving it from %(from)s to %(to)s."),
    _CLOSED_BY: text("%(who)s completed the task with commit %(commit)s “%(message)s”."),
    _CHANGED: text("%(who)s changed the %(fields)s."),
}
"""The sentences on the page of the task itself, which do not name it."""
_MENTIONED: Mapping[str, str] = {
    "task": text("%(who)s mentioned the task in the description of “%(what)s”."),
    "task_comment": text("%(who)s mentioned the task in a comment on “%(what)s”."),
    "file_comment": text("%(who)s mentioned the task in a comment on the file “%(what)s”."),
    "file_comment_reply": text("%(who)s mentioned the task in a reply to a comment on a file."),
}
_COMMIT_CHARS = 7  # as Git abbreviates commit hashes
_OTHER = text("%(who)s: %(event)s %(action)s")
_PUBLISHED = text("%(who)s published the event %(event)s.")

KINDS: Mapping[str, str] = {
    "task": text("Tasks"),
    "task_comment": text("Task comments"),
    "column": text("Columns"),
    "file": text("Files"),
    "file_comment": text("File comments"),
    "file_comment_reply": text("Replies"),
    "folder": text("Folders"),
    "timesheet": text("Time"),
    "invoice": text("Invoices"),
    "service_checkout": text("Services"),
    "task_credit": text("Credits"),
    "client": text("Clients"),
    "member": text("Team"),
    "project": text("Project"),
    "push": text("Pushes"),
}
"""The page's filters, without events about webhooks, which are not listed (`outbox.ABOUT_HOOKS`)."""

FIELDS: Mapping[str, str] = {
    **{name: name.replace("_", " ") for name in ("title", "assignees", "labels", *PLAIN_FIELDS, *TERMS)},
    "deadline": text("due date"),
    "cover_url": text("cover image"),
    "fields": text("custom fields"),
    "sections": text("checklists"),
    "billable": text("billable status"),
    "parent_id": text("parent task"),
    "repeat": text("repeat rule"),
    "blocked_by": text("blockers"),
}
"""What the page calls the fields of a task (`scripts.texts` collects the names that are made here)."""


def found_in(payload: object, *names: str) -> str:
    """Return the text at a path in a payload, which may have any shape; empty if there is none."""
    for name in names:
        payload = payload.get(name) if isinstance(payload, dict) else None
    return payload if isinstance(payload, str) else ""


class ProjectNames(NamedTuple):
    """A project's address, its column titles by ID, and its people's names by login."""

    base: str
    columns: Mapping[str, str]
    people: Mapping[str, str] = {}


def sentence(
    place: ProjectNames,
    who: str | None,
    event: str,
    action: str | None,
    payload: Any,
    *,
    published: bool,
    among_itself: bool = False,
) -> Markup:
    """Describe an event as HTML, with a link if the object has a page.

    The description of a `published` event contains no text by its publisher. `among_itself` omits the task's title, for
    the task's own page.
    """
    bold = Markup("<strong>{}</strong>")
    if published:
        named = {"who": bold.format(who or "Workhook"), "event": f"{event}.{action}" if action else event}
        return Markup(gettext(_PUBLISHED)) % named  # noqa: S704  # facts are escaped
    facts = {
        "who": bold.format(who or "Workhook"),
        "what": _what(place, event, action, payload),
        "whose": bold.format(place.people.get(author := found_in(payload, event, "user", "login"), author)),
        "to": bold.format(found_in(payload, event, "column", "title")),
        "from": bold.format(place.columns.get(found_in(payload, "changes", "column_id", "from"), "…")),
        "fields": ", ".join(gettext(FIELDS[name]) for name in _changes(payload) if name in FIELDS),
        "commit": Markup("<code>{}</code>").format(found_in(payload, "commit", "id")[:_COMMIT_CHARS]),
        "message": Markup("<bdi>{}</bdi>").format(found_in(payload, "commit", "message")),
        "event": event,
        "action": action or "",
    }
    template = _template(event, action, payload)
    sentence = _AMONG_ITSELF.get(template, template) if among_itself else template
    return Markup(gettext(sentence)) % facts  # noqa: S704  # facts are escaped


def mention_sentence(place: ProjectNames, who: str | None, event: str, payload: Any) -> Markup:
    """Describe as HTML that a text mentioned a task, for the page of that task."""
    facts = {
        "who": Markup("<strong>{}</strong>").format(who or "Workhook"),
        "what": _what(place, event, None, payload),
    }
    return Markup(gettext(_MENTIONED[event])) % facts  # noqa: S704  # facts are escaped


def _template(event: str, action: str | None, payload: Any) -> str:
    moved = bool(found_in(payload, "changes", "column_id", "from"))
    if event == "task" and action == "completed" and found_in(payload, "commit", "id"):
        return _CLOSED_BY
    if event == "task" and moved and action in ("moved", "reopened"):
        return _ACROSS
    if event == "task" and moved and action == "completed":
        return _FINISHED_BY
    if event == "task" and action == "edited" and FIELDS.keys() & _changes(payload):
        return _CHANGED
    if event == "file" and action == "edited" and (changed := _change_of(payload, "task_id")) is not None:
        return _ATTACHED if changed.get("to") else _TAKEN_OFF
    if event in _DELETED_OF and (action == "deleted" or _is_emptied(event, payload)):
        is_own = found_in(payload, event, "user", "login") == found_in(payload, "sender", "login")
        return _SENTENCES[event]["deleted"] if is_own else _DELETED_OF[event]
    if event == "invoice" and not found_in(payload, event, "invoice_number"):
        return _DRAFT.get(action or "", _OTHER)
    if (own := _OF_ONESELF.get((event, action))) and _is_about_sender(event, payload):
        return own
    # A restored object also has the action `created`.
    was_there = found_in(payload, event, "created_at") != found_in(payload, event, "updated_at")
    if action == "created" and event in _RESTORED and was_there:
        return _RESTORED[event]
    return _SENTENCES.get(event, {}).get(action or "", _OTHER)


def _is_about_sender(event: str, payload: Any) -> bool:
    """Return whether people accepted an invitation or left, rather than being added or removed by someone else."""
    login = found_in(payload, event, *_TITLES[event])
    return bool(login) and login == found_in(payload, "sender", "login")


def _is_emptied(event: str, payload: Any) -> bool:
    """Return whether a comment with replies was deleted, which empties its text instead."""
    change = _change_of(payload, "body" if event == "file_comment_reply" else "text")
    return change is not None and change.get("to") == ""


def _changes(payload: Any) -> dict[str, Any]:
    changes = payload.get("changes") if isinstance(payload, dict) else None
    return changes if isinstance(changes, dict) else {}


def _change_of(payload: Any, name: str) -> dict[str, Any] | None:
    change = _changes(payload).get(name)
    return change if isinstance(change, dict) else None


_TITLES: Mapping[str, tuple[str, ...]] = {
    "task_comment": ("task", "title"),
    "file_comment": ("file", "title"),
    "client": ("username",),
    "member": ("login",),
    "service_checkout": ("service", "title"),
}


def _what(place: ProjectNames, event: str, action: str | None, payload: Any) -> Markup:
    """Return the object's title as HTML, linked to its page if it has one."""
    title = found_in(payload, event, *_TITLES.get(event, ("title",)))
    if event == "invoice":  # the title in the payload is always English
        title = found_in(payload, event, "invoice_number")
    if event in ("member", "client"):
        title = place.people.get(title, title)
    address = _address(place.base, event, payload)
    is_gone = action == "deleted" and event in ("task", "file")
    if address and not is_gone:
        return Markup('<a href="{}"><bdi>{}</bdi></a>').format(address, title)
    return Markup("<bdi>{}</bdi>").format(title)


def _address(base: str, event: str, payload: Any) -> str:
    noun = event.removesuffix("_comment")
    its_id = found_in(payload, event, "id") if noun == event else found_in(payload, event, noun, "id")
    if noun not in ("task", "file") or not its_id:
        return ""
    number = None if noun == event else payload[event].get("id")
    fragment = f"#{number}" if isinstance(number, int) else ""
    return f"{base}/{noun}s/{quote(its_id, safe='')}{fragment}"


places = Places("activity")
ROWS = 50


class ActivityEntry(msgspec.Struct, frozen=True):
    """An entry of the page. `sentence` is HTML."""

    id: int
    who: PersonShape | None
    sentence: Any
    event: str
    action: str | None
    at: int


@places.get("/{owner}/{project}/activity")
async def activity(visit: Visit) -> Response:
    """Show the events of a project, newest first."""
    access = await visit.follow()
    access.require_member("see the activity of a project")
    given = paging.given(visit)
    query = paging.query_of(ActivityQuery, given, ROWS)
    listed = await queries.list_activity(visit.call, access.repository.project_id, query)
    titles = {each.id: each.title for each in await columns.list_board_columns(visit.database, access.repository.id)}
    people = await logins_of(visit.database, access)
    place = ProjectNames(f"/{access.repository.full_name}", titles, people)
    names = Names(each.actor for each in listed.body.activity if each.actor)
    entries = []
    for each in listed.body.activity:
        who, stored = names(each.actor) if each.actor else None, json.decode_stored(bytes(each.payload))
        words = sentence(place, who, each.event, each.action, stored, published=each.published)
        at = parse_rfc3339(each.created_at)
        entries.append(ActivityEntry(each.id, each.actor, words, each.event, each.action, at))
    return visit.page(
        "activity/activity.html",
        entries=entries,
        given=defaultdict(str, given),
        kinds={name: gettext(label) for name, label in KINDS.items()},
        people=people,
        more=paging.next_page(listed.headers),
        first=paging.with_query(visit, cursor=None),
    )


@places.get("/{owner}/{project}/activity/{event_id}")
async def payload(visit: Visit) -> Response:
    """Show the webhook payload of an event, as a frame of the page or, without JavaScript, as a page."""
    access = await visit.access()
    access.require_member("see the activity of a project")
    event_id = visit.call.path_integer("event_id")
    rows = await queries.find_activity(visit.database, access.repository.id, before=event_id + 1, limit=1)
    if not rows or rows[0]["id"] != event_id:
        raise NotFound()
    sent = to_show(rows[0]["payload"])
    text = json.indented(sent) or sent.decode("utf-8", "replace")
    return visit.page("activity/payload.html", event_id=event_id, row=rows[0], text=text)


live_places = Places("live")

_CHANGED_FRAME = b"event: changed\ndata:\n\n"


class Changes(AsyncIterator[bytes]):
    """One frame for each event of the project's stream. `is_late`: also one at the start, for events missed before."""

    def __init__(self, stream: Stream, *, is_late: bool) -> None:
        self._stream, self._is_late = stream, is_late
        self._is_opening = True

    async def __anext__(self) -> bytes:
        part = await anext(self._stream)
        if self._is_opening:
            self._is_opening = False
            return part + _CHANGED_FRAME if self._is_late else part
        return part if part == HEARTBEAT else _CHANGED_FRAME

    async def aclose(self) -> None:
        await self._stream.aclose()


@live_places.get("/{owner}/{project}/live", head=False)
async def live(visit: Visit) -> Response:
    """Stream the project's changes to an open page. Not for clients: the timing would reveal private changes."""
    access = await visit.access()
    access.require_member("follow the activity of a project")
    proof = queries.Proof("session", visit.session.id)
    listener = Listener(proof, f"session:{visit.actor.user.id}", access.repository.owner.id)
    stream = await follow(visit.call.services, access.repository.id, listener, None)
    seen = visit.query_id("seen")
    is_late = seen is not None and await order.has_events(visit.database, access.repository.id, seen, stream.position)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second is for nginx
    return Response(Changes(stream, is_late=is_late), headers=headers, media_type="text/event-stream")
