"""The form of a webhook: what it shows, and the body of the API that it stands for.

The API's own parser reads the body (`hooks.bodies.parse_hook`), so a form has the same checks and messages. A form also
refuses what would silently leave deliveries unsigned or without a password.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping

from workhook.core.disclosure import Secretive
from workhook.core.errors import Fault, Invalid, Problem
from workhook.events.catalog import ANY_EVENT, CATALOG, CatalogEvent, HookTarget, valid_for
from workhook.events.hook_config import MASK, STANDARD_SECRET_PREFIX, fault, is_mask, require_standard_secret
from workhook.hooks.bodies import HookChange, parse_hook
from workhook.hooks.records import Hook
from workhook.http.calls import Call
from workhook.web.frame.forms import PageForm, faults_of
from workhook.web.frame.texts import gettext

CONFIG = (
    "url", "content_type", "insecure_ssl", "header_style", "username", "retries", "max_concurrency", "rate_limit",
)  # fmt: skip
"""The plain settings, by the names that they have in the API and in the form."""

MARKED = ("url", "content_type", "events", *CONFIG[2:5], "password", *CONFIG[5:], "active", "secret")
"""The fields that can be wrong, in the order of the page."""

PUSH_ONLY, EVERYTHING, CHOSEN = "push", "all", "choose"
SECRET_KINDS = ("make", "own", "none")
_CHECKBOX = "event."
_SECRET_BYTES = 30  # 40 characters of base64 without padding


class HookForm(Secretive, PageForm):
    """The form of a webhook, with what is chosen in it."""

    which: str = EVERYTHING
    events: frozenset[str] = frozenset()
    active: bool = True
    has_password: bool = False
    secret_kind: str = "make"  # noqa: S105  # a word of the form

    @property
    def first_fault(self) -> str:
        """The first field of the page that is wrong; empty without one."""
        return next((name for name in MARKED if name in self.faults), "")

    @property
    def has_advanced(self) -> bool:
        """Whether one of the folded settings has a value, or a fault."""
        folded = [each for each in (*CONFIG[2:], "password") if each != "content_type"]
        return any(self.values.get(each) or each in self.faults for each in folded)


def blank() -> HookForm:
    return HookForm({"url": "", "content_type": "json"})


def form_of(hook: Hook) -> HookForm:
    """The form with what is stored. Secrets are not shown."""
    values = {**hook.config, "content_type": hook.content_type}
    names = frozenset(hook.events)
    which = EVERYTHING if ANY_EVENT in names else PUSH_ONLY if names == {"push"} else CHOSEN
    has_password = hook.password is not None
    return HookForm(values, which=which, events=names, active=hook.active, has_password=has_password)


def form_again(fields: Mapping[str, str], problem: Problem, hook: Hook | None = None) -> HookForm:
    """The form as it was sent, with what is wrong. What was typed as a secret or a password is not shown again."""
    form = HookForm(
        {name: fields.get(name, "") for name in CONFIG},
        which=fields.get("which", CHOSEN),
        events=frozenset(_chosen(fields)),
        active="active" in fields,
        has_password=hook is not None and hook.password is not None,
        secret_kind=fields.get("secret_kind", "make"),
    )
    by_field, form.problems = faults_of(problem)
    if hook is not None and "secret" in by_field:  # it is in a form of its own; here the style is what asks for another
        by_field.setdefault("header_style", by_field.pop("secret"))
    for name in _typed_secrets(fields):
        by_field.setdefault(name, gettext("Enter it again: what you typed is not kept."))
    form.faults = by_field
    return form


def _typed_secrets(fields: Mapping[str, str]) -> list[str]:
    """The fields whose values a page does not show again."""
    own = fields.get("secret_kind") == "own" and bool(fields.get("secret"))  # only a new webhook's form has it
    return (["password"] if fields.get("password") else []) + (["secret"] if own else [])


def parse(
    fields: Mapping[str, str],
    target: HookTarget,
    check_url: Callable[[str], str | None],
    secret: str = "",
    hook: Hook | None = None,
) -> HookChange:
    """What the form asks for. `secret`: of a new webhook; `hook`: the one that is changed, whose secret and password
    stay. Raises `Invalid` with all that is wrong, of what the API refuses and of what only the form does."""
    faults = _missing(fields, hook) + ([] if hook else secret_faults(fields) or _style_faults(fields, secret))
    try:
        change = parse_hook(_body_of(fields, secret, hook), target, check_url, creating=hook is None)
    except Invalid as problem:
        if not problem.faults:
            raise
        raise Invalid(faults=[*problem.faults, *faults]) from problem
    if faults:
        raise Invalid(faults=faults)
    return change


def _missing(fields: Mapping[str, str], hook: Hook | None) -> list[Fault]:
    """What the API would take without it, and nobody means who fills in a form."""
    found = []
    if fields.get("which", CHOSEN) == CHOSEN and not _chosen(fields):
        found.append(fault(gettext("Choose at least one event."), field="events"))
    password = fields.get("password", "")
    has_password = bool(password and not is_mask(password)) or (hook is not None and hook.password is not None)
    if fields.get("username", "").strip() and not has_password:
        found.append(fault(gettext("Enter the password that goes with the user name."), field="password"))
    return found


def secret_faults(fields: Mapping[str, str]) -> list[Fault]:
    """What is wrong with the choice of a secret: an empty one would leave everything unsigned, as nobody chose."""
    kind = fields.get("secret_kind", "make")
    own = fields.get("secret", "").strip()
    if kind == "own" and (not own or is_mask(own)):
        return [fault(gettext("Enter the secret, or choose to have one made."), field="secret")]
    return [] if kind in SECRET_KINDS else [fault(gettext("Choose where the secret comes from."), field="secret")]


def _style_faults(fields: Mapping[str, str], secret: str) -> list[Fault]:
    try:
        require_standard_secret(fields, secret or None)
    except Invalid as problem:
        return list(problem.faults)
    return []


def _body_of(fields: Mapping[str, str], secret: str, hook: Hook | None) -> dict[str, object]:
    """What the API would be sent."""
    config: dict[str, object] = {name: fields[name].strip() for name in CONFIG if name in fields}
    if hook is None:
        config["secret"] = "" if is_mask(secret) else secret  # `secret_faults` refuses it
    elif hook.secret is not None:
        config["secret"] = MASK
    password = fields.get("password", "")
    had_no_name = hook is not None and hook.password is not None and not hook.config.get("username")
    has_none = hook is None or hook.password is None
    if password and not (is_mask(password) and has_none and config.get("username")):  # which `_missing` refuses
        config["password"] = password
    elif not has_none and (config.get("username") or had_no_name):
        config["password"] = MASK
    body: dict[str, object] = {"config": config, "events": events_of(fields), "active": "active" in fields}
    return {"name": "web", **body} if hook is None else body


def events_of(fields: Mapping[str, str]) -> list[str]:
    which = fields.get("which", CHOSEN)
    return ["push"] if which == PUSH_ONLY else [ANY_EVENT] if which == EVERYTHING else _chosen(fields)


def _chosen(fields: Mapping[str, str]) -> list[str]:
    return [name.removeprefix(_CHECKBOX) for name in fields if name.startswith(_CHECKBOX)]


def secret_of(fields: Mapping[str, str]) -> tuple[str, bool]:
    """The secret that the form asks for; empty: none. And whether it was made here, so that it has to be shown."""
    kind = fields.get("secret_kind", "make")
    if kind == "make":
        return new_secret(), True
    return (fields.get("secret", "") if kind == "own" else ""), False


def new_secret() -> str:
    """In the form that Standard Webhooks asks for; every header style takes it."""
    return STANDARD_SECRET_PREFIX.decode() + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def catalogue(target: HookTarget) -> tuple[list[CatalogEvent], list[CatalogEvent]]:
    """The events that such a webhook can have: those that Workhook makes, and those that others publish."""
    fitting = [each for each in CATALOG.values() if valid_for(each.name, target)]
    own = [each for each in fitting if each.origin == "own"]
    return own, [each for each in fitting if each.origin != "own"]


def header_prefix(call: Call) -> str:
    """The first part of the names of the headers that deliveries have."""
    return call.services.settings.header_prefix
