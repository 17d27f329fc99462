"""Forms of pages: their values and, after they were sent, their errors. `form_page` shows a rejected form again."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol, TypeVar, TypeVarTuple

import msgspec

from workhook.core import json
from workhook.core.errors import Conflict, Fault, Invalid, Problem
from workhook.http.calls import Response
from workhook.web.frame.texts import gettext


class SentFields(Protocol):
    """A visit with the fields of a form."""

    @property
    def fields(self) -> Mapping[str, str]: ...


Site = TypeVarTuple("Site")
V = TypeVar("V", bound=SentFields)
Save = Callable[[V, *Site], Awaitable[Response]]


class ChangedMeanwhile(Conflict):
    """The values of a form have changed since its page was rendered."""

    def __init__(self) -> None:
        super().__init__("Someone else changed this while you were editing.", code="changed")


class PageForm(msgspec.Struct):
    """The values of a form and its errors, by field and as a whole.

    `section` names the rejected form on a page with several, and `reasons` are the sentences that explain why. `was` is
    the digest of the values that the page showed. `now` contains the current values that differ from the typed ones.
    `is_gone` is true if the edited object no longer exists.
    """

    values: Mapping[str, str] = {}
    faults: dict[str, str] = {}
    problems: list[str] = []
    section: str = ""
    reasons: list[str] = []
    status: int = 200
    was: str = ""
    now: Mapping[str, str] = {}
    is_late: bool = False
    is_gone: bool = False

    def value(self, name: str, otherwise: str = "") -> str:
        return self.values.get(name, otherwise)

    def has(self, name: str) -> bool:
        """Return whether a checkbox is ticked."""
        return bool(self.values.get(name))

    def of(self, section: str, **values: str) -> PageForm:
        """Return the form of a section: as it was sent, or otherwise with these values."""
        return self if section == self.section else PageForm(values)

    @property
    def is_refused(self) -> bool:
        return bool(self.faults or self.problems or self.now or self.is_gone)

    def compare(self, current: Mapping[str, str] | None) -> None:
        """Show the current values, or None if the object is gone. Sending the form again then overwrites them."""
        self.is_gone = current is None
        self.was = "" if current is None else digest(current)
        self.now = {
            name: value
            for name, value in (current or {}).items()
            if name in self.values and not _same(self.values[name], value)
        }
        if self.now or self.is_gone:  # more specific than the problems
            self.problems = []


UNSENT = PageForm()
"""The form of a page that was not sent."""


def refused_form(
    fields: Mapping[str, str],
    problem: Problem,
    names: Collection[str] = (),
    *,
    section: str = "",
    called: Mapping[str, str] | None = None,
) -> PageForm:
    """Return the sent form with its errors.

    `names` are the fields that show their own errors. `called` maps API field names to form field names, where they
    differ.
    """
    by_field, problems = faults_of(problem)
    form = PageForm(fields, {}, problems, section, problem.reasons, problem.status, fields.get("was", ""))
    form.is_late = isinstance(problem, ChangedMeanwhile)
    for name, message in by_field.items():
        field = (called or {}).get(name, name)
        if field in names:
            form.faults[field] = message
        else:
            form.problems.append(message)
    return form


def form_page(
    show: Callable[[V, *Site, PageForm], Awaitable[Response]],
    names: Collection[str] = (),
    *,
    section: str = "",
    called: Mapping[str, str] | None = None,
    on: type[Problem] | tuple[type[Problem], ...] = Invalid,
) -> Callable[[Save[V, *Site]], Save[V, *Site]]:
    """Decorate a function that saves a form: if it raises `on`, `show` responds with the rejected form.

    `show` gets the parameters of the function, and the form. The other parameters are those of `refused_form`.
    """

    def declare(save: Save[V, *Site]) -> Save[V, *Site]:
        @functools.wraps(save)
        async def saved_or_shown(visit: V, /, *site: *Site) -> Response:
            try:
                return await save(visit, *site)
            except on as problem:
                form = refused_form(visit.fields, problem, names, section=section, called=called)
            return await show(visit, *site, form)

        return saved_or_shown

    return declare


class Faults(list[Fault]):
    """Collects the errors of a form that is read in several steps, each in a `with` block."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, Invalid):
            self += error.faults or [Fault(message=error.message)]
        return isinstance(error, Invalid)

    def check(self) -> None:
        """Raise `Invalid` if there are errors."""
        if self:
            raise Invalid(faults=self)


def faults_of(problem: Problem) -> tuple[dict[str, str], list[str]]:
    """Return the first error of each field, and all other errors."""
    by_field, others = {}, []
    for each in problem.faults:
        if each.field is not None and each.field not in by_field:
            by_field[each.field] = each.message or each.code
        else:
            others.append(each.message or each.code)
    if not problem.faults:
        others.append(problem.message)
    elif by_field:
        others.insert(0, gettext("Nothing was saved. Fix the marked fields and try again."))
    return by_field, others


def is_late(fields: Mapping[str, str], current: Mapping[str, str]) -> bool:
    """Return whether the form would overwrite values that have changed since its page was rendered."""
    if fields.get("was") == digest(current):
        return False
    return any(name in fields and not _same(fields[name], value) for name, value in current.items())


def _same(typed: str, value: str) -> bool:
    return typed.replace("\r\n", "\n").strip() == value.replace("\r\n", "\n").strip()


def digest(values: Mapping[str, str]) -> str:
    """Return a digest of a form's values. The form submits it, to detect changes made after its page was rendered."""
    return hashlib.sha256(json.encode(sorted(values.items()))).hexdigest()[:32]
