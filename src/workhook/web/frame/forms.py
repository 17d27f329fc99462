"""A form as its page shows it: what stands in its fields, and what is wrong with them after it was sent.

@places.post("/{owner}/settings")
@form_page(show, FIELDS)
async def save(visit: Visit) -> Answer:
    \"\"\"Save the form. Where that is refused, `show(visit, form)` answers with what was typed and what is wrong.\"\"\"
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import msgspec

from workhook.core import json
from workhook.core.errors import Conflict, Fault, Invalid, Problem
from workhook.http.calls import Answer
from workhook.web.frame.texts import gettext

P = ParamSpec("P")

if TYPE_CHECKING:
    from workhook.web.frame.places import Visit

    Save = Callable[Concatenate[Visit, P], Awaitable[Answer]]


class ChangedMeanwhile(Conflict):
    """Somebody else has changed what the form shows since its page was made."""

    def __init__(self) -> None:
        super().__init__("Somebody else has changed this meanwhile.", code="changed")


class PageForm(msgspec.Struct):
    """The values of a form, and what is wrong with them: by field, and as a whole.

    `section`: which form of its page was refused, and `reasons` why, a sentence each. `was`: the digest of what the
    page shows as it is. `now`: by field, what others have made of it meanwhile where that is another value than the
    one that was typed; `is_gone`: what the form changes is not there any more.
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
        """Of a field; `otherwise` where the form holds none."""
        return self.values.get(name, otherwise)

    def has(self, name: str) -> bool:
        """Whether a box is ticked."""
        return bool(self.values.get(name))

    def of(self, section: str, **values: str) -> PageForm:
        """The form of this section of the page: as it was sent, or with these values."""
        return self if section == self.section else PageForm(values)

    @property
    def is_refused(self) -> bool:
        return bool(self.faults or self.problems or self.now or self.is_gone)

    def refuse(self, problem: Problem, names: Collection[str], called: Mapping[str, str] | None = None) -> None:
        """Take over what is wrong. `names`: the fields that the page has a place for faults at. `called`: what the
        form calls fields of the API, where that is something else."""
        self.status, self.reasons, self.is_late = problem.status, problem.reasons, isinstance(problem, ChangedMeanwhile)
        by_field, self.problems = faults_of(problem)
        for name, message in by_field.items():
            field = (called or {}).get(name, name)
            if field in names:
                self.faults[field] = message
            else:
                self.problems.append(message)

    def compare(self, current: Mapping[str, str] | None) -> None:
        """Say what is there now; None: nothing is. To send the form again is to decide for it."""
        self.is_gone = current is None
        self.was = "" if current is None else digest(current)
        self.now = {
            name: value
            for name, value in (current or {}).items()
            if name in self.values and not _same(self.values[name], value)
        }
        if self.now or self.is_gone:  # says it better
            self.problems = []


def refused_form(
    fields: Mapping[str, str],
    problem: Problem,
    names: Collection[str] = (),
    *,
    section: str = "",
    called: Mapping[str, str] | None = None,
) -> PageForm:
    """The form as it was sent, with what is wrong, as `PageForm.refuse` takes it over."""
    form = PageForm(fields, section=section, was=fields.get("was", ""))
    form.refuse(problem, names, called)
    return form


def form_page(
    show: Callable[Concatenate[Visit, PageForm, P], Awaitable[Answer]],
    names: Collection[str] = (),
    *,
    section: str = "",
    called: Mapping[str, str] | None = None,
    on: type[Problem] | tuple[type[Problem], ...] = Invalid,
) -> Callable[[Save[P]], Save[P]]:
    """Decorate what saves a form: where it raises a problem of the kind `on`, `show` answers. The rest as
    `refused_form` has it."""

    def declare(save: Save[P]) -> Save[P]:
        @functools.wraps(save)
        async def saved_or_shown(visit: Visit, /, *site: P.args, **more: P.kwargs) -> Answer:
            try:
                return await save(visit, *site, **more)
            except on as problem:
                form = refused_form(visit.fields, problem, names, section=section, called=called)
            return await show(visit, form, *site, **more)

        return saved_or_shown

    return declare


class Faults(list[Fault]):
    """Everything that is wrong with a form that is read in several steps, each of which is a `with`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, Invalid):
            self += error.faults or [Fault(message=error.message)]
        return isinstance(error, Invalid)

    def check(self) -> None:
        """Raises `Invalid` for what was found."""
        if self:
            raise Invalid(faults=self)


def faults_of(problem: Problem) -> tuple[dict[str, str], list[str]]:
    """What is wrong, by field of the form, and what is about none of them."""
    by_field, others = {}, []
    for each in problem.faults:
        if each.field is not None and each.field not in by_field:
            by_field[each.field] = each.message or each.code
        else:
            others.append(each.message or each.code)
    if not problem.faults:
        others.append(problem.message)
    elif by_field:
        others.insert(0, gettext("Nothing was saved. Look at the fields that are marked."))
    return by_field, others


def is_late(fields: Mapping[str, str], current: Mapping[str, str]) -> bool:
    """Whether the form was made of other values than the current ones, and says others than these."""
    if fields.get("was") == digest(current):
        return False
    return any(name in fields and not _same(fields[name], value) for name, value in current.items())


def _same(typed: str, value: str) -> bool:
    return typed.replace("\r\n", "\n").strip() == value.replace("\r\n", "\n").strip()


def digest(values: Mapping[str, str]) -> str:
    """Of the values of a form: by it the form says what its page has shown."""
    return hashlib.sha256(json.encode(sorted(values.items()))).hexdigest()[:32]
