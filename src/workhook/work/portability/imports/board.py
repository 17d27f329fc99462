"""The columns of a plan, made of the names that tasks have for them, in the order in which they come."""

from __future__ import annotations

from workhook.work.board.tasks.schemas import COLUMNS_MAX
from workhook.work.portability.imports.plan import PlannedColumn
from workhook.work.portability.imports.texts import title_of
from workhook.work.portability.imports.words import StageNames

MORE = "More columns"


class ColumnNames:
    """Makes one column of each name, and shares the last where a board may have no more."""

    def __init__(self, project_key: str, stages: StageNames, nameless: str) -> None:
        """`nameless`: the title of the one for no name."""
        self._project_key = project_key
        self._stages = stages
        self._nameless = nameless
        self._columns: dict[str, PlannedColumn] = {}
        self.shared: set[str] = set()  # names that share the last column

    def column(self, name: str, key: str = "") -> PlannedColumn:
        """The column of a name. `key`: what the other service knows it by, if not by its name."""
        title = title_of(name, self._nameless)
        key = f"column:{key}" if key else f"column:{self._project_key}/{title}"
        if key not in self._columns and len(self._columns) >= COLUMNS_MAX - 1:
            self.shared.add(title)
            title, key = MORE, f"column:{self._project_key}:more"
        if key not in self._columns:
            self._columns[key] = PlannedColumn(key, title, stage=self._stages.stage_of(title))
        return self._columns[key]

    @property
    def columns(self) -> list[PlannedColumn]:
        return list(self._columns.values())

    @property
    def warnings(self) -> list[str]:
        if not self.shared:
            return []
        return [f"the tasks of {len(self.shared):,} columns share the column {MORE!r}"]
