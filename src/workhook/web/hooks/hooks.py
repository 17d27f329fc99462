"""Webhooks: the list with their health, forms to create, edit, and delete them, and tools to test them."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from workhook.core.errors import Invalid, NotFound, require_found
from workhook.events import samples
from workhook.events.catalog import CATALOG
from workhook.events.hook_config import fault, parse_config
from workhook.hooks import actions, health, queries
from workhook.hooks.bodies import HookChange
from workhook.hooks.schemas import Hook
from workhook.http.calls import Response
from workhook.identity.context import Write
from workhook.web.frame.flash import Undo
from workhook.web.frame.forms import faults_of
from workhook.web.frame.paging import numbered_page
from workhook.web.frame.places import Visit
from workhook.web.frame.sessions import redirect
from workhook.web.frame.texts import gettext, ngettext
from workhook.web.hooks import charts, forms, outcomes, snippets
from workhook.web.hooks.payloads import pretty
from workhook.web.hooks.site import HookPlaces, HookSite, hook_at, hook_id_of, hook_page, limit_in_words, list_app_hooks

places = HookPlaces("hook")
PER_PAGE = 25
CHANGED = "changed_meanwhile"
ROTATIONS_S = (0, 3600, 24 * 3600, 7 * 24 * 3600)


@places.get("")
async def hooks(visit: Visit, site: HookSite) -> Response:
    number, page = numbered_page(visit, PER_PAGE)
    found, total = await queries.list_hooks(visit.database, site.owner, page)
    healths = await asyncio.gather(*(health.hook_health(visit.database, hook) for hook in found))
    rows = list(zip(found, healths, strict=True))
    of_apps, of_apps_total = await list_app_hooks(visit, site)
    return visit.page(
        "hooks/hooks.html", site=site, rows=rows, total=total, number=number, per_page=PER_PAGE, charts=charts,
        outcomes=outcomes, of_apps=of_apps, of_apps_total=of_apps_total,
        is_receiver=visit.call.services.own.is_receiver,
    )  # fmt: skip


@places.get("/new", right="write")
async def new(visit: Visit, site: HookSite) -> Response:
    visit.require_recent()
    return _new_page(visit, site, forms.HookForm({"url": "", "content_type": "json"}))


@places.post("", makes=True, action="hook.create")
async def create(visit: Visit, site: HookSite) -> Response:
    """Create a webhook, and show its secret if it was generated."""
    visit.require_recent(f"{site.base}/new")
    secret, made = forms.secret_of(visit.fields)
    try:
        change = forms.parse(visit.fields, site.owner.target, visit.call.services.check_url, secret)
        hook = await visit.change(lambda write: actions.create_hook(actions.hook_write(visit.call, write.tx), change))
    except Invalid as problem:
        return _new_page(visit, site, forms.form_again(visit.fields, problem))
    if made:
        return await _secret_page(visit, site, hook, secret, created=True)
    return visit.done(f"{site.address(hook.id)}/deliveries", gettext("Webhook created."))


def _new_page(visit: Visit, site: HookSite, form: forms.HookForm) -> Response:
    own, common = forms.catalogue(site.owner.target)
    return visit.page("hooks/new.html", form=form, site=site, own=own, common=common)


async def _secret_page(visit: Visit, site: HookSite, hook: Hook, secret: str, *, created: bool) -> Response:
    """Show a secret, only in the response to the form that created it."""
    return await hook_page(
        visit, "hooks/secret.html", site, hook, status=201 if created else 200, has_secret=True, secret=secret,
        created=created, snippets=snippets.get_snippets(visit.call.services.settings.header_prefix),
    )  # fmt: skip


@places.get("/{hook_id}")
async def hook(visit: Visit, site: HookSite) -> Response:
    """Show a webhook with its health, settings, and actions."""
    found = await hook_at(visit)
    return await _hook_page(visit, site, found, forms.form_of(found))


async def _hook_page(
    visit: Visit,
    site: HookSite,
    found: Hook,
    form: forms.HookForm,
    *,
    secret_faults: dict[str, str] | None = None,
    is_stale: bool = False,
) -> Response:
    own, common = forms.catalogue(site.owner.target)
    its = await health.hook_health(visit.database, found)
    return await hook_page(
        visit, "hooks/hook.html", site, found, form=form, health=its, own=own, common=common,
        charts=charts, outcomes=outcomes, rotations=ROTATIONS_S, secret_faults=secret_faults or {},
        secret_kind=visit.fields.get("secret_kind", "make"), is_stale=is_stale, asks_off=visit.query("off") == "1",
        arrives_here=site.access is not None and visit.call.services.own.is_receiver(found.config["url"]),
    )  # fmt: skip


@places.post("/{hook_id}", action="hook.update")
async def update(visit: Visit, site: HookSite) -> Response:
    found = await hook_at(visit)
    try:
        change = forms.parse(visit.fields, site.owner.target, visit.call.services.check_url, hook=found)
        if change.config is not None and change.config.shown.get("url") != found.config["url"]:
            visit.require_recent(site.address(found.id))  # events go to another receiver, as with a new webhook
        if found.active and change.active is False and (await health.waiting(visit.database, found)).number:
            message = gettext(
                "Events are waiting for this webhook and would be discarded. Use “Disable” above to confirm."
            )
            raise Invalid(faults=[fault(message, field="active")])
        await _update(visit, change, visit.fields.get("version", ""))
    except Invalid as problem:
        again = forms.form_again(visit.fields, problem, found)
        return await _hook_page(visit, site, found, again, is_stale=problem.code == CHANGED)
    return visit.done(site.address(found.id), gettext("Webhook saved."))


async def _update(visit: Visit, change: HookChange, seen: str = "") -> None:
    """Update the webhook.

    `seen` is the version shown by the form, if any. Raises `Invalid` if the webhook has changed since, because the form
    contains all settings and would undo the other change.
    """

    async def step(write: Write) -> None:
        hook = await actions.update_hook(actions.hook_write(visit.call, write.tx), hook_id_of(visit), change)
        if seen and seen not in (str(hook.version - 1), str(hook.version)):  # it counts this change too
            raise Invalid(gettext("This webhook has changed since you opened the page."), code=CHANGED)

    await visit.change(step)


@places.post("/{hook_id}/active", action="hook.update")
async def switch(visit: Visit, site: HookSite) -> Response:
    """Enable or disable a webhook."""
    active = visit.fields.get("active") == "1"
    before = await hook_at(visit)
    waiting = await health.waiting(visit.database, before) if before.active and not active else health.Waiting(0)
    address = site.address(before.id)
    if waiting.number and visit.fields.get("drop") != "1":
        return redirect(f"{address}?off=1#off")
    await _update(visit, HookChange(active=active))
    if waiting.number:  # dropped events cannot be restored, so there is no undo
        dropped = ngettext(
            "%(num)d waiting event was discarded.", "%(num)d waiting events were discarded.", waiting.number
        )
        return visit.done(address, gettext("Webhook disabled.") + " " + dropped)
    text = gettext("Webhook enabled.") if active else gettext("Webhook disabled. Nothing is sent to it.")
    return visit.done(address, text, undo=Undo(f"{address}/active", {"active": "0" if active else "1"}))


@places.get("/{hook_id}/secret", right="write")
async def ask_for_secret(visit: Visit, site: HookSite) -> Response:
    """Redirect to the form of the secret after re-authentication."""
    found = await hook_at(visit)
    visit.require_recent()
    return visit.done(f"{site.address(found.id)}#secret")


@places.post("/{hook_id}/secret", action="hook.update")
async def change_secret(visit: Visit, site: HookSite) -> Response:
    """Change the secret, and show the new one if it was generated."""
    found = await hook_at(visit)
    visit.require_recent(f"{site.address(found.id)}/secret")
    secret, made = forms.secret_of(visit.fields)
    config: dict[str, object] = {"secret": secret}
    kept = visit.fields.get("previous_secret_expires_in", "")
    if kept.isascii() and kept.isdigit() and int(kept) in ROTATIONS_S and secret:
        config["previous_secret_expires_in"] = int(kept)
    try:
        if wrong := forms.secret_faults(visit.fields):
            raise Invalid(faults=wrong)
        faults: list[Any] = []
        change = parse_config(config, visit.call.services.check_url, faults)
        if faults:
            raise Invalid(faults=faults)
        await visit.change(
            lambda write: actions.update_config(actions.hook_write(visit.call, write.tx), hook_id_of(visit), change)
        )
    except Invalid as problem:
        by_field, others = faults_of(problem)
        by_field.setdefault("secret", " ".join(others))
        form = forms.form_of(found)
        form.status = problem.status
        return await _hook_page(visit, site, found, form, secret_faults=by_field)
    if made:
        return await _secret_page(visit, site, found, secret, created=False)
    text = gettext("Secret changed.") if secret else gettext("Secret removed. Deliveries are no longer signed.")
    return visit.done(site.address(found.id), text)


@places.post("/{hook_id}/delete", right="delete", action="hook.delete")
async def delete(visit: Visit, site: HookSite) -> Response:
    await visit.change(lambda write: actions.hooks_delete(write, hook_id_of(visit)))
    return visit.done(site.base, gettext("Webhook deleted."))


trial_places = HookPlaces("trial")


@trial_places.post("/{hook_id}/ping", action="hook.ping")
async def ping(visit: Visit, site: HookSite) -> Response:
    with limit_in_words():
        await visit.change(lambda write: actions.hooks_ping(write, hook_id_of(visit)))
    return visit.done(f"{site.address(hook_id_of(visit))}/deliveries", gettext("Ping sent."))


@trial_places.post("/{hook_id}/test", action="hook.test")
async def test_event(visit: Visit, site: HookSite) -> Response:
    """Send the sample of an event (`event` or `event.action`) to a webhook."""
    name, _, action = visit.fields.get("event", "").partition(".")
    if not name:
        raise Invalid(gettext("Choose an event first."), code="missing_event")
    with limit_in_words():
        await visit.change(lambda write: actions.send_sample(write, hook_id_of(visit), name, action or None))
    text = gettext("Test event “%(event)s” sent.", event=visit.fields.get("event", ""))
    # Keep the event selected for the next test.
    kept = urlencode({"test": visit.fields.get("event", "")})
    return visit.done(f"{site.address(hook_id_of(visit))}/deliveries?{kept}", text)


@trial_places.get("/events/{name}")
async def event(visit: Visit, site: HookSite) -> Response:
    """Show an event of the catalog with a sample payload."""
    found = require_found(CATALOG.get(visit.path("name")))
    action = visit.query("action")
    if action and action not in found.actions:
        raise NotFound()
    payload = pretty(samples.sample(found.name, action or None))
    chosen = action or next(iter(found.actions), "")
    # The form of a webhook loads this into a frame.
    template = "hooks/event_frame.html" if visit.call.header("turbo-frame") else "hooks/event.html"
    return visit.page(template, site=site, event=found, action=chosen, payload=payload)


@trial_places.get("/{hook_id}/verify")
async def verify(visit: Visit, site: HookSite) -> Response:
    """Show code that verifies the signatures of a webhook's deliveries."""
    found = await hook_at(visit)
    code = snippets.get_snippets(visit.call.services.settings.header_prefix)
    return await hook_page(visit, "hooks/verify.html", site, found, snippets=code)
