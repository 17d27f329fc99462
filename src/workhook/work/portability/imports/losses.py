"""What of another service has no place here: counted, with names, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workhook.core.errors import Number, say, shown
from workhook.work.portability.imports.plan import Lost

NAMES_SHOWN = 10

SENTENCES: Mapping[str, str] = {
    "project_description": "the description of the project",
    "files": "contents of files",
    "cover_colors": "colours of covers",
    "votes": "votes",
    "item_details": "dates and people of checklist items",
    "start_dates": "dates when work starts",
    "history": "entries of the history",
    "stickers": "stickers",
    "followers": "followers",
    "reactions": "reactions",
    "milestones": "milestones",
    "deep_subtasks": "subtasks of subtasks",
    "more_subtasks": "subtasks beyond 100 of a task",
    "dependencies": "dependencies on tasks that are not in the file",
    "circular_dependencies": "dependencies that lead in a circle",
    "comments": "comments on tasks that are not in the file",
    "checklists": "checklists of tasks that are not in the file",
}
"""What is lost, in words, by the code that programs read."""


class Losses:
    """Counts what is lost while a plan is made."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._names: dict[str, dict[str, None]] = {}
        self._kept: dict[str, str | None] = {}
        self._once: set[tuple[str, str]] = set()

    def add(self, what: str, name: str = "", *, kept: str | None = None, count: int = 1) -> None:
        """`what`: one of `SENTENCES`. `kept`: where its text is."""
        if not count:
            return
        self._counts[what] = self._counts.get(what, 0) + count
        names = self._names.setdefault(what, {})
        if name.strip() and len(names) < NAMES_SHOWN:
            names[shown(name.strip())] = None
        self._kept[what] = kept

    def add_once(self, what: str, name: str, *, kept: str | None = None) -> None:
        """`add` for a thing that many others have, such as a label."""
        if (what, name) not in self._once:
            self._once.add((what, name))
            self.add(what, name, kept=kept)

    def found(self) -> list[Lost]:
        return [Lost(what, count, list(self._names[what]), self._kept[what]) for what, count in self._counts.items()]


def in_words(lost: Lost) -> str:
    """`colours of labels: 2 (Bug: red, Late: blue)`."""
    names = ", ".join(lost.names)
    more = ", …" if names and len(lost.names) < lost.count and len(lost.names) == NAMES_SHOWN else ""
    line = f"{SENTENCES[lost.what]}: {lost.count:,}" + (f" ({names}{more})" if names else "")
    return f"{line}, kept as text in {lost.kept}" if lost.kept else line


def name_some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    text = ", ".join(shown(each) for each in names[:NAMES_SHOWN])
    return say("{} and {} more", text, Number(len(names) - NAMES_SHOWN)) if len(names) > NAMES_SHOWN else text
