"""A form as its page shows it: what stands in its fields, and what is wrong with them after it was sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from workhook.core.errors import Problem
from workhook.web.frame.texts import gettext


class PageForm(msgspec.Struct):
    """The values of a form, and what is wrong with them: by field, and as a whole."""

    values: Mapping[str, str] = {}
    faults: dict[str, str] = {}
    problems: list[str] = []

    def value(self, name: str, otherwise: str = "") -> str:
        """Of a field; `otherwise` where the form holds none."""
        return self.values.get(name, otherwise)

    def has(self, name: str) -> bool:
        """Whether a box is ticked."""
        return bool(self.values.get(name))

    @property
    def is_refused(self) -> bool:
        return bool(self.faults or self.problems)

    def refuse(self, problem: Problem, names: Collection[str], called: Mapping[str, str] | None = None) -> None:
        """Take over what is wrong. `names`: the fields that the page has a place for faults at. `called`: what the
        form calls fields of the API, where that is something else."""
        by_field, self.problems = faults_of(problem)
        for name, message in by_field.items():
            field = (called or {}).get(name, name)
            if field in names:
                self.faults[field] = message
            else:
                self.problems.append(message)


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
