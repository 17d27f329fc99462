"""Which process a lane belongs to: rendezvous hashing, with changes during which no lane has two processes.

The processes of a generation form a view. A new generation can give a lane to another process. Each process acts by a
view as soon as it has seen it: it starts nothing more of lanes that are not its own. Then it acknowledges the
generation, with the lanes of which attempts are still in flight. A process starts on a new lane when all others have
acknowledged the generation and none still has the lane in flight. So a process may work on a lane only if the lane is
its own in every view since the last one that all had acknowledged.

No I/O. `tests/delivery/test_membership.py` tries interleavings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

KNOWN_MAX = 50_000  # lanes whose process a view remembers
VIEWS_MAX = 16  # views that wait to be acknowledged; with more, a process works on nothing


class WorkerRow(NamedTuple):
    """The row of a process that delivers. `epoch` 0: of an earlier version, which leases each lane. `left_ms`: until
    its lease ends; below 0 if it has ended. `leaving`: it stops, and only ends its attempts in flight."""

    owner: str
    epoch: int
    left_ms: int
    acknowledged: int
    finishing: frozenset[int]
    leaving: bool = False


class Seen(NamedTuple):
    """The generation and all rows, read at one moment."""

    generation: int
    members: Sequence[WorkerRow]


_NOBODY = ("",)


class View:
    """The processes of a generation."""

    def __init__(self, generation: int, owners: Iterable[str]) -> None:
        self.generation = generation
        self.owners = tuple(sorted(owners)) or _NOBODY
        self._keys = [(owner.encode() + b"\0", owner) for owner in self.owners]
        self._known: dict[int, str] = {}

    def owner_of(self, hook_id: int) -> str:
        """The process whose hash with the lane is highest: if a process goes, only its lanes move."""
        if len(self._keys) == 1:
            return self.owners[0]
        owner = self._known.get(hook_id)
        if owner is None:
            lane = str(hook_id).encode()
            owner = max((hashlib.blake2b(key + lane, digest_size=8).digest(), owner) for key, owner in self._keys)[1]
            if len(self._known) < KNOWN_MAX:
                self._known[hook_id] = owner
        return owner


class LaneAssignment:
    """The lanes that one process may work on, by the views that it has seen."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.alive = 1  # processes that deliver
        self.held_up = False  # processes of an earlier version have lanes still
        self._views: list[View] = []  # since the last one that all had acknowledged, which may be the first
        self._settled = False
        self._foreign: frozenset[int] = frozenset()  # lanes with attempts in flight in other processes

    @property
    def generation(self) -> int:
        """The generation of the newest view, by which this process acts; 0 if it is no member."""
        return self._views[-1].generation if self._views else 0

    @property
    def settled(self) -> bool:
        """Whether all processes act by the newest view, and none has attempts in flight from before."""
        return self._settled and not self._foreign

    def lose(self) -> None:
        """This process is no member any more: its lanes may belong to others."""
        self._views, self._settled, self._foreign = [], False, frozenset()

    def see(self, seen: Seen) -> None:
        """Act by what was read. `seen` includes this process."""
        if seen.generation < self.generation:
            return  # older than what is known
        members = [each for each in seen.members if each.epoch]
        self.alive = len(seen.members)
        if seen.generation > self.generation:
            # A new process has no lanes to keep.
            before = self._views if 0 < len(self._views) < VIEWS_MAX else [View(0, _NOBODY)]
            self._views = [*before, View(seen.generation, (each.owner for each in members if not each.leaving))]
            self._settled = False
        others = [each for each in members if each.owner != self.owner]
        if all(each.acknowledged >= self.generation for each in others):
            self._views, self._settled = self._views[-1:], True
            self._foreign = frozenset().union(*(each.finishing for each in others))

    def is_own(self, hook_id: int) -> bool:
        """Whether the lane belongs to this process in the newest view; it may not be allowed to work on it yet."""
        return bool(self._views) and self._views[-1].owner_of(hook_id) == self.owner

    def may_work_on(self, hook_id: int) -> bool:
        """Whether attempts of the lane may start now, if the lease of this process is good."""
        if self.held_up or not self._views or hook_id in self._foreign:
            return False
        return all(view.owner_of(hook_id) == self.owner for view in self._views)
