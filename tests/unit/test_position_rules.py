"""The order of a column, compared with a plain list: the same moves give the same order and change few rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workhook.work.board.tasks import column_order
from workhook.work.board.tasks.column_order import (
    BUCKET_FILL,
    BUCKET_MAX,
    STEP,
    Bucket,
    BucketPlace,
    ColumnOrder,
    Rank,
    Step,
    TaskPlace,
    buckets_to_read,
    find_place,
    is_crowded,
    rank_between,
    split_if_full,
    spread,
)

# Ranks far apart from each other, and some as close as possible.
evens = st.integers(-(2**60), 2**60).map(lambda number: number * 2)
sizes = st.lists(st.integers(0, BUCKET_MAX), min_size=1, max_size=12)


@given(st.tuples(evens, evens).filter(lambda pair: pair[0] != pair[1]))
def test_a_middle_is_strictly_between(pair: tuple[int, int]) -> None:
    before, after = sorted(pair)
    assert before < rank_between(before, after) < after


@given(evens)
def test_ranks_at_the_ends_are_beyond_all_others(rank: int) -> None:
    assert rank_between(rank, None) > rank > rank_between(None, rank)
    assert not is_crowded(rank_between(rank, None))
    assert not is_crowded(rank_between(None, rank))


def test_a_rank_without_room_next_to_it_is_crowded() -> None:
    before, after, taken = 0, STEP, 0
    while not is_crowded(after):
        after = rank_between(before, after)
        taken += 1
    assert taken == 32
    assert not any(is_crowded(rank) for rank in spread(BUCKET_MAX))


@given(sizes, st.one_of(st.none(), st.integers(0, 2000)))
def test_a_place_is_found_by_position(listed: list[int], position: int | None) -> None:
    place = find_place(listed, position)
    assert 0 <= place.offset <= listed[place.bucket]
    total = sum(listed)
    assert sum(listed[: place.bucket]) + place.offset == (total if position is None else min(position, total))


@given(sizes, st.integers(0, 2000))
def test_a_full_bucket_is_split_at_the_same_position(listed: list[int], position: int) -> None:
    place = find_place(listed, position)
    buckets = [Bucket(number, number * STEP, size) for number, size in enumerate(listed)]
    split = split_if_full(buckets, place)
    if listed[place.bucket] < BUCKET_FILL:
        assert split is None
    if listed[place.bucket] >= BUCKET_MAX:
        assert split is not None
    after = [each.size for each in buckets]
    if split is None:
        assert after == listed
        return
    assert len(after) == len(listed) + 1
    assert sum(after) == sum(listed)
    assert (split.full.size, split.new.size) == (split.keeps, listed[place.bucket] - split.keeps)
    assert after[split.place.bucket] < BUCKET_MAX
    assert sum(after[: split.place.bucket]) + split.place.offset == sum(listed[: place.bucket]) + place.offset
    assert [each.rank for each in buckets] == sorted({each.rank for each in buckets})


@pytest.mark.parametrize("position", [None, 0])
def test_appending_leaves_room_in_filled_buckets(position: int | None) -> None:
    order = ColumnOrder([Bucket(1, 0, 0)], {})
    for number in range(3 * BUCKET_FILL + 1):
        order.insert(str(number), position)
    sizes = [each.size for each in order.buckets]
    assert (sizes if position is None else sizes[::-1]) == [BUCKET_FILL] * 3 + [1]
    assert BUCKET_FILL < BUCKET_MAX


def test_a_place_between_buckets_is_in_the_one_with_room() -> None:
    assert find_place([BUCKET_MAX, 5], BUCKET_MAX) == BucketPlace(1, 0)
    assert find_place([5, BUCKET_MAX], 5) == BucketPlace(0, 5)


# --- many moves -------------------------------------------------------------------------------------------------------

# (step, which existing task, target)
moves = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "move", "remove"]), st.integers(0, 10**6), st.integers(0, 10**6)),
    max_size=400,
)


def order_of(count: int) -> tuple[ColumnOrder, list[str]]:
    """Return a column with `count` existing tasks, and their order."""
    listed = [f"old {number}" for number in range(count)]
    first = ColumnOrder([Bucket(1, 0, 0)], {})
    for each in listed:
        first.insert(each, None)
    return ColumnOrder(first.buckets, first.ranks), listed


def rank_order(order: ColumnOrder) -> list[str]:
    """Sort like the database, by the rank of the bucket and then by the rank within it."""
    of_bucket = {each.id: each.rank for each in order.buckets}
    ranks = order.ranks
    return sorted(ranks, key=lambda each: (of_bucket[ranks[each].bucket_id], ranks[each].rank))


def check(order: ColumnOrder, listed: Sequence[str]) -> None:
    assert rank_order(order) == listed
    assert order.positions(listed) == {each: position for position, each in enumerate(listed)}
    assert [each.size for each in order.buckets] == [
        sum(each.bucket_id == bucket.id for each in order.ranks.values()) for bucket in order.buckets
    ]
    assert all(each.size <= BUCKET_MAX for each in order.buckets)
    assert all(each.size for each in order.kept_buckets) or len(order.kept_buckets) == 1
    places = {(each.bucket_id, each.rank) for each in order.ranks.values()}
    assert len(places) == len(listed)
    assert not any(is_crowded(rank) for _, rank in places)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0, 1, BUCKET_MAX, 2 * BUCKET_MAX + 3]), moves)
def test_an_order_behaves_like_a_list(count: int, made: list[tuple[str, int, int]]) -> None:
    order, listed = order_of(count)
    for number, (what, which, where) in enumerate(made):
        task_id = f"new {number}"
        if what != "insert" and listed:
            task_id = listed.pop(which % len(listed))
            order.remove(task_id)
        if what != "remove":
            position = where % (len(listed) + 2)
            listed.insert(position, task_id)
            order.insert(task_id, position)
    check(order, listed)


@pytest.mark.parametrize("position", [0, 5, 64, 200])
def test_a_thousand_inserts_at_one_position_keep_the_order(position: int) -> None:
    order, listed = order_of(300)
    for number in range(1000):
        order.insert(f"new {number}", position)
        listed.insert(position, f"new {number}")
    check(order, listed)


def test_buckets_without_room_between_them_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_order, "BUCKET_MAX", 4)
    monkeypatch.setattr(column_order, "BUCKET_FILL", 3)
    order, listed = ColumnOrder([Bucket(1, 0, 0)], {}), list[str]()
    for number in range(400):
        order.insert(str(number), min(number, 9))
        listed.insert(9, str(number))
    assert rank_order(order) == listed
    assert not any(is_crowded(each.rank) for each in order.buckets)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 3000), st.integers(0, 3000))
def test_a_move_writes_few_rows(which: int, where: int) -> None:
    """Whatever the length of the column, at most one bucket of tasks is written, and usually a single task."""
    order, listed = order_of(3000)
    task_id = listed.pop(which % len(listed))
    order.remove(task_id)
    order.insert(task_id, where)
    listed.insert(where, task_id)
    check(order, listed)
    assert len(order.changed) <= 1 + BUCKET_MAX // 2
    assert len(order.new_buckets) + len(order.moved_buckets) + len(order.dropped_buckets) <= 1


def test_untouched_rows_are_not_written() -> None:
    order, _ = order_of(500)
    order.insert("new", None)
    assert set(order.changed) == {"new"}
    assert (order.new_buckets, order.moved_buckets, order.dropped_buckets) == ([], [], [])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0, 1, BUCKET_MAX, 4 * BUCKET_MAX + 3]), st.lists(moves.map(lambda some: some[:8]), max_size=3))
def test_only_few_buckets_are_read(count: int, batches: list[list[tuple[str, int, int]]]) -> None:
    """Like the task writer, the test knows the positions of the changed tasks and reads only the buckets that the steps
    need."""
    whole, listed = order_of(count)
    for batch, made in enumerate(batches):
        steps, places = list[Step](), dict[str, TaskPlace]()
        stored = {each.id: [task_id for task_id in listed if whole.ranks[task_id].bucket_id == each.id]
                  for each in whole.kept_buckets}  # fmt: skip
        old = [(task_id, TaskPlace(key, at)) for key, some in stored.items() for at, task_id in enumerate(some)]
        for number, (what, which, where) in enumerate(made):
            task_id, position = f"new {batch} {number}", where % (len(listed) + 2) if where % 3 else None
            if what != "insert" and old:
                task_id, places[task_id] = old.pop(which % len(old))
                listed.remove(task_id)
            elif what != "insert":
                continue
            if what == "move" and position is None:
                steps += [Step("remove", task_id), Step("insert", task_id)]
            elif what == "move":
                steps.append(Step("move", task_id, position))
            else:
                steps.append(Step("remove", task_id) if what == "remove" else Step("insert", task_id, position))
            if what != "remove":
                listed.insert(len(listed) if position is None else position, task_id)
        read = buckets_to_read(whole.kept_buckets, steps)
        ranks = {task_id: each for task_id, each in whole.ranks.items() if each.bucket_id in read}
        last = [each.rank for each in whole.ranks.values() if each.bucket_id == whole.kept_buckets[-1].id]
        order = ColumnOrder(whole.kept_buckets, ranks, places, max(last, default=None))
        for step in steps:
            order.apply(step)
        gone = {step.task_id for step in steps}
        known = {task_id: each for task_id, each in whole.ranks.items() if task_id not in gone} | order.ranks
        assert order.positions(gone) == {each: listed.index(each) for each in gone if each in listed}
        whole = ColumnOrder(order.kept_buckets, known)
        check(whole, listed)


def test_appending_reads_nothing() -> None:
    whole, _ = order_of(500)
    last = max(each.rank for each in whole.ranks.values() if each.bucket_id == whole.buckets[-1].id)
    part = ColumnOrder(whole.buckets, {}, last_rank=last)
    for number in range(300):
        part.insert(f"new {number}", None)
    assert part.positions(["new 0", "new 299"]) == {"new 0": 500, "new 299": 799}
    assert set(part.changed) == {f"new {number}" for number in range(300)}
    assert isinstance(part.changed["new 0"], Rank)


def test_a_move_to_the_same_place_writes_nothing_next_to_an_empty_bucket() -> None:
    order = ColumnOrder([Bucket(1, 0, 0), Bucket(2, STEP, 2)], {"a": Rank(2, 0), "b": Rank(2, STEP)})
    order.apply(Step("move", "a", 0))
    assert (order.changed, order.dropped_buckets, order.new_buckets, order.moved_buckets) == ({}, [], [], [])
    order.apply(Step("move", "b", 0))
    assert rank_order(order) == ["b", "a"]
