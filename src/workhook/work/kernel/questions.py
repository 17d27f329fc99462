"""Late-bound functions, through which a package calls a later one that it must not import.

Each function is declared here, called where needed, and bound to its implementation by `work/answers.py`.
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
    """A function with exactly one implementation, which is bound on the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._answer: Callable[P, Awaitable[R]] | None = None

    def answered_by(self, function: Callable[P, Awaitable[R]]) -> None:
        self._answer = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        """Call the implementation.

        Raises `RuntimeError` if there is none, because skipping the call would allow what the implementation forbids.
        """
        if self._answer is None:
            for register in _registering:
                register()
        if self._answer is None:
            raise RuntimeError(f"no answer to {self._name} is registered: call workhook.work.answers.register")
        return self._answer(*args, **kwargs)


_registering: list[Callable[[], None]] = []


def answer_with(register: Callable[[], None]) -> None:
    """Set the function that binds all implementations. It runs on the first call of any late-bound function."""
    _registering[:] = [register]


Ending = Callable[[Write, Repository], Awaitable[None]]
"""Ends the running work of a project that was just archived or deleted. Runs before the event for that change."""

# --- Checks before a deletion or change. Each raises `Conflict`. ------------------------------------------------------

require_project_unbilled: Question[[Transaction, int], None] = Question("require_project_unbilled")
"""Called before the project with this `repository_id`, whose row is locked, is deleted."""

require_tasks_unbilled: Question[[Transaction, Mapping[str, str]], None] = Question("require_tasks_unbilled")
"""Called before tasks are deleted, with their names by ID, which the message uses."""

require_own_tasks: Question[[Transaction, Access, Mapping[str, str]], None] = Question("require_own_tasks")
"""Called before locked tasks of one project are deleted. Clients cannot delete tasks others have worked on."""

require_own_file: Question[[Transaction, Access, str], None] = Question("require_own_file")
"""Called before a file is deleted. Clients cannot delete files others have worked on."""

require_not_logo: Question[[Transaction, int, str, Literal["deleted", "made private"]], None] = Question(
    "require_not_logo"
)
"""Called before a file of the project with this `repository_id` is deleted or made private."""

find_invoiced_conflict: Question[[Reader, str, Literal["changed", "deleted"]], Conflict] = Question(
    "find_invoiced_conflict"
)
"""Return the error for changing a timesheet that is billed on the invoice with this ID."""

# --- follow-up work --------------------------------------------------------------------------------------------------

lock_for_ending: Question[[Transaction, str], Ending] = Question("lock_for_ending")
"""Called before the project with this ID is locked to be archived or deleted (decision 13); locks what must end."""

tasks_completed: Question[[Write, Access, Sequence[str]], None] = Question("tasks_completed")
"""Called after tasks of one project entered a completing column, and before `task_started`."""

task_started: Question[[Write, Access, str], None] = Question("task_started")
"""Called after a task entered a column that starts timers."""

tasks_deleted: Question[[Write, Sequence[str]], None] = Question("tasks_deleted")
"""Called after tasks were moved to the trash."""
