"""The form of a webhook: what it shows, and the body of the API that it stands for.

The API's own parser reads the body (`hooks.bodies.parse_hook`), so a form has the same checks and messages.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping

import msgspec

from workhook.core.errors import Problem
from workhook.core.secrecy import Secretive
from workhook.events.catalog import ANY_EVENT, CATALOG, CatalogEvent, HookTarget, valid_for
from workhook.hooks.config_keys import MASK, STANDARD_SECRET_PREFIX
from workhook.hooks.records import Hook
from workhook.http.calls import Call
from workhook.web.frame.texts import gettext

CONFIG = (
    "url", "content_type", "insecure_ssl", "header_style", "username", "retries", "max_concurrency", "rate_limit",
)  # fmt: skip
"""The plain settings, by the names that they have in the API and in the form."""

PUSH_ONLY, EVERYTHING, CHOSEN = "push", "all", "choose"
_CHECKBOX = "event."
_SECRET_BYTES = 30  # 40 characters of base64 without padding


class HookForm(Secretive, msgspec.Struct):
    """The values of the form, and what is wrong with them: by field, and as a whole."""

    values: dict[str, str]
    which: str = EVERYTHING
    events: frozenset[str] = frozenset()
    active: bool = True
    has_password: bool = False
    secret_kind: str = "make"  # noqa: S105  # a word of the form
    faults: dict[str, str] = {}
    problems: list[str] = []

    def value(self, name: str) -> str:
        """Of a field; empty without one."""
        return self.values.get(name, "")

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
    return HookForm(values, which, names, hook.active, hook.password is not None)


def form_again(fields: Mapping[str, str], problem: Problem, hook: Hook | None = None) -> HookForm:
    """The form as it was sent, with what is wrong. What was typed as a secret or a password is not shown again."""
    form = HookForm(
        {name: fields.get(name, "") for name in CONFIG},
        fields.get("which", CHOSEN),
        frozenset(_chosen(fields)),
        "active" in fields,
        hook is not None and hook.password is not None,
        fields.get("secret_kind", "make"),
    )
    by_field, form.problems = faults_of(problem)
    form.faults = by_field
    return form


def faults_of(problem: Problem) -> tuple[dict[str, str], list[str]]:
    """What is wrong, by field of the form, and what is about none of them."""
    by_field, others = {}, []
    for fault in problem.faults:
        if fault.field is not None and fault.field not in by_field:
            by_field[fault.field] = fault.message or fault.code
        else:
            others.append(fault.message or fault.code)
    if not problem.faults:
        others.append(problem.message)
    elif by_field:
        others.insert(0, gettext("Nothing was saved. Look at the fields that are marked."))
    return by_field, others


def body_of(fields: Mapping[str, str], hook: Hook | None = None) -> dict[str, object]:
    """What the API would be sent. `hook`: the one that is changed, whose secret and password stay."""
    config: dict[str, object] = {name: fields[name].strip() for name in CONFIG if name in fields}
    if hook is not None:
        config["secret"] = MASK
    password = fields.get("password", "")
    if password:
        config["password"] = password
    elif config.get("username"):
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
