"""All pages. None of them accepts a token; they need a session, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from workhook.http.calls import Call, Response
from workhook.http.negotiation import prefers_page
from workhook.http.operations import Handler, Operation
from workhook.web import activity, administration, audit, board, calendar, home, inbox, listing, project, search, trash
from workhook.web.account import notifications, own_data
from workhook.web.account import settings as account_settings
from workhook.web.billing import credits as task_credits
from workhook.web.billing import drafts, invoices, services, subscriptions
from workhook.web.billing import settings as billing_settings
from workhook.web.docs import pages as docs
from workhook.web.files import files
from workhook.web.frame import assets
from workhook.web.hooks import deliveries, hooks, receiver, site
from workhook.web.organization import apps, installations
from workhook.web.organization import settings as organization
from workhook.web.people import collaborators, links, people
from workhook.web.signin import consent, installing, login, oidc
from workhook.web.tasks import task
from workhook.web.time import entries, report, week
from workhook.web.welcome import importing, welcome

OPERATIONS: tuple[Operation, ...] = (
    *assets.routes,
    *login.routes,
    *account_settings.routes,
    *account_settings.places,
    *account_settings.token_places,
    *own_data.places,
    *administration.places,
    *notifications.places,
    *inbox.places,
    *notifications.routes,
    *oidc.routes,
    *links.routes,
    *links.places,
    *consent.routes,
    *installing.routes,
    *login.confirm_places,
    *activity.live_places,
    *docs.routes,
    *board.places,
    *invoices.places,
    *drafts.places,
    *subscriptions.places,
    *task_credits.places,
    *services.places,
    *billing_settings.account_places,
    *billing_settings.places,
    *board.column_places,
    *board.card_places,
    *files.places,
    *files.change_places,
    *files.comment_places,
    *receiver.routes,
    *receiver.places,
    *site.app_hook_places,
    *hooks.places,
    *hooks.trial_places,
    *deliveries.places,
    *listing.places,
    *listing.all_places,
    *invoices.all_places,
    *calendar.places,
    *calendar.routes,
    *calendar.feed_places,
    *search.places,
    *trash.places,
    *activity.places,
    *week.places,
    *entries.places,
    *week.own_places,
    *report.places,
    *welcome.places,
    *importing.places,
    *home.places,
    *people.places,
    *audit.places,
    *organization.places,
    *apps.places,
    *installations.places,
    *organization.export_places,
    *trash.owner_places,
    *project.places,
    *collaborators.places,
    *collaborators.client_places,
    *links.own_places,
    *task.places,
    *task.subtask_places,
    *task.blocker_places,
    *task.comment_places,
    *task.preview_places,
    *task.history_places,
    *task.timer_places,
)
_FOR_PEOPLE = {"root": home.home, "apps_get_public": installing.about}


def beside(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Add pages to operations of the API that have one. Browsers request HTML by name, API clients do not."""
    for each in operations:
        shown = _FOR_PEOPLE.get(each.name)
        yield replace(each, handler=_either(each.handler, shown), for_people=True) if shown else each


def _either(for_clients: Handler, for_people: Handler) -> Handler:
    async def either(call: Call) -> Response:
        call.answer_headers["Vary"] = "Accept"
        is_person = not call.prefix and prefers_page(call.header("accept"), otherwise=False)
        answer: Response = await (for_people if is_person else for_clients)(call)
        return answer

    return either
