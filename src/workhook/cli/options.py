"""Options and arguments of commands, declared as annotations of a function's parameters.

All errors of a command line are reported together, with exit status 2.

    async def show(context: Context, *, number: Annotated[int, Argument("ID", parse=row_id)]) -> None: …

A parameter whose type is a dataclass stands for the options declared by the fields of that class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from click.types import FuncParamType

from workhook.core.clock import parse_rfc3339
from workhook.identity import policy

EXPIRES_MAX_DAYS = 36_500
Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem[Any]]]

IDS_MAX = 2**63 - 1  # largest integer that a database stores
_PATHS = {"DIR": "dir", "FILE": "file", "SQLITE": "file"}
_TYPES: dict[type, click.ParamType[Any]] = {str: click.STRING, int: click.INT, float: click.FLOAT}


@dataclass(frozen=True)
class Option:
    """An option with a value. If its type is a tuple, it may be repeated."""

    metavar: str
    help: str
    flag: str = ""  # if it differs from the parameter's name
    parse: Callable[[str], Any] | None = None  # raises `click.BadParameter`
    between: tuple[int, int] | None = None


@dataclass(frozen=True)
class Flag:
    """An option without a value. `off`: the opposite flag, if any."""

    help: str
    flag: str = ""
    off: str = ""


@dataclass(frozen=True)
class Argument:
    """A positional argument. If its type is a tuple, it may be repeated."""

    metavar: str
    help: str = ""
    parse: Callable[[str], Any] | None = None


def click_parameters(declared: inspect.Parameter) -> list[click.Parameter]:
    return [_click_parameter(each) for each in _members(declared) or [declared]]


def grouped(declared: Iterable[inspect.Parameter], text: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function's arguments, built from the values that Click has parsed."""
    arguments = {}
    for each in declared:
        members = {member.name: text[member.name] for member in _members(each)}
        arguments[each.name] = each.annotation(**members) if members else text[each.name]
    return arguments


def _members(declared: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the fields of a parameter's dataclass, or an empty list for other parameters."""
    kind = declared.annotation
    if not isinstance(kind, type) or not is_dataclass(kind):
        return []
    return list(inspect.signature(kind, eval_str=True).parameters.values())


def _click_parameter(declared: inspect.Parameter) -> click.Parameter:
    kind, how = get_args(declared.annotation)[0], declared.annotation.__metadata__[0]
    required, default = declared.default is declared.empty, declared.default
    name = declared.name
    flag = getattr(how, "flag", "") or f"--{name.replace('_', '-')}"
    if isinstance(how, Flag):
        switch = f"{flag}/{how.off}" if how.off else flag
        return click.Option([name, switch], is_flag=True, default=default, help=how.help)
    several, value_type = _type_of(kind, how)
    if isinstance(how, Argument):
        return click.Argument(
            [name],
            type=value_type,
            metavar=how.metavar,
            help="  ".join(filter(None, [how.help, "[required]" if required else ""])),
            required=required,
            nargs=-1 if several else 1,
            shell_complete=path_completion(how.metavar),
        )
    text: dict[str, Any] = {} if required or several or default is None else {"default": default, "show_default": True}
    return click.Option(
        [name, flag],
        type=value_type,
        metavar=how.metavar,
        help=how.help,
        required=required,
        multiple=several,
        shell_complete=path_completion(how.metavar),
        **text,
    )


def path_completion(metavar: str) -> Completion | None:
    """Return the shell completion for a metavar that stands for a path, or None for other metavars."""
    kind = _PATHS.get(metavar)
    return None if kind is None else lambda _, __, incomplete: [CompletionItem(incomplete, type=kind)]


def _type_of(kind: Any, how: Option | Argument) -> tuple[bool, click.ParamType[Any]]:
    """Return whether several values are allowed, and the type of one value."""
    plain = kind
    if type(None) in get_args(kind):
        plain = next(each for each in get_args(kind) if each is not type(None))
    several = get_origin(plain) is tuple
    one = get_args(plain)[0] if several else plain
    if how.parse is not None:
        return several, FuncParamType(how.parse)
    if isinstance(how, Option) and how.between is not None:
        return several, click.IntRange(*how.between)
    if get_origin(one) is Literal:
        return several, click.Choice(get_args(one))
    return several, click.Path(path_type=Path) if one is Path else _TYPES[one]


class CommandGroup(click.Group):
    """A group whose help lists its commands in the order they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Command(click.Command):
    """A command that reports all missing or invalid options, not just the first."""

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if shown := [each.get_help_record(ctx) for each in self.params if isinstance(each, click.Argument)]:
            with formatter.section("Arguments"):
                formatter.write_dl(shown)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # During shell completion, the line is not complete yet.
        if not ctx.resilient_parsing and not any(each in ctx.help_option_names for each in args):
            faults = self._faults(ctx, list(args))
            if len(faults) == 1 and not faults[0].startswith("No such"):  # Click's parser suggests similar options
                ctx.fail(faults[0])
            if len(faults) > 1:
                ctx.fail("\n".join(["these options cannot be used:", *(f"  {fault}" for fault in faults)]))
        return super().parse_args(ctx, args)

    def _faults(self, ctx: click.Context, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        parser.ignore_unknown_options = True
        text, rest, _ = parser.parse_args(args=args)
        faults = []
        for parameter in self.get_params(ctx):
            try:
                _refuse_undecodable(ctx, parameter, text.get(parameter.name or ""))
                parameter.handle_parse_result(ctx, text, rest)
            except click.BadParameter as fault:
                faults.append(fault.format_message())
        faults += [f"No such option '{each}'." for each in rest if each.startswith("-") and each != "-"]
        return faults


def _refuse_undecodable(ctx: click.Context, parameter: click.Parameter, text: object) -> None:
    """Raise `click.BadParameter` for undecodable bytes, which no database, response or terminal accepts."""
    for word in text if isinstance(text, list | tuple) else [text]:
        if isinstance(word, str) and any("\ud800" <= each <= "\udfff" for each in word):
            seen = word.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise click.BadParameter(f"'{seen}' is not UTF-8.", ctx=ctx, param=parameter)


def time_text(text: str) -> str:
    try:
        parse_rfc3339(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time such as 2026-11-20T09:00:00Z.") from None
    return text


def assignment(form: str) -> Callable[[str], tuple[str, str]]:
    """Return a parser of `NAME=VALUE` in which neither is empty. `form`: its name in messages."""

    def parse(text: str) -> tuple[str, str]:
        name, sign, value = text.rpartition("=")
        if not sign or not name.strip() or not value.strip():
            raise click.BadParameter(f"{text!r} is not of the form {form}.")
        return name, value.strip()

    return parse


def comma_list(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def scope_list(text: str) -> list[str]:
    scopes = comma_list(text)
    unknown = [each for each in scopes if each not in policy.SCOPES]
    if unknown or not scopes:
        raise click.BadParameter(f"{_not_among(unknown or [text])} {', '.join(policy.SCOPES)}.")
    return scopes


def permission_list(text: str) -> dict[str, Any]:
    """Parse permissions with their levels, such as work=read,repository_hooks=write; `:` is accepted too."""
    found, wrong = dict[str, Any](), []
    for each in comma_list(text):
        name, _, level = (part.strip() for part in each.replace(":", "=").partition("="))
        found[name] = level
        if name not in policy.PERMISSIONS or level not in ("read", "write"):
            wrong.append(each)
    if wrong or not found:
        names = ", ".join(policy.PERMISSIONS)
        raise click.BadParameter(f"{_not_among(wrong or [text])} {names} with =read or =write after it.")
    return found


def _not_among(text: Sequence[str]) -> str:
    return f"{', '.join(repr(each.strip()) for each in text)} {'are not among' if len(text) > 1 else 'is not one of'}"


def days(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= EXPIRES_MAX_DAYS:
        raise click.BadParameter(f"{text!r} is not a number of days greater than 0 and at most {EXPIRES_MAX_DAYS:,}.")
    return number


def row_id(text: str | int) -> int:
    return _parse_positive(text, f"an ID: a whole number from 1 to {IDS_MAX:,}")


def positive(text: str | int) -> int:
    return _parse_positive(text, "a whole number of at least 1")


def _parse_positive(text: str | int, wanted: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= IDS_MAX:
        raise click.BadParameter(f"{text!r} is not {wanted}.")
    return number
