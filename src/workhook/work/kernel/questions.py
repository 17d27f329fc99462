"""Questions of a room to a later one, which it may not import.

A question is declared here, called where it arises, and answered by the function that `work/answers.py` names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, Literal, ParamSpec, TypeVar

from workhook.core.errors import Conflict
from workhook.identity.context import Write
from workhook.identity.schemas import Repository
from workhook.storage import Reader, Transaction
from workhook.work.kernel.access import Access

P = ParamSpec("P")
R = TypeVar("R")


class Question(Generic[P, R]):
    """Something that one function answers, which is registered when the first question is asked."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._answer: Callable[P, Awaitable[R]] | None = None

    def answered_by(self, function: Callable[P, Awaitable[R]]) -> None:
        self._answer = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Raise `RuntimeError` if nothing answers: silence would let through what the answer refuses."""
        if self._answer is None:
            for register in _registering:
                register()
        if self._answer is None:
            raise RuntimeError(f"no answer to {self._name} is registered: call workhook.work.answers.register")
        return self._answer(*args, **kwargs)


_registering: list[Callable[[], None]] = []


def answer_with(register: Callable[[], None]) -> None:
    """Call `register` when the first question is asked."""
    _registering[:] = [register]


Ending = Callable[[Write, Repository], Awaitable[None]]
"""Ends the running things of a project that was just archived or deleted. Call it before the event of that."""

# --- may it be deleted or changed? Each raises `Conflict` -------------------------------------------------------------

require_project_unbilled: Question[[Transaction, int], None] = Question("require_project_unbilled")
"""Call before the project of this `repository_id`, whose row is locked, is deleted."""

require_tasks_unbilled: Question[[Transaction, Mapping[str, str]], None] = Question("require_tasks_unbilled")
"""Call before tasks are deleted, with their names for the message, by id."""

require_own_tasks: Question[[Transaction, Access, Mapping[str, str]], None] = Question("require_own_tasks")
"""Call before locked tasks of one project are deleted: a client cannot delete what others have worked on."""

require_own_file: Question[[Transaction, Access, str], None] = Question("require_own_file")
"""Call before a file is deleted, likewise."""

require_not_logo: Question[[Transaction, int, str, Literal["deleted", "made private"]], None] = Question(
    "require_not_logo"
)
"""Call before a file of the project of this `repository_id` is deleted or made private."""

find_invoiced_conflict: Question[[Reader, str, Literal["changed", "deleted"]], Conflict] = Question(
    "find_invoiced_conflict"
)
"""Return the refusal to change a timesheet that the invoice of this id bills."""

# --- what follows ----------------------------------------------------------------------------------------------------

lock_for_ending: Question[[Transaction, str], Ending] = Question("lock_for_ending")
"""Call before the project of this id is locked to be archived or deleted (decision 13): lock what has to end."""

tasks_completed: Question[[Write, Access, Sequence[str]], None] = Question("tasks_completed")
"""Call after tasks of one project entered a column that completes them, and before `task_started`."""

task_started: Question[[Write, Access, str], None] = Question("task_started")
"""Call after a task entered a column that starts timers."""

tasks_deleted: Question[[Write, Sequence[str]], None] = Question("tasks_deleted")
"""Call after tasks were put into the trash."""
