"""What an integrator tries a webhook with: pings, test events, sample payloads, and code that checks signatures."""

from __future__ import annotations

from urllib.parse import urlencode

from workhook.core.errors import Invalid, NotFound
from workhook.events import samples
from workhook.events.catalog import CATALOG
from workhook.hooks import actions
from workhook.http.calls import Answer
from workhook.web.frame.places import Visit
from workhook.web.frame.texts import gettext
from workhook.web.hooks import snippets
from workhook.web.hooks.forms import header_prefix
from workhook.web.hooks.payloads import pretty
from workhook.web.hooks.site import HookPlaces, HookSite, hook_at, hook_id_of, hook_page, limit_in_words

places = HookPlaces("trial")


@places.post("/{hook_id}/ping", action="hook.ping")
async def ping(visit: Visit, site: HookSite) -> Answer:
    """Send a ping to a webhook."""
    with limit_in_words():
        await visit.change(lambda write: actions.hooks_ping(write, hook_id_of(visit)))
    return visit.done(f"{site.address(hook_id_of(visit))}/deliveries", gettext("A ping is on its way."))


@places.post("/{hook_id}/test", action="hook.test")
async def test_event(visit: Visit, site: HookSite) -> Answer:
    """Send the sample of an event to a webhook: `event`, or `event.action`."""
    name, _, action = visit.fields.get("event", "").partition(".")
    if not name:
        raise Invalid(gettext("Choose an event first."), code="missing_event")
    with limit_in_words():
        await visit.change(lambda write: actions.send_sample(write, hook_id_of(visit), name, action or None))
    text = gettext("A sample of “%(event)s” is on its way.") % {"event": visit.fields.get("event", "")}
    # With the event, so that its like is sent again without choosing it once more.
    kept = urlencode({"test": visit.fields.get("event", "")})
    return visit.done(f"{site.address(hook_id_of(visit))}/deliveries?{kept}", text)


@places.get("/events/{name}")
async def event(visit: Visit, site: HookSite) -> Answer:
    """Show an event of the catalogue with a sample of its payload."""
    found = CATALOG.get(visit.path("name"))
    if found is None:
        raise NotFound()
    action = visit.query("action")
    if action and action not in found.actions:
        raise NotFound()
    payload = pretty(samples.sample(found.name, action or None))
    chosen = action or next(iter(found.actions), "")
    # The form of a webhook loads it into itself, and needs no page around it.
    template = "hooks/event_frame.html" if visit.call.header("turbo-frame") else "hooks/event.html"
    return visit.page(template, site=site, event=found, action=chosen, payload=payload)


@places.get("/{hook_id}/verify")
async def verify(visit: Visit, site: HookSite) -> Answer:
    """Show code that checks the signatures of a webhook's deliveries."""
    found = await hook_at(visit)
    code = snippets.all_for(header_prefix(visit.call))
    return await hook_page(visit, "hooks/verify.html", site, found, snippets=code)
