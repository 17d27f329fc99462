"""The order of a column against a plain list: the same moves give the same order, and few rows differ."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workhook.work.tasks import order
from workhook.work.tasks.order import BUCKET_FILL, BUCKET_MAX, Bucket, Place
from workhook.work.tasks.shelf import Shelf, Standing

# Ranks that are far from each other, and some that are as near as they may be.
evens = st.integers(-(2**60), 2**60).map(lambda number: number * 2)
sizes = st.lists(st.integers(0, BUCKET_MAX), min_size=1, max_size=12)


@given(st.tuples(evens, evens).filter(lambda pair: pair[0] != pair[1]))
def test_a_middle_is_strictly_between(pair: tuple[int, int]) -> None:
    before, after = sorted(pair)
    assert before < order.rank_between(before, after) < after


@given(evens)
def test_the_ends_are_beyond(rank: int) -> None:
    assert order.rank_between(rank, None) > rank > order.rank_between(None, rank)
    assert not order.is_crowded(order.rank_between(rank, None))
    assert not order.is_crowded(order.rank_between(None, rank))


def test_the_middle_is_crowded_when_no_other_is_beside_it() -> None:
    before, after, taken = 0, order.STEP, 0
    while not order.is_crowded(after):
        after = order.rank_between(before, after)
        taken += 1
    assert taken == 32
    assert not any(order.is_crowded(rank) for rank in order.spread(BUCKET_MAX))


@given(sizes, st.one_of(st.none(), st.integers(0, 2000)))
def test_a_place_is_at_its_position(listed: list[int], position: int | None) -> None:
    place = order.place_of(listed, position)
    assert 0 <= place.offset <= listed[place.bucket]
    total = sum(listed)
    assert order.position_of(listed, place) == (total if position is None else min(position, total))


@given(sizes, st.integers(0, 2000))
def test_room_is_made_at_the_same_position(listed: list[int], position: int) -> None:
    place = order.place_of(listed, position)
    room = order.room_at(listed, place)
    if listed[place.bucket] < BUCKET_FILL:
        assert room is None
    if listed[place.bucket] >= BUCKET_MAX:
        assert room is not None
    if room is not None:
        after = [*listed]
        after[place.bucket] = room.keeps
        after.insert(room.at, listed[place.bucket] - room.keeps)
        assert sum(after) == sum(listed)
        assert after[room.place.bucket] < BUCKET_MAX
        assert order.position_of(after, room.place) == order.position_of(listed, place)


@pytest.mark.parametrize("position", [None, 0])
def test_adding_at_an_end_leaves_filled_buckets_with_room(position: int | None) -> None:
    shelf = Shelf([Bucket(1, 0, 0)], {})
    for number in range(3 * BUCKET_FILL + 1):
        shelf.insert(str(number), position)
    sizes = [each.size for each in shelf.buckets]
    assert (sizes if position is None else sizes[::-1]) == [BUCKET_FILL] * 3 + [1]
    assert BUCKET_FILL < BUCKET_MAX


def test_a_place_between_a_full_bucket_and_one_with_room() -> None:
    assert order.place_of([BUCKET_MAX, 5], BUCKET_MAX) == Place(1, 0)
    assert order.place_of([5, BUCKET_MAX], 5) == Place(0, 5)


# --- many moves -------------------------------------------------------------------------------------------------------

# (what, which of those that are there, where to)
moves = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "move", "remove"]), st.integers(0, 10**6), st.integers(0, 10**6)),
    max_size=400,
)


def shelf_of(count: int) -> tuple[Shelf, list[str]]:
    """A column that was filled before."""
    listed = [f"old {number}" for number in range(count)]
    first = Shelf([Bucket(1, 0, 0)], {})
    for each in listed:
        first.insert(each, None)
    return Shelf(first.buckets, first.standing), listed


def standing_order(shelf: Shelf) -> list[str]:
    """As the database sorts: by the rank of the bucket, then by the rank in it."""
    ranks = {each.id: each.rank for each in shelf.buckets}
    standing = shelf.standing
    return sorted(standing, key=lambda each: (ranks[standing[each].bucket_id], standing[each].rank))


def check(shelf: Shelf, listed: Sequence[str]) -> None:
    assert standing_order(shelf) == listed
    assert shelf.positions(listed) == {each: position for position, each in enumerate(listed)}
    assert [each.size for each in shelf.buckets] == [
        sum(each.bucket_id == bucket.id for each in shelf.standing.values()) for bucket in shelf.buckets
    ]
    assert all(each.size <= BUCKET_MAX for each in shelf.buckets)
    assert all(each.size for each in shelf.buckets) or len(shelf.buckets) == 1
    places = {(each.bucket_id, each.rank) for each in shelf.standing.values()}
    assert len(places) == len(listed)
    assert not any(order.is_crowded(rank) for _, rank in places)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0, 1, BUCKET_MAX, 2 * BUCKET_MAX + 3]), moves)
def test_a_shelf_is_a_list(count: int, made: list[tuple[str, int, int]]) -> None:
    shelf, listed = shelf_of(count)
    for number, (what, which, where) in enumerate(made):
        task_id = f"new {number}"
        if what != "insert" and listed:
            task_id = listed.pop(which % len(listed))
            shelf.remove(task_id)
        if what != "remove":
            position = where % (len(listed) + 2)
            listed.insert(position, task_id)
            shelf.insert(task_id, position)
    check(shelf, listed)


@pytest.mark.parametrize("position", [0, 5, 64, 200])
def test_a_thousand_inserts_at_one_place(position: int) -> None:
    shelf, listed = shelf_of(300)
    for number in range(1000):
        shelf.insert(f"new {number}", position)
        listed.insert(position, f"new {number}")
    check(shelf, listed)


def test_buckets_that_have_no_room_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "BUCKET_MAX", 4)
    monkeypatch.setattr(order, "BUCKET_FILL", 3)
    shelf, listed = Shelf([Bucket(1, 0, 0)], {}), list[str]()
    for number in range(400):
        shelf.insert(str(number), min(number, 9))
        listed.insert(9, str(number))
    assert standing_order(shelf) == listed
    assert not any(order.is_crowded(each.rank) for each in shelf.buckets)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 3000), st.integers(0, 3000))
def test_one_move_shifts_few_rows(which: int, where: int) -> None:
    """However long the column is, at most the tasks of a bucket are written, and nearly always one."""
    shelf, listed = shelf_of(3000)
    task_id = listed.pop(which % len(listed))
    shelf.remove(task_id)
    shelf.insert(task_id, where)
    listed.insert(where, task_id)
    check(shelf, listed)
    assert len(shelf.shifted) <= 1 + BUCKET_MAX // 2
    assert len(shelf.new_buckets) + len(shelf.moved_buckets) + len(shelf.dropped_buckets) <= 1


def test_what_was_not_touched_is_not_written() -> None:
    shelf, _ = shelf_of(500)
    shelf.insert("new", None)
    assert set(shelf.shifted) == {"new"}
    assert (shelf.new_buckets, shelf.moved_buckets, shelf.dropped_buckets) == ([], [], [])


def test_appending_needs_the_last_bucket_only() -> None:
    whole, _ = shelf_of(500)
    last = whole.buckets[-1].id
    part = Shelf(whole.buckets, {key: each for key, each in whole.standing.items() if each.bucket_id == last})
    for number in range(300):
        part.insert(f"new {number}", None)
    assert part.positions(["new 0", "new 299"]) == {"new 0": 500, "new 299": 799}
    assert set(part.shifted) == {f"new {number}" for number in range(300)}
    assert isinstance(part.shifted["new 0"], Standing)
