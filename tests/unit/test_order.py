"""The assignment of tests to databases: `tests.harness.order`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.harness.depth import DEPTHS, usual_database
from tests.harness.order import (
    MANY,
    SLOW_S,
    TESTS,
    Variant,
    beginning_at,
    is_left_out,
    others_of_many,
    others_of_variants,
    slow_ones,
)

ROOT = Path(__file__).parents[2]
DATABASES = ("sqlite", "postgresql")
FILES = [str(each.relative_to(ROOT)) for each in sorted(ROOT.glob("tests/*/**/test_*.py"))]


def databases_of(file: str, depth: str, *, one_database: bool = False) -> list[str]:
    names = {each: f"{file}::test_it[{each}-more]" for each in DATABASES}
    return [each for each in DATABASES if not is_left_out(names[each], one_database=one_database, depth=depth)]


def test_the_usual_run_uses_one_database_per_file_and_both_about_equally() -> None:
    chosen = {each: databases_of(each, "usual") for each in FILES if each.startswith(("tests/api/", "tests/work/"))}
    assert all(found == [usual_database(file)] for file, found in chosen.items())
    numbers = Counter(found[0] for found in chosen.values())
    assert min(numbers[each] for each in DATABASES) > len(chosen) / 3, numbers


def test_the_whole_run_uses_both_databases() -> None:
    assert all(databases_of(each, "whole") == list(DATABASES) for each in FILES)


def test_only_the_deep_run_uses_both_databases_for_one_database_tests() -> None:
    found = {depth: databases_of("tests/web/test_places.py", depth, one_database=True) for depth in DEPTHS}
    assert found == {"usual": ["sqlite"], "whole": ["sqlite"], "deep": list(DATABASES)}


def test_only_the_usual_run_skips_whole_tests() -> None:
    assert [each for each in DEPTHS if is_left_out("tests/unit/test_order.py::test_it", whole=True, depth=each)] == [
        "usual"
    ]


@pytest.mark.parametrize("depth", DEPTHS)
def test_tests_without_a_database_are_never_skipped(depth: str) -> None:
    assert not is_left_out("tests/unit/test_order.py::test_it", depth=depth)


def test_the_usual_run_takes_one_of_similar_variants() -> None:
    variants = [
        Variant(f"tests/browser/test_it.py::test_{page}[{width}-{role}]", {"width": width, "role": role}, ["width"])
        for page in ("board", "task", "list", "calendar")
        for width in range(3)
        for role in range(2)
    ]
    left_out = others_of_variants(variants, "usual")
    taken = Counter(
        (each.name.partition("[")[0], each.indices["role"]) for each in variants if each.name not in left_out
    )
    assert len(taken) == 8
    assert set(taken.values()) == {1}
    widths = {each.indices["width"] for each in variants if each.name not in left_out}
    assert len(widths) > 1, "not the same one of every test"
    assert not others_of_variants(variants, "whole") | others_of_variants(variants, "deep")


def test_the_usual_run_skips_slow_tests_but_no_whole_file() -> None:
    names = [f"tests/{file}.py::test_{test}[{case}]" for file in "ab" for test in "xyz" for case in range(2)]
    seconds = {"tests/a.py::test_x": SLOW_S, "tests/a.py::test_y": SLOW_S / 2}
    seconds |= {f"tests/b.py::test_{test}": SLOW_S + index for index, test in enumerate("zyx")}
    slow = slow_ones(names, seconds, "usual")
    assert {each.partition("[")[0] for each in slow} == {
        "tests/a.py::test_x",
        "tests/b.py::test_x",
        "tests/b.py::test_y",
    }
    assert len(slow) == 6, "each with all its cases"
    assert not slow_ones(names, seconds, "whole") | slow_ones(names, seconds, "deep")


def test_the_usual_run_takes_a_third_of_many_cases() -> None:
    def cases(file: str, count: int) -> list[str]:
        return [f"tests/{file}.py::test_it[{each}]" for each in range(count)]

    many = [cases(f"work/test_{each}", MANY + each) for each in range(7)]
    names = [name for each in many for name in each]
    left_out = others_of_many(names, "usual")
    for each in many:
        assert len(each) // 3 <= len(set(each) - left_out) <= len(each) // 3 + 1
    firsts = {min(int(name[:-1].partition("[")[2]) for name in set(each) - left_out) for each in many}
    assert len(firsts) > 1, "not the same one of every test"
    assert not others_of_many(cases("work/test_few", MANY - 1) + cases("unit/test_it", 100), "usual")
    assert not others_of_many(names, "whole") | others_of_many(names, "deep")


def test_each_worker_collects_all_folders_from_its_own_start() -> None:
    everywhere = [beginning_at(["tests"], number, 4) for number in range(4)]
    assert len({folders[0] for folders in everywhere}) == 4
    for folders in everywhere:
        assert sorted(folders) == sorted({str(each.parent) for each in TESTS.glob("**/test_*.py")})


def test_explicitly_requested_folders_keep_their_order() -> None:
    assert beginning_at(["tests/web", "tests/work"], 1, 4) == ["tests/web", "tests/work"]
