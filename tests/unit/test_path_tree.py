"""The routing tree, compared with a model that tries every route."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.harness.depth import deep
from workhook.http.routing import PathTree, split

_parts = st.sampled_from(["a", "b", "c", "{x}", "{y}"])
_paths = st.lists(st.lists(_parts, max_size=4).map(lambda parts: "/" + "/".join(parts)), max_size=12)
_asked = st.lists(st.sampled_from(["a", "b", "c", "d", "", "%2F", "{x}"]), max_size=5).map("/".join)


def _shape(path: str) -> list[str]:
    return ["{}" if part.startswith("{") else part for part in split(path)]


def _by_model(paths: list[str], asked: str) -> str | None:
    """Filter the routes part by part. Routes without parameters take precedence."""
    parts = split(asked)
    if plain := [path for path in paths if split(path) == parts and "{" not in path]:
        return plain[0]
    left = [path for path in paths if "{" in path]
    for number, part in enumerate(parts):
        here = [path for path in left if len(_shape(path)) > number]
        left = [path for path in here if _shape(path)[number] == part] or [
            path for path in here if _shape(path)[number] == "{}"
        ]
    return next((path for path in left if len(split(path)) == len(parts)), None)


@settings(max_examples=deep(300, 5000), deadline=None)
@given(_paths, _asked)
@example(["/a/b", "/a/{x}/c"], "/a/b/c")  # a plain path is not a prefix of another one
@example(["/a/b/{x}", "/{x}/{y}/c"], "/a/b/c")
@example(["/a/b/{x}", "/a/{y}"], "/a/b")  # matching never backtracks
def test_the_tree_finds_the_same_route_as_the_model(paths: list[str], asked: str) -> None:
    alike = {tuple(_shape(path)): path for path in paths}  # paths that differ only in parameter names are refused
    routes = PathTree[str]()
    for path in alike.values():
        routes.add(path, "GET", path)
    expected = _by_model(list(alike.values()), asked)
    found = routes.find(asked)
    assert (found[0].path if found else None) == expected
    if found is not None:
        named = [part.strip("{}") if part.startswith("{") else None for part in split(found[0].path)]
        values = dict(zip(named, split(asked), strict=True))
        assert found[1] == {name: value for name, value in values.items() if name is not None}


def test_a_route_accepts_each_method_once() -> None:
    routes = PathTree[int]()
    routes.add("/a/{x}", "GET", 1)
    routes.add("/a/{x}", "PUT", 2)
    found = routes.find("/a/it")
    assert found is not None
    assert (found[0].targets, found[0].methods(), found[1]) == ({"GET": 1, "PUT": 2}, "GET, OPTIONS, PUT", {"x": "it"})
    with pytest.raises(AssertionError, match=r"a second PUT /a/\{x\}"):
        routes.add("/a/{x}", "PUT", 3)
    with pytest.raises(AssertionError, match=r"/a/\{y\} is /a/\{x\} by another name"):
        routes.add("/a/{y}", "DELETE", 4)
