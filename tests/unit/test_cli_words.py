"""The instructions in command-line messages are valid: every command and option they name exists."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import workhook
from tests.harness.options import commands, misnamed

SOURCE = Path(workhook.__file__).parent
CLI = SOURCE / "cli"
# Options of other programs: Git, curl, a child process, and `gh`.
OF_OTHERS = (
    "git_push/git.py",
    "git_push/history.py",
    "git_push/hook.py",
    "git_push/install.py",
    "web/hooks/snippets.py",
    "work/portability/imports/github.py",
)
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).as_posix() not in OF_OTHERS)
EVERY = frozenset.union(*commands().values())


def _by_module() -> dict[str, dict[str, frozenset[str]]]:
    """Return the functions of each command-line module that are commands, with their options."""
    from workhook.cli.app import app

    found: dict[str, dict[str, frozenset[str]]] = {}

    def walk(group: click.Group, path: tuple[str, ...]) -> None:
        for name, each in group.commands.items():
            if isinstance(each, click.Group):
                walk(each, (*path, name))
                continue
            assert each.callback is not None
            body = inspect.getclosurevars(each.callback).nonlocals.get("body", each.callback)
            shared = "<locals>" in body.__qualname__  # created separately for each group that contains it
            function = " ".join((*path, name)) if shared else body.__name__
            found.setdefault(inspect.getfile(body), {})[function] = commands()[(*path, name)]

    walk(app, ())
    return found


BY_MODULE = _by_module()


def _texts(tree: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text with the function that contains it. Interpolated values become `X`."""
    if isinstance(tree, ast.JoinedStr):
        yield function, "".join(str(each.value) if isinstance(each, ast.Constant) else "X" for each in tree.values)
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield function, tree.value
    for each in ast.iter_child_nodes(tree):
        inside = isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef) and not function
        yield from _texts(each, tree.name if inside else function)  # type: ignore[attr-defined]  # of a function


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_messages_name_only_existing_commands_and_options(path: Path) -> None:
    bodies = BY_MODULE.get(str(path), {})
    several = any(" " in each for each in bodies)  # such a module's messages concern more than its own commands
    shared = frozenset.union(*bodies.values()) if bodies and not several else EVERY
    shared |= commands()[()]  # `workhook` itself has options, which `cli/app.py` declares
    wrong = [
        (function, each)
        for function, text in _texts(ast.parse(path.read_text(encoding="utf-8")))
        for each in misnamed(text, bodies.get(function, shared))
    ]
    assert wrong == []


def test_every_command_is_checked() -> None:
    leaves = [path for path in commands() if not any(each[:-1] == path for each in commands() if each)]
    assert sum(map(len, BY_MODULE.values())) == len(leaves) > 40


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("run `workhook user add --login ada`", []),
        ("run `workhook user add --nickname ada`", ["--nickname"]),
        ("Give --data, or see `workhook user list`.", ["--data"]),
        ("Give --other.", []),
    ],
)
def test_the_check_finds_nonexistent_commands_and_options(said: str, wrong: list[str]) -> None:
    assert [each.rpartition(": ")[2] for each in misnamed(said, {"--other"})] == wrong
