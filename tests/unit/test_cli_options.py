"""Every option of every command reaches the command's function under its own name and is used there."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.harness.options import Path, _walk
from workhook.cli import common
from workhook.cli.app import app
from workhook.cli.options import Command

SAMPLES = (
    "7", "name=octo", "title=Foo", "acme", "octo@example.com", "acme/site", "https://a.example/x", "work:read", "2d",
    "2026-01-02T03:04:05Z", "push", "contents:read", "127.0.0.1:1", "{}", "1-2", "s3cr3t-s3cr3t-s3cr3t", "user", "en",
)  # fmt: skip
COMMANDS = {path: each for path, each in _walk(app, ()) if isinstance(each, Command)}


class Called(Exception):
    def __init__(self, own: Mapping[str, Any], flags: Mapping[str, Any], as_json: bool) -> None:
        super().__init__("called")
        self.seen = {"own": own, "flags": flags, "json": as_json}


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(body: Any, flags: Any, as_json: bool, own: Any, fast: bool) -> int:
        raise Called(own, flags, as_json)

    monkeypatch.setattr(common, "_run", run)


def _handed_on(command: click.Command, words: list[str]) -> dict[str, Any] | None:
    """Return the arguments with which the function would be called, or None if the command line is rejected."""
    done = CliRunner().invoke(command, words)
    return done.exception.seen if isinstance(done.exception, Called) else None


def _values(parameter: click.Parameter) -> Iterator[str]:
    if isinstance(parameter.type, click.Choice):
        yield from (str(each) for each in parameter.type.choices if str(each) != str(parameter.default))
    else:
        yield from SAMPLES


def _needed(command: click.Command, but: click.Parameter | None) -> list[str]:
    """Return valid values for everything that the command requires."""
    words: list[str] = []
    for each in command.params:
        if each.required and each is not but:
            for value in _values(each):
                try:
                    each.type.convert(value, each, click.Context(command))
                except click.UsageError:
                    continue
                words += [each.opts[0], value] if isinstance(each, click.Option) else [value]
                break
    return words


def _words(parameter: click.Parameter) -> Iterator[list[str]]:
    assert isinstance(parameter, click.Option)
    if parameter.is_flag:
        yield [(parameter.secondary_opts or parameter.opts)[0] if parameter.default else parameter.opts[0]]
    else:
        yield from ([parameter.opts[0], value] for value in _values(parameter))


@pytest.mark.usefixtures("caught")
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_option_changes_the_arguments_of_its_command(path: Path) -> None:
    command = COMMANDS[path]
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or parameter.name == "help":
            continue
        without = _handed_on(command, _needed(command, None))
        needed = _needed(command, parameter)
        found = [seen for words in _words(parameter) if (seen := _handed_on(command, [*needed, *words])) is not None]
        assert found, f"no value is accepted by {parameter.opts[0]}"
        assert any(each != without for each in found), f"{parameter.opts[0]} changes nothing"


def _names_read(module: ast.AST) -> set[str]:
    attributes = {each.attr for each in ast.walk(module) if isinstance(each, ast.Attribute)}
    return attributes | {
        each.id for each in ast.walk(module) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_option_is_read_by_the_command(path: Path) -> None:
    run = COMMANDS[path].callback
    assert run is not None
    body = inspect.getclosurevars(run).nonlocals["body"]
    own = inspect.signature(body, eval_str=True).parameters
    read = _names_read(ast.parse(textwrap.dedent(inspect.getsource(body))))
    for name in list(own)[1:]:
        assert name in read, f"{name} is not used"
        kind = own[name].annotation
        if isinstance(kind, type):  # options shared by several commands
            module = inspect.getmodule(body)
            assert module is not None
            everywhere = _names_read(ast.parse(inspect.getsource(module)))
            assert "getattr" in everywhere or not [
                each for each in getattr(kind, "__dataclass_fields__", ()) if each not in everywhere
            ]
