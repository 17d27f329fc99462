"""The form of a webhook, and its conversion to and from the API's body.

The API's parser reads the body (`hooks.bodies.parse_hook`), so a form has the same checks and messages. A form also
rejects input that would silently leave deliveries unsigned or without a password.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping

from workhook.core.disclosure import HiddenRepr
from workhook.core.errors import Fault, Invalid, Problem
from workhook.events.catalog import ANY_EVENT, CATALOG, CatalogEvent, HookTarget, valid_for
from workhook.events.hook_config import MASK, STANDARD_SECRET_PREFIX, fault, is_mask, require_standard_secret
from workhook.hooks.bodies import HookChange, parse_hook
from workhook.hooks.schemas import Hook
from workhook.web.frame.forms import Faults, PageForm, faults_of
from workhook.web.frame.texts import gettext

CONFIG = (
    "url", "content_type", "insecure_ssl", "header_style", "username", "retries", "max_concurrency", "rate_limit",
)  # fmt: skip
"""The plain settings, by their names in the API and in the form."""

MARKED = ("url", "content_type", "events", *CONFIG[2:5], "password", *CONFIG[5:], "active", "secret")
"""The validated fields, in the order of the page."""

PUSH_ONLY, EVERYTHING, CHOSEN = "push", "all", "choose"
SECRET_KINDS = ("make", "own", "none")
_CHECKBOX = "event."
_SECRET_BYTES = 30  # 40 characters of base64 without padding


class HookForm(HiddenRepr, PageForm):
    which: str = EVERYTHING
    events: frozenset[str] = frozenset()
    active: bool = True
    has_password: bool = False
    secret_kind: str = "make"  # noqa: S105  # a field name

    @property
    def first_fault(self) -> str:
        """Return the first field with an error; empty without errors."""
        return next((name for name in MARKED if name in self.faults), "")

    @property
    def has_advanced(self) -> bool:
        """Return whether an advanced setting has a value or an error."""
        folded = [each for each in (*CONFIG[2:], "password") if each != "content_type"]
        return any(self.values.get(each) or each in self.faults for each in folded)


def form_of(hook: Hook) -> HookForm:
    """Return the form with the stored settings, without secrets."""
    values = {**hook.config, "content_type": hook.content_type}
    names = frozenset(hook.events)
    which = EVERYTHING if ANY_EVENT in names else PUSH_ONLY if names == {"push"} else CHOSEN
    has_password = hook.password is not None
    return HookForm(values, which=which, events=names, active=hook.active, has_password=has_password)


def form_again(fields: Mapping[str, str], problem: Problem, hook: Hook | None = None) -> HookForm:
    """Return the submitted form with its errors, without a typed secret or password."""
    form = HookForm(
        {name: fields.get(name, "") for name in CONFIG},
        which=fields.get("which", CHOSEN),
        events=frozenset(_chosen(fields)),
        active="active" in fields,
        has_password=hook is not None and hook.password is not None,
        secret_kind=fields.get("secret_kind", "make"),
        status=problem.status,
    )
    by_field, form.problems = faults_of(problem)
    if (
        hook is not None and "secret" in by_field
    ):  # the secret has its own form, so the error belongs to the header style
        by_field.setdefault("header_style", by_field.pop("secret"))
    has_own = fields.get("secret_kind") == "own" and bool(fields.get("secret"))  # only in a new webhook's form
    for name, is_typed in (("password", bool(fields.get("password"))), ("secret", has_own)):
        if is_typed:
            by_field.setdefault(name, gettext("Enter it again. For security, it isn’t kept."))
    form.faults = by_field
    return form


def parse(
    fields: Mapping[str, str],
    target: HookTarget,
    check_url: Callable[[str], str | None],
    secret: str = "",
    hook: Hook | None = None,
) -> HookChange:
    """Read the form.

    `secret` is that of a new webhook. `hook` is the edited webhook, which keeps its secret and password. Raises
    `Invalid` with all errors of the API's parser and of the form.
    """
    faults = Faults(_missing(fields, hook))
    if hook is None and not (wrong := secret_faults(fields)):
        with faults:
            require_standard_secret(fields, secret or None)
    elif hook is None:
        faults += wrong
    try:
        change = parse_hook(_body_of(fields, secret, hook), target, check_url, creating=hook is None)
    except Invalid as problem:
        if not problem.faults:
            raise
        raise Invalid(faults=[*problem.faults, *faults]) from problem
    faults.check()
    return change


def _missing(fields: Mapping[str, str], hook: Hook | None) -> list[Fault]:
    """Return errors for fields that are optional in the API but required in the form."""
    found = []
    if fields.get("which", CHOSEN) == CHOSEN and not _chosen(fields):
        found.append(fault(gettext("Choose at least one event."), field="events"))
    password = fields.get("password", "")
    has_password = bool(password and not is_mask(password)) or (hook is not None and hook.password is not None)
    if fields.get("username", "").strip() and not has_password:
        found.append(fault(gettext("Enter the password for this username."), field="password"))
    return found


def secret_faults(fields: Mapping[str, str]) -> list[Fault]:
    """Return the errors of the secret option. An empty secret would leave deliveries unsigned."""
    kind = fields.get("secret_kind", "make")
    own = fields.get("secret", "").strip()
    if kind == "own" and (not own or is_mask(own)):
        return [fault(gettext("Enter a secret or generate one."), field="secret")]
    return [] if kind in SECRET_KINDS else [fault(gettext("Choose a secret option."), field="secret")]


def _body_of(fields: Mapping[str, str], secret: str, hook: Hook | None) -> dict[str, object]:
    config: dict[str, object] = {name: fields[name].strip() for name in CONFIG if name in fields}
    if hook is None:
        config["secret"] = "" if is_mask(secret) else secret  # `secret_faults` rejects it
    elif hook.secret is not None:
        config["secret"] = MASK
    password = fields.get("password", "")
    had_no_name = hook is not None and hook.password is not None and not hook.config.get("username")
    has_none = hook is None or hook.password is None
    if password and not (is_mask(password) and has_none and config.get("username")):  # `_missing` rejects this
        config["password"] = password
    elif not has_none and (config.get("username") or had_no_name):
        config["password"] = MASK
    events = {PUSH_ONLY: ["push"], EVERYTHING: [ANY_EVENT]}.get(fields.get("which", CHOSEN)) or _chosen(fields)
    body: dict[str, object] = {"config": config, "events": events, "active": "active" in fields}
    return {"name": "web", **body} if hook is None else body


def _chosen(fields: Mapping[str, str]) -> list[str]:
    return [name.removeprefix(_CHECKBOX) for name in fields if name.startswith(_CHECKBOX)]


def secret_of(fields: Mapping[str, str]) -> tuple[str, bool]:
    """Return the requested secret, which may be empty, and whether it was generated and must be shown."""
    kind = fields.get("secret_kind", "make")
    if kind == "make":
        return new_secret(), True
    return (fields.get("secret", "") if kind == "own" else ""), False


def new_secret() -> str:
    """Return a new secret in the form of Standard Webhooks, which suits every header style."""
    return STANDARD_SECRET_PREFIX.decode() + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def catalogue(target: HookTarget) -> tuple[list[CatalogEvent], list[CatalogEvent]]:
    """Return the events that a webhook of `target` can select: Workhook's own, and published ones."""
    fitting = [each for each in CATALOG.values() if valid_for(each.name, target)]
    own = [each for each in fitting if each.origin == "own"]
    return own, [each for each in fitting if each.origin != "own"]
