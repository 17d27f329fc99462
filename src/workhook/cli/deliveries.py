"""`workhook event` and `workhook deliveries`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from workhook.cli import following, queries
from workhook.cli.common import Context, base_address, command, find_organization, find_repository, new_app
from workhook.cli.error_messages import CliError, Misuse, not_together
from workhook.cli.options import Argument, Flag, Option, row_id, time_text, whole_from
from workhook.cli.output import Progress, cell, show_progress
from workhook.core import errors, json
from workhook.hooks import deliveries, history, publishing, records
from workhook.hooks import queries as hooks_queries
from workhook.hooks import redelivery as hooks_redelivery

if TYPE_CHECKING:
    from workhook.storage import Database, Reader

app = new_app("What was sent to webhooks, and sending it again.")
event_app = new_app("Events of other systems.")


@command(event_app, "publish")
async def publish(
    context: Context,
    *,
    repository: Annotated[str, Option("OWNER/NAME", "Repository in which it happened.")],
    event: Annotated[str, Option("NAME", "Name of the event, such as push or pull_request.")],
    payload: Annotated[str | None, Option("FILE", "File with a JSON object; - is standard input. Default: {}.")] = None,
    action: Annotated[str | None, Option("NAME", "Action of the event. Default: `action` of the payload.")] = None,
    event_id: Annotated[
        str | None, Option("ID", "Your own id of the event. Within 24 hours a repeat does nothing.", flag="--id")
    ] = None,
) -> None:
    """Publish an event to every webhook that asks for it."""
    body = {"event": event, "payload": _read_payload(payload), "action": action, "id": event_id}
    publication = publishing.parse_publication(body)
    async with context.services() as services:
        where = await find_repository(services.database, repository)
        base = base_address(context.settings)
        place = records.HookOwner(where.owner, where)
        published = await publishing.publish(services.database, place, publication, actor=None, base=base)
    number = "1 delivery" if published.deliveries == 1 else f"{published.deliveries} deliveries"
    context.answer({"id": published.id, "deliveries": published.deliveries}, f"published {published.id}: {number}")


def _read_payload(source: str | None) -> Any:
    if source is None:
        return {}
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise CliError(f"{source} cannot be read: {error.strerror}.", "Give the path of a JSON file, or -.") from error
    if len(data) > publishing.BODY_MAX:
        raise CliError(f"{source} has {len(data)} bytes.", f"A payload may have {publishing.BODY_MAX}.")
    try:
        return json.decode_untrusted(data)
    except errors.Malformed as error:
        raise CliError(f"{source}: {error.message}.", "A payload is one JSON object in UTF-8.") from error


@dataclass(frozen=True)
class DeliveryOptions:
    """Which deliveries a command is about."""

    hook: Annotated[int | None, Option("ID", "Deliveries of this webhook.", parse=row_id)] = None
    repository: Annotated[str | None, Option("OWNER/NAME", "Deliveries of the webhooks of this repository.")] = None
    organization: Annotated[str | None, Option("LOGIN", "Deliveries of the webhooks of this organization itself.")] = (
        None
    )
    status: Annotated[Literal["success", "failure"] | None, Option("success|failure", "Success is a 2xx answer.")] = (
        None
    )
    event: Annotated[str | None, Option("NAME", "Only this event.")] = None
    action: Annotated[str | None, Option("NAME", "Only this action.")] = None
    guid: Annotated[str | None, Option("GUID", "Only attempts with this guid.")] = None
    since: Annotated[str | None, Option("TIME", "At or after, such as 2026-11-20T09:00:00Z.", parse=time_text)] = None
    until: Annotated[str | None, Option("TIME", "At or before this time.", parse=time_text)] = None
    redelivery: Annotated[
        Literal["true", "false"] | None, Option("true|false", "Only repeats, or only first attempts.")
    ] = None

    @property
    def filters(self) -> dict[str, str | None]:
        """The options that choose among the deliveries of a webhook."""
        names = ("status", "event", "action", "guid", "since", "until", "redelivery")
        return {name: getattr(self, name) for name in names}

    @property
    def owners(self) -> tuple[int | None, str | None, str | None]:
        """The options that name webhooks."""
        return self.hook, self.repository, self.organization

    async def hook_ids(self, reader: Reader) -> list[int]:
        """The ids of the webhooks that the options name. Raises `CliError`."""
        if sum(each is not None for each in self.owners) != 1:
            raise Misuse("which webhooks?", "Name one of --hook, --repository and --organization.")
        if self.hook is not None:
            if await queries.find_hook(reader, self.hook) is None:
                remedy = "`workhook deliveries list --repository` shows hook ids."
                raise CliError(f"there is no webhook {self.hook}.", remedy)
            return [self.hook]
        if self.repository is not None:
            found = await find_repository(reader, self.repository)
            place = records.HookOwner(found.owner, found)
        else:
            place = records.HookOwner(await find_organization(reader, self.organization or ""))
        return [each.id for each in await hooks_queries.all_hooks(reader, place)]


@command(app, "list")
async def list_deliveries(
    context: Context,
    *,
    chosen: DeliveryOptions,
    limit: Annotated[int, Option("NUMBER", "Number of deliveries, the newest first.", parse=whole_from(1))] = 30,
    follow: Annotated[bool, Flag("Go on with deliveries as they come, the newest last, until Ctrl-C.")] = False,
) -> None:
    """List deliveries of a webhook, or of every webhook of a repository or organization, newest first.

    With --follow the newest come last, and then each new one when its attempt is over. With --json each is a line of
    its own then.
    """
    filters = deliveries.parse_filters(chosen.filters)
    if follow:
        not_together({"--follow": follow, "--until": chosen.until is not None})
        await following.follow(context, chosen.hook_ids, filters, limit)
        return
    async with context.services() as services:
        found: list[dict[str, object]] = []
        for hook_id in await chosen.hook_ids(services.database):
            found += [
                following.to_json(each, hook_id)
                for each in await following.newest(services.database, hook_id, filters, limit)
            ]
    found.sort(key=lambda row: int(str(row["id"])), reverse=True)
    columns = ("id", "hook_id", "delivered_at", "event", "action", "status", "status_code", "duration", "redelivery")
    context.answer_rows(found[:limit], columns, none="There is no such delivery.")


@command(app, "show")
async def show(context: Context, *, delivery: Annotated[int, Argument("ID", parse=row_id)]) -> None:
    """Show one delivery: what was sent and what came back."""
    async with context.services() as services:
        hook_id = await _hook_of(services.database, delivery)
        found = await deliveries.find_delivery(services.database, hook_id, delivery)
    lines = [f"{name}: {cell(value)}" for name, value in following.to_json(found, hook_id).items()]
    lines += [f"url: {found.url}", "", *_headers("> ", found.request.headers), "", _json_text(found.request.payload)]
    lines += ["", *_headers("< ", found.response.headers), "", found.response.payload]
    context.answer(found, "\n".join(lines).rstrip())


@command(app, "redeliver")
async def redeliver(
    context: Context,
    *,
    ids: Annotated[tuple[int, ...], Argument("ID", "Deliveries to send again.", parse=row_id)] = (),
    chosen: DeliveryOptions,
) -> None:
    """Send deliveries again: those with the given ids, or those of the webhooks that --hook, --repository or
    --organization names.

    The other options choose among the deliveries of those webhooks. Default: those that failed and were not delivered
    since. Each event is sent under its guid, once however many attempts it had, and retried if it fails. If the command
    is interrupted, a server goes on with it.
    """
    given = any(chosen.filters.values())
    async with context.services() as services:
        wanted: dict[int, history.Filters] = {}
        if ids:
            if given or any(chosen.owners):
                raise Misuse("ids and filters do not go together.", "Give the one or the other.")
            of_hook: dict[int, list[int]] = {}
            for each in ids:
                of_hook.setdefault(await _hook_of(services.database, each), []).append(each)
            wanted = {hook_id: history.Filters(ids=some) for hook_id, some in of_hook.items()}
        else:
            filters = deliveries.parse_filters(chosen.filters if given else {"status": "failure"})
            wanted = dict.fromkeys(await chosen.hook_ids(services.database), filters)
        queued = 0
        with show_progress() as progress:
            for hook_id, filters in wanted.items():
                queued += await _redeliver(services.database, hook_id, filters, progress)
    context.answer({"queued": queued}, f"{queued} will be sent again")


async def _redeliver(database: Database, hook_id: int, filters: history.Filters, progress: Progress) -> int:
    """Answers how many events will be sent again. Whatever ends this command, a server goes on with it."""
    job_id = await database.in_transaction(lambda tx: hooks_redelivery.ask(tx, hook_id, filters))
    while (job := await hooks_redelivery.advance(database, job_id)) is not None:
        progress(f"deliveries of webhook {hook_id} looked at, in percent", job.percent, 100)
        if job.finished_at is not None:
            return job.queued
    return 0


async def _hook_of(reader: Reader, delivery_id: int) -> int:
    hook_id = await queries.hook_of_delivery(reader, delivery_id)
    if hook_id is None:
        raise CliError(f"there is no delivery {delivery_id}.", "`workhook deliveries list` shows their ids.")
    return hook_id


def _headers(mark: str, headers: Mapping[str, str]) -> list[str]:
    return [f"{mark}{name}: {value}" for name, value in headers.items()]


def _json_text(payload: object) -> str:
    import json

    return json.dumps(payload, indent=2, ensure_ascii=False)
