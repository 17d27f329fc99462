"""Options that are checked before a command begins: every fault of a command line at once, exit status 2."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from workhook.cli.coercion import plainly

if TYPE_CHECKING:
    from typer._click.core import Context, Parameter  # what `TyperCommand` is declared with; subclasses are shown

EXPIRES_MAX_DAYS = 36_500
IDS_MAX = 2**63 - 1  # what a database keeps


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        return plainly(super().get_params(ctx))


class Command(TyperCommand):
    """A command that names all options that are missing or wrong, not only the first."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        return plainly(super().get_params(ctx))

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        if not any(each in ctx.help_option_names for each in args):
            faults = self._faults(ctx, list(args))
            if len(faults) == 1 and not faults[0].startswith("No such"):  # the parser knows which was meant
                ctx.fail(faults[0])
            if len(faults) > 1:
                ctx.fail("\n".join(["these options cannot be used:", *(f"  {fault}" for fault in faults)]))
        return super().parse_args(ctx, args)

    def _faults(self, ctx: Context, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        parser.ignore_unknown_options = True
        given, rest, _ = parser.parse_args(args=args)
        faults = []
        for parameter in self.get_params(ctx):
            try:
                _refuse_undecodable(ctx, parameter, given.get(parameter.name or ""))
                parameter.handle_parse_result(ctx, given, rest)
            except typer.BadParameter as fault:
                faults.append(fault.format_message().replace("Value error, ", ""))
        faults += [f"No such option: {each}" for each in rest if each.startswith("-") and each != "-"]
        return faults


def _refuse_undecodable(ctx: Context, parameter: Parameter, given: object) -> None:
    """Raises `typer.BadParameter` for words that are not text: no database, answer or terminal takes them."""
    named = parameter if isinstance(parameter, TyperOption | TyperArgument) else None
    for word in given if isinstance(given, list | tuple) else [given]:
        if isinstance(word, str) and any("\ud800" <= each <= "\udfff" for each in word):
            seen = word.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise typer.BadParameter(f"'{seen}' is not UTF-8.", ctx=ctx, param=named)


def time_text(given: str) -> str:
    """A time as the API takes it."""
    from workhook.core.clock import parse_rfc3339

    try:
        parse_rfc3339(given)
    except ValueError:
        raise typer.BadParameter(f"{given!r} is not a time such as 2026-11-20T09:00:00Z.") from None
    return given


def scope_list(given: str) -> str:
    """Scopes, separated by commas."""
    from workhook.identity.policy import SCOPES

    unknown = [each.strip() for each in given.split(",") if each.strip() and each.strip() not in SCOPES]
    if unknown or not given.strip(", "):
        raise typer.BadParameter(f"{_not_among(unknown or [given])} {', '.join(SCOPES)}.")
    return given


def permission_list(given: str) -> str:
    """Permissions with a level each, separated by commas: work=read,repository_hooks=write."""
    from workhook.identity.policy import PERMISSIONS

    wrong = [each for each in given.split(",") if each.strip() and not _is_permission(each, PERMISSIONS)]
    if wrong or not given.strip(", "):
        names = ", ".join(PERMISSIONS)
        raise typer.BadParameter(f"{_not_among(wrong or [given])} {names} with =read or =write after it.")
    return given.replace(":", "=")  # as `workhook app` and the documents write them


def _not_among(given: Sequence[str]) -> str:
    return f"{', '.join(repr(each.strip()) for each in given)} {'are not among' if len(given) > 1 else 'is not one of'}"


def _is_permission(text: str, names: Collection[str]) -> bool:
    name, _, level = text.replace(":", "=").partition("=")
    return name.strip() in names and level.strip() in ("read", "write")


def days(given: str) -> float:
    """How long from now."""
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 0 < number <= EXPIRES_MAX_DAYS:
        raise typer.BadParameter(f"{given!r} is not a number of days above 0, at most {EXPIRES_MAX_DAYS:,}.")
    return number


def whole_from(least: int) -> Callable[[str], int]:
    """A whole number that is not too small."""

    def parse(given: str | int) -> int:
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if number < least or number > IDS_MAX:
            raise typer.BadParameter(f"{given!r} is not a whole number from {least} on.")
        return number

    return parse


def row_id(given: str | int) -> int:
    """The id of something that the database numbers."""
    try:
        number = int(given)
    except ValueError:
        number = 0
    if not 1 <= number <= IDS_MAX:
        raise typer.BadParameter(f"{given!r} is not an id: a whole number from 1 to {IDS_MAX:,}.")
    return number
