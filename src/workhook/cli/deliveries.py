"""`workhook event` and `workhook deliveries`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from workhook.cli import queries
from workhook.cli.common import Context, base_address, command, get_organization, get_repository, new_app
from workhook.cli.error_messages import CliError, Misuse, not_together
from workhook.cli.options import Argument, Flag, Option, positive, row_id, time_text
from workhook.cli.output import Progress, cell, complain, show_progress
from workhook.core import errors, json
from workhook.core.text import counted
from workhook.hooks import deliveries, history, publishing, schemas
from workhook.hooks import queries as hooks_queries
from workhook.hooks import redelivery as hooks_redelivery

if TYPE_CHECKING:
    from workhook.hooks.schemas import DeliveryItem
    from workhook.storage import Database, Reader

app = new_app("List, show, and redeliver deliveries.")
event_app = new_app("Publish events.")


@command(event_app, "publish")
async def publish(
    context: Context,
    *,
    repository: Annotated[str, Option("OWNER/NAME", "Repository of the event.")],
    event: Annotated[str, Option("NAME", "Name of the event, such as push or pull_request.")],
    payload: Annotated[
        str | None, Option("FILE", "File with the payload, a JSON object; - for standard input. Default: {}.")
    ] = None,
    action: Annotated[str | None, Option("NAME", "Action of the event. Default: `action` of the payload.")] = None,
    event_id: Annotated[
        str | None,
        Option("ID", "Your own ID for the event. Publishing it again within 24 hours has no effect.", flag="--id"),
    ] = None,
) -> None:
    """Publish an event to every subscribed webhook."""
    body = {"event": event, "payload": _read_payload(payload), "action": action, "id": event_id}
    publication = publishing.parse_publication(body)
    async with context.services() as services:
        where = await get_repository(services.database, repository)
        base = base_address(context.settings)
        place = schemas.HookOwner(where.owner, where)
        published = await publishing.publish(services.database, place, publication, actor=None, base=base)
    number = counted(published.deliveries, "delivery", "deliveries")
    context.print_result(
        {"id": published.id, "deliveries": published.deliveries}, f"published {published.id}: {number}"
    )


def _read_payload(source: str | None) -> Any:
    if source is None:
        return {}
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        remedy = "Name a JSON file, or - for standard input."
        raise CliError(f"{source} cannot be read: {error.strerror}.", remedy) from error
    if len(data) > publishing.BODY_MAX:
        most = f"A payload can have at most {publishing.BODY_MAX:,} bytes."
        raise CliError(f"{source} has {counted(len(data), 'byte')}.", most)
    try:
        return json.decode_untrusted(data)
    except errors.Malformed as error:
        raise CliError(f"{source}: {error.message}.", "The payload must be a JSON object in UTF-8.") from error


@dataclass(frozen=True)
class DeliveryOptions:
    hook: Annotated[int | None, Option("ID", "Deliveries of this webhook.", parse=row_id)] = None
    repository: Annotated[str | None, Option("OWNER/NAME", "Deliveries of the webhooks of this repository.")] = None
    organization: Annotated[str | None, Option("LOGIN", "Deliveries of the webhooks of this organization itself.")] = (
        None
    )
    status: Annotated[
        Literal["success", "failure"] | None, Option("success|failure", "Only successful (2xx) or failed deliveries.")
    ] = None
    event: Annotated[str | None, Option("NAME", "Only this event.")] = None
    action: Annotated[str | None, Option("NAME", "Only this action.")] = None
    guid: Annotated[str | None, Option("GUID", "Only attempts with this GUID.")] = None
    since: Annotated[
        str | None, Option("TIME", "At or after this time, such as 2026-11-20T09:00:00Z.", parse=time_text)
    ] = None
    until: Annotated[str | None, Option("TIME", "At or before this time.", parse=time_text)] = None
    redelivery: Annotated[
        Literal["true", "false"] | None, Option("true|false", "Only redeliveries, or only first attempts.")
    ] = None

    @property
    def filters(self) -> dict[str, str | None]:
        names = ("status", "event", "action", "guid", "since", "until", "redelivery")
        return {name: getattr(self, name) for name in names}

    @property
    def owners(self) -> tuple[int | None, str | None, str | None]:
        return self.hook, self.repository, self.organization

    async def hook_ids(self, reader: Reader) -> list[int]:
        """Return the IDs of the webhooks named by the options. Raises `CliError`."""
        if sum(each is not None for each in self.owners) != 1:
            remedy = "Use exactly one of --hook, --repository, and --organization."
            raise Misuse("the webhooks are not specified.", remedy)
        if self.hook is not None:
            if not await hooks_queries.hooks_by_id(reader, [self.hook]):
                remedy = "`workhook deliveries list --repository` shows hook IDs."
                raise CliError(f"webhook {self.hook} does not exist.", remedy)
            return [self.hook]
        if self.repository is not None:
            found = await get_repository(reader, self.repository)
            place = schemas.HookOwner(found.owner, found)
        else:
            place = schemas.HookOwner(await get_organization(reader, self.organization or ""))
        return [each.id for each in await hooks_queries.all_hooks(reader, place)]


@command(app, "list")
async def list_deliveries(
    context: Context,
    *,
    chosen: DeliveryOptions,
    limit: Annotated[int, Option("NUMBER", "Number of deliveries, newest first.", parse=positive)] = 30,
    follow: Annotated[bool, Flag("Keep printing new deliveries until Ctrl-C.")] = False,
) -> None:
    """List deliveries of a webhook, or of all webhooks of a repository or organization, newest first.

    With --follow, the newest deliveries are printed last, followed by each new one as soon as its attempt ends. With
    --json, each is then printed on its own line.
    """
    filters = deliveries.parse_filters(chosen.filters)
    if follow:
        not_together({"--follow": follow, "--until": chosen.until is not None})
        await follow_deliveries(context, chosen.hook_ids, filters, limit)
        return
    async with context.services() as services:
        found: list[dict[str, object]] = []
        for hook_id in await chosen.hook_ids(services.database):
            found += [to_json(each, hook_id) for each in await newest(services.database, hook_id, filters, limit)]
    found.sort(key=_id_of, reverse=True)
    columns = ("id", "hook_id", "delivered_at", "event", "action", "status", "status_code", "duration", "redelivery")
    context.print_rows(found[:limit], columns, none="No deliveries match.")


@command(app, "show")
async def show(
    context: Context,
    *,
    delivery: Annotated[int, Argument("ID", "ID, as shown by `deliveries list`.", parse=row_id)],
) -> None:
    """Show one delivery with its request and response."""
    async with context.services() as services:
        hook_id = await _hook_of(services.database, delivery)
        found = await deliveries.find_delivery(services.database, hook_id, delivery)
    lines = [f"{name}: {cell(value)}" for name, value in to_json(found, hook_id).items()]
    lines += [f"url: {found.url}", "", *_headers("> ", found.request.headers), "", _json_text(found.request.payload)]
    lines += ["", *_headers("< ", found.response.headers), "", found.response.payload]
    context.print_result(found, "\n".join(lines).rstrip())


@command(app, "redeliver")
async def redeliver(
    context: Context,
    *,
    ids: Annotated[tuple[int, ...], Argument("ID", "Deliveries to redeliver.", parse=row_id)] = (),
    chosen: DeliveryOptions,
) -> None:
    """Redeliver deliveries.

    Give their IDs, or select the webhooks with --hook, --repository or --organization. The other options filter the
    deliveries of those webhooks. By default, this redelivers failed deliveries that have not been delivered since. Each
    event is sent once under its guid, however many attempts it had, and retried if it fails. If the command is
    interrupted, a server continues.
    """
    is_filtered = any(chosen.filters.values())
    async with context.services() as services:
        wanted: dict[int, history.Filters] = {}
        if ids:
            if is_filtered or any(chosen.owners):
                raise Misuse("IDs and filters cannot be combined.", "Use one or the other.")
            of_hook: dict[int, list[int]] = {}
            for each in ids:
                of_hook.setdefault(await _hook_of(services.database, each), []).append(each)
            wanted = {hook_id: history.Filters(ids=some) for hook_id, some in of_hook.items()}
        else:
            filters = deliveries.parse_filters(chosen.filters if is_filtered else {"status": "failure"})
            wanted = dict.fromkeys(await chosen.hook_ids(services.database), filters)
        queued = 0
        with show_progress() as progress:
            for hook_id, filters in wanted.items():
                queued += await _redeliver(services.database, hook_id, filters, progress)
    context.print_result({"queued": queued}, f"queued {counted(queued, 'event')} for redelivery")


async def _redeliver(database: Database, hook_id: int, filters: history.Filters, progress: Progress) -> int:
    """Return how many events will be sent again. If this command is interrupted, a server continues."""
    job_id = await database.in_transaction(lambda tx: hooks_redelivery.create_job(tx, hook_id, filters))
    while (job := await hooks_redelivery.advance(database, job_id)) is not None:
        progress(f"percent of deliveries of webhook {hook_id} scanned", job.percent, 100)
        if job.finished_at is not None:
            return job.queued
    return 0


async def _hook_of(reader: Reader, delivery_id: int) -> int:
    hook_id = await queries.hook_of_delivery(reader, delivery_id)
    if hook_id is None:
        raise CliError(f"delivery {delivery_id} does not exist.", "`workhook deliveries list` shows their IDs.")
    return hook_id


def _headers(mark: str, headers: Mapping[str, str]) -> list[str]:
    return [f"{mark}{name}: {value}" for name, value in headers.items()]


def _json_text(payload: object) -> str:
    import json

    return json.dumps(payload, indent=2, ensure_ascii=False)


# --- following deliveries ---------------------------------------------------------------------------------------------

PAGE = 100
POLL_S = 0.5
LOOK_BACK_S = 5.0
"""On PostgreSQL, a delivery with a smaller ID may still be committed for this long after a delivery was seen."""

_WIDTHS = {"delivered_at": 24, "id": 8, "hook_id": 7, "event": 28, "status_code": 3, "duration": 6, "status": 0}

HookIds = Callable[["Reader"], Awaitable[list[int]]]


async def follow_deliveries(context: Context, hook_ids: HookIds, filters: history.Filters, limit: int) -> None:
    """Print at most `limit` of the newest deliveries, newest last, then each new one.

    Ends when interrupted or when the output is closed. Webhooks created meanwhile are followed too.
    """
    with until_interrupted():
        async with context.services() as services:
            follower = Follower(services.database, hook_ids, filters)
            _print(context, await follower.begin(limit))
            while True:
                _print(context, await poll_patiently(follower))


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Exit normally on Ctrl-C or when the output's reader is gone. For commands that never end on their own."""
    try:
        yield
    except asyncio.CancelledError:
        return
    except BrokenPipeError:
        # For example, after `| head`. The interpreter would complain when closing the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def poll_patiently(follower: Follower) -> list[dict[str, object]]:
    """Wait a moment, then return new deliveries as soon as the database is available."""
    is_reported = False
    while True:
        await asyncio.sleep(max(POLL_S, follower.took_s))  # leaves half of the time to the server
        try:
            return await follower.poll()
        except errors.Unavailable as error:
            if not is_reported:
                complain([f"{error.message.rstrip('.')}.", "Retrying until it is available."])
            is_reported = True


class Follower:
    """Finds each delivery once. `took_s`: duration of the last search."""

    took_s = 0.0

    def __init__(self, database: Database, hook_ids: HookIds, filters: history.Filters) -> None:
        self._database, self._hook_ids, self._filters = database, hook_ids, filters
        self._tails: dict[int, _Tail] = {}

    async def begin(self, limit: int) -> list[dict[str, object]]:
        """Return at most `limit` of the newest deliveries, oldest first. `poll` finds later ones."""
        found: list[dict[str, object]] = []
        for hook_id in await self._hook_ids(self._database):
            last = await newest(self._database, hook_id, history.Filters(), 1)
            tail = self._tails[hook_id] = _Tail(last[0].id if last else 0)
            items = await newest(self._database, hook_id, self._filters, limit)
            found += [to_json(each, hook_id) for each in tail.unseen(items)]
        return sorted(found, key=_id_of)[-limit:]

    async def poll(self) -> list[dict[str, object]]:
        start = time.monotonic()
        found: list[dict[str, object]] = []
        for hook_id in await self._hook_ids(self._database):
            tail = self._tails.setdefault(hook_id, _Tail(0))
            after_id = tail.after_id
            while True:
                items = await deliveries.list_newer(
                    self._database, hook_id, self._filters, after_id=after_id, limit=PAGE
                )
                found += [to_json(each, hook_id) for each in tail.unseen(items)]
                if len(items) < PAGE:
                    break
                after_id = items[-1].id
        self.took_s = time.monotonic() - start
        return sorted(found, key=_id_of)


class _Tail:
    """The seen deliveries of a webhook: all up to `after_id`, and some after it."""

    def __init__(self, after_id: int) -> None:
        self.after_id = after_id
        self._seen: dict[int, float] = {}  # IDs that may be found again → when they were seen, oldest first

    def unseen(self, items: Sequence[DeliveryItem]) -> list[DeliveryItem]:
        now = time.monotonic()
        fresh = [each for each in items if each.id not in self._seen]
        self._seen |= {each.id: now for each in fresh}
        for each in [known for known, at in self._seen.items() if at < now - LOOK_BACK_S]:
            del self._seen[each]
            self.after_id = max(self.after_id, each)
        return fresh


def _id_of(row: Mapping[str, object]) -> int:
    return int(str(row["id"]))


def _print(context: Context, rows: Sequence[dict[str, object]]) -> None:
    for row in rows:
        name = str(row["event"]) if row["action"] is None else f"{row['event']}.{row['action']}"
        again = {"status": f"{row['status']} (redelivery)"} if row["redelivery"] else {}
        shown = {**row, "event": name, "duration": f"{row['duration']:.2f}s", **again}
        context.print_result(row, "  ".join(cell(shown[each]).ljust(width) for each, width in _WIDTHS.items()))


async def newest(reader: Reader, hook_id: int, filters: history.Filters, limit: int) -> list[DeliveryItem]:
    from workhook.http.lists import parse_cursor

    found: list[DeliveryItem] = []
    cursor: str | None = None
    while len(found) < limit:
        wanted = min(PAGE, limit - len(found))
        at = parse_cursor(cursor)
        page = await deliveries.list_deliveries(reader, hook_id, filters, cursor=at, per_page=wanted)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def to_json(item: DeliveryItem, hook_id: int) -> dict[str, object]:
    names = ("id", "guid", "delivered_at", "redelivery", "duration", "status", "status_code", "event", "action")
    more = ("installation_id", "repository_id", "throttled_at")
    return {**{name: getattr(item, name) for name in (*names, *more)}, "hook_id": hook_id}
