"""Whose a lane is: rendezvous hashing over the processes that deliver, and how they change without two having one lane.

The processes of a generation form a view. In a new generation a lane can belong to another process than before. Each
process acts by a view as soon as it has seen it: it starts nothing more of lanes that are not its own in it, and only
then acknowledges the generation, with the lanes of which something is still in flight. A process starts on a lane that
it gains when all others have acknowledged the generation and none still has the lane in flight. So a lane may be worked
on only where it is this process's own in every view since the last that all had acknowledged.

No I/O. `tests/delivery/test_membership.py` tries interleavings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

KNOWN_MAX = 50_000  # lanes of which a view remembers whose they are
VIEWS_MAX = 16  # that one waits to be acknowledged; who has seen more keeps nothing until then


class Member(NamedTuple):
    """A process that delivers, as its row tells. `epoch` 0: of an earlier version, which leases each lane.
    `left_ms`: of its lease; below 0: it has ended."""

    owner: str
    epoch: int
    left_ms: int
    acknowledged: int
    finishing: frozenset[int]


class Seen(NamedTuple):
    """The generation and all rows of it, read at one moment."""

    generation: int
    members: Sequence[Member]


_NOBODY = ("",)


class View:
    """The processes of a generation."""

    def __init__(self, generation: int, owners: Iterable[str]) -> None:
        self.generation = generation
        self.owners = tuple(sorted(owners))
        self._keys = [(owner.encode() + b"\0", owner) for owner in self.owners]
        self._known: dict[int, str] = {}

    def owner_of(self, hook_id: int) -> str:
        """The process whose hash with the lane is highest: if one goes, only its lanes go to others."""
        if len(self._keys) == 1:
            return self.owners[0]
        owner = self._known.get(hook_id)
        if owner is None:
            lane = str(hook_id).encode()
            owner = max((hashlib.blake2b(key + lane, digest_size=8).digest(), owner) for key, owner in self._keys)[1]
            if len(self._known) < KNOWN_MAX:
                self._known[hook_id] = owner
        return owner


class Membership:
    """What one process may work on, by what it has seen. `see` tells it; `lose` when it is no member any more."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.alive = 1  # processes that deliver
        self.held_up = False  # processes of an earlier version have lanes still
        self._views: list[View] = []  # since the last that all had acknowledged; the first may be that one
        self._settled = False
        self._foreign: frozenset[int] = frozenset()  # lanes of which others have something in flight

    @property
    def generation(self) -> int:
        """Of the newest view, by which this process acts; 0: it is no member."""
        return self._views[-1].generation if self._views else 0

    @property
    def settled(self) -> bool:
        """All processes act by the newest view, and nothing that was another's before is in flight there."""
        return self._settled and not self._foreign

    def lose(self) -> None:
        """Of what it had, others may have anything by now."""
        self._views, self._settled, self._foreign = [], False, frozenset()

    def see(self, seen: Seen) -> None:
        """Act by it. `seen` includes this process."""
        if seen.generation < self.generation:
            return  # read before something that is known by now
        members = [each for each in seen.members if each.epoch]
        self.alive = len(seen.members)
        if seen.generation > self.generation:
            # Who has just come has nothing that it could keep.
            before = self._views if 0 < len(self._views) < VIEWS_MAX else [View(0, _NOBODY)]
            self._views = [*before, View(seen.generation, (each.owner for each in members))]
            self._settled = False
        others = [each for each in members if each.owner != self.owner]
        if all(each.acknowledged >= self.generation for each in others):
            self._views, self._settled = self._views[-1:], True
            self._foreign = frozenset().union(*(each.finishing for each in others))

    def is_own(self, hook_id: int) -> bool:
        """Whether it is this process's in the newest view, perhaps a little later."""
        return bool(self._views) and self._views[-1].owner_of(hook_id) == self.owner

    def may_work_on(self, hook_id: int) -> bool:
        """Whether something of it may be started now, as long as the lease of this process is good."""
        if self.held_up or not self._views or hook_id in self._foreign:
            return False
        return all(view.owner_of(hook_id) == self.owner for view in self._views)
