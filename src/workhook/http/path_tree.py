"""A tree of routes by path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Target = TypeVar("Target")


@dataclass(slots=True)
class Route(Generic[Target]):
    """A path with `{names}`, and its target for each method."""

    path: str
    targets: dict[str, Target] = field(default_factory=dict)
    parts: list[str] = field(init=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.parts = split(self.path)
        self.names = tuple(part[1:-1] for part in self.parts if _is_parameter(part))

    def methods(self) -> str:
        """Return the methods of the path for an `Allow` header. OPTIONS is always allowed."""
        return ", ".join(sorted({*self.targets, "OPTIONS"}))


@dataclass(slots=True)
class _Node(Generic[Target]):
    written: dict[str, _Node[Target]] = field(default_factory=dict)
    parameter: _Node[Target] | None = None
    route: Route[Target] | None = None


class PathTree(Generic[Target]):
    """Routes by path. Duplicate and trailing slashes are ignored.

    A path without parameters takes precedence over all others. Among the rest, a literal segment takes precedence over
    a parameter, whatever follows it.
    """

    def __init__(self) -> None:
        self._plain: dict[str, Route[Target]] = {}
        self._root: _Node[Target] = _Node()

    def add(self, path: str, method: str, target: Target) -> None:
        new = Route[Target](path)
        route = self._add_parts(new) if new.names else self._plain.setdefault(joined(new.parts), new)
        assert method not in route.targets, f"a second {method} {path}"
        route.targets[method] = target

    def _add_parts(self, new: Route[Target]) -> Route[Target]:
        node = self._root
        for part in new.parts:
            if _is_parameter(part):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.written.setdefault(part, _Node())
        node.route = node.route or new
        assert node.route.path == new.path, f"{new.path} is {node.route.path} by another name"
        return node.route

    def find(self, path: str) -> tuple[Route[Target], dict[str, str], str] | None:
        """Return the route, the values of its parameters, and the path without surplus slashes."""
        parts = split(path)
        path = joined(parts)
        if (plain := self._plain.get(path)) is not None:
            return plain, {}, path
        node = self._root
        values = []
        for part in parts:
            if (following := node.written.get(part)) is None:
                following = node.parameter
                values.append(part)
            if following is None:
                return None
            node = following
        return None if node.route is None else (node.route, dict(zip(node.route.names, values, strict=True)), path)


def split(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def joined(parts: list[str]) -> str:
    return "/" + "/".join(parts)


def _is_parameter(part: str) -> bool:
    return part.startswith("{")
