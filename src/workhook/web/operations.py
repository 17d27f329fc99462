"""Every page. None of them has a token: a session, or nothing, lets in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from workhook.http.calls import Answer, Call
from workhook.http.messages import prefers_page
from workhook.http.operations import Handler, Operation
from workhook.web.account import notifications as notification_settings
from workhook.web.account import own_data, settings, tokens
from workhook.web.activity import activity
from workhook.web.administration import users as administration
from workhook.web.audit import entries as audit_entries
from workhook.web.billing import all_invoices, drafts, invoices, lines, money, services, subscriptions, unbilled
from workhook.web.billing import credits as task_credits
from workhook.web.billing import settings as billing_settings
from workhook.web.board import board, columns, selection
from workhook.web.calendar import calendar
from workhook.web.calendar import feeds as calendar_feeds
from workhook.web.docs import pages as docs
from workhook.web.files import changes as file_changes
from workhook.web.files import comments as file_comments
from workhook.web.files import files
from workhook.web.frame import assets, live
from workhook.web.home import my_work, owner
from workhook.web.hooks import app_hooks, deliveries, hooks, receiver, trying
from workhook.web.inbox import inbox
from workhook.web.listing import all_tasks, listing
from workhook.web.mail import unsubscribing
from workhook.web.organization import apps, export, installations
from workhook.web.organization import general as organization
from workhook.web.organization import trash as deleted_projects
from workhook.web.people import invited, links, people
from workhook.web.project import collaborators, general, outsiders
from workhook.web.search import search
from workhook.web.signin import confirm, consent, forgotten, installing, login, oidc
from workhook.web.tasks import comments, history, preview, subtasks, task, timers, waits
from workhook.web.time import entries, own, report, week
from workhook.web.trash import trash
from workhook.web.welcome import importing, welcome

OPERATIONS: tuple[Operation, ...] = (
    *assets.routes,
    *login.routes,
    *forgotten.routes,
    *settings.routes,
    *settings.places,
    *tokens.places,
    *own_data.places,
    *administration.places,
    *notification_settings.places,
    *inbox.places,
    *unsubscribing.routes,
    *oidc.routes,
    *links.routes,
    *links.places,
    *consent.routes,
    *installing.routes,
    *confirm.places,
    *live.places,
    *docs.routes,
    *board.places,
    *invoices.places,
    *drafts.places,
    *lines.places,
    *unbilled.places,
    *money.places,
    *subscriptions.places,
    *task_credits.places,
    *services.places,
    *billing_settings.places,
    *columns.places,
    *selection.places,
    *files.places,
    *file_changes.places,
    *file_comments.places,
    *receiver.routes,
    *receiver.places,
    *app_hooks.places,
    *hooks.places,
    *trying.places,
    *deliveries.places,
    *listing.places,
    *all_tasks.places,
    *all_invoices.places,
    *calendar.places,
    *calendar_feeds.routes,
    *calendar_feeds.places,
    *search.places,
    *trash.places,
    *activity.places,
    *week.places,
    *entries.places,
    *own.places,
    *report.places,
    *welcome.places,
    *importing.places,
    *owner.places,
    *people.places,
    *audit_entries.places,
    *organization.places,
    *apps.places,
    *installations.places,
    *export.places,
    *deleted_projects.places,
    *general.places,
    *collaborators.places,
    *outsiders.places,
    *invited.places,
    *task.places,
    *subtasks.places,
    *waits.places,
    *comments.places,
    *preview.places,
    *history.places,
    *timers.places,
)
_FOR_PEOPLE = {"root": my_work.home, "apps_get_public": installing.about}


def beside(operations: Iterable[Operation]) -> Iterator[Operation]:
    """The API's operations, some of which show people a page: browsers ask for HTML by name, API clients do not."""
    for each in operations:
        shown = _FOR_PEOPLE.get(each.name)
        yield replace(each, handler=_either(each.handler, shown), for_people=True) if shown else each


def _either(for_clients: Handler, for_people: Handler) -> Handler:
    async def either(call: Call) -> Answer:
        call.answer_headers["Vary"] = "Accept"
        is_person = not call.prefix and prefers_page(call.header("accept"), otherwise=False)
        answer: Answer = await (for_people if is_person else for_clients)(call)
        return answer

    return either
