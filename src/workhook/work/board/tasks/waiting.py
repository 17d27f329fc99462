"""Tasks that wait for one another: what can be reached from one, and whether that leads in a circle.

Tasks in the trash are followed, too: they can come back, and must not close a circle then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import sqlalchemy as sa

from workhook.core.errors import shown
from workhook.storage import Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big
from workhook.work.board.tasks.schemas import task_blockers, tasks

REACH_MAX = 10_000
"""Pairs of tasks that are looked at for one change: some ten milliseconds."""

Graph = Mapping[str, Sequence[str]]
"""What each task waits for."""

_next = task_blockers.alias("following")
_first = sa.select(task_blockers.c.task_id, task_blockers.c.blocker_id).where(any_of(task_blockers.c.task_id, "ids"))
_reached = _first.cte("reached", recursive=True)
_reached = _reached.union(
    sa.select(_next.c.task_id, _next.c.blocker_id).join_from(_reached, _next, _next.c.task_id == _reached.c.blocker_id)
)
_reachable = sa.select(_reached.c.task_id, _reached.c.blocker_id).limit(big("limit"))
_titles = sa.select(tasks.c.id, tasks.c.title).where(any_of(tasks.c.id, "ids"))


async def reachable(tx: Transaction, ids: Collection[str]) -> dict[str, list[str]] | None:
    """What the tasks wait for, and those, and so on. None for more than `REACH_MAX`."""
    rows = await tx.fetch_all(_reachable, {"ids": sorted(ids), "limit": REACH_MAX + 1})
    if len(rows) > REACH_MAX:
        return None
    graph: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        graph[row["task_id"]].append(row["blocker_id"])
    return graph


def find_circle(graph: Graph, starts: Iterable[str]) -> list[str]:
    """The tasks of a circle through one of `starts`, which comes first and last; empty if there is none."""
    is_done: set[str] = set()  # nothing that leads on from these comes back to where a search began
    for start in starts:
        path, following = [start], [iter(graph.get(start, ()))]
        seen = {start}
        while path:
            task_id = next(following[-1], None)
            if task_id is None:
                following.pop()
                path.pop()
            elif task_id == start:
                return [*path, start]
            elif task_id not in seen and task_id not in is_done:
                seen.add(task_id)
                path.append(task_id)
                following.append(iter(graph.get(task_id, ())))
        is_done.add(start)
    return []


async def names_of(tx: Transaction, ids: Sequence[str]) -> list[str]:
    """How a message calls each of the tasks: by its title and its id."""
    titles = {row["id"]: row["title"] for row in await tx.fetch_all(_titles, {"ids": sorted(set(ids))})}
    return [f"{shown(titles[each])} ({each})" if each in titles else each for each in ids]
