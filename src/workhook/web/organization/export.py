"""`/{owner}/settings/export`: everything of an organization, to keep or to take elsewhere."""

from __future__ import annotations

from workhook.core.clock import now_ms
from workhook.core.errors import Conflict, TooManyRequests
from workhook.http.calls import Answer
from workhook.identity.schemas import Organization
from workhook.web.frame.places import Places, Visit
from workhook.web.organization.view import entries, owned
from workhook.work.portability.moving.archive import MEDIA_TYPE, headers_of, make_archive

places = Places("export")


@places.get("/{owner}/settings/export")
async def show_export(visit: Visit) -> Answer:
    """Show what an export holds."""
    return _page(visit, await owned(visit))


@places.post("/{owner}/settings/export")
async def download(visit: Visit) -> Answer:
    """Download everything of the organization."""
    organization = await owned(visit, "export")
    account, call = organization.account, visit.call
    try:
        archive = await make_archive(call.services, visit.actor, account, call.base_for_others, call.request_id)
    except (Conflict, TooManyRequests) as problem:
        return _page(visit, organization, problem)
    return Answer(archive, headers=headers_of(account, now_ms()), media_type=MEDIA_TYPE)


def _page(visit: Visit, organization: Organization, problem: Conflict | TooManyRequests | None = None) -> Answer:
    return visit.page(
        "organization/export.html",
        status=problem.status if problem else 200,
        place=organization,
        entries=entries(),
        faults=[] if problem is None else problem.reasons,
    )
