"""The options of each command, to verify that texts mention only options that exist."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Path = tuple[str, ...]
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
_COMMAND = re.compile(r"\bworkhook((?: [a-z][a-z-]*)+)((?: [^`\n.;]*)?)")
_NOT_THERE = re.compile(r"No such option:? \S+")  # user input in an error message
_EVERY = {"--help"}


@functools.cache
def commands() -> Mapping[Path, frozenset[str]]:
    """Return the options of each command by its words."""
    from workhook.cli.app import app

    return {path: frozenset(_options(command)) for path, command in _walk(app, ())}


def _walk(command: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _walk(each, (*path, name))


def _options(command: Any) -> Iterator[str]:
    yield from _EVERY
    for parameter in command.params:
        yield from (each for each in (*parameter.opts, *parameter.secondary_opts) if each.startswith("--"))


def command_of(words: Sequence[str]) -> Path:
    """Return the command that a command line calls."""
    found: Path = ()
    while len(found) < len(words) and (*found, words[len(found)]) in commands():
        found = (*found, words[len(found)])
    return found


def misnamed(said: str, options: frozenset[str] | set[str]) -> list[str]:
    """Return nonexistent options in a text.

    An option after a command must belong to that command, and any other option must be in `options`.
    """
    wrong: list[str] = []
    if "--" not in said:
        return wrong
    said = _NOT_THERE.sub("", said)
    for match in _COMMAND.finditer(said):
        words = match[1].split()
        path = command_of(words)
        if len(path) == 0:
            continue  # prose, such as "workhook listens"
        wrong += [f"{match[0]}: {each}" for each in _OPTION.findall(match[2]) if each not in commands()[path]]
    rest = _COMMAND.sub(lambda match: " " if command_of(match[1].split()) else match[0], said)
    return wrong + [each for each in _OPTION.findall(rest) if each not in options]
