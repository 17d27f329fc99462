"""`workhook event`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from workhook.cli.common import Context, base_address, command, find_repository, new_app
from workhook.cli.error_messages import CliError
from workhook.cli.options import Option
from workhook.core import errors, json
from workhook.hooks import publishing, records

app = new_app("Events of other systems.")


@command(app, "publish")
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
    body = {"event": event, "payload": _read(payload), "action": action, "id": event_id}
    publication = publishing.parse_publication(body)
    async with context.services() as services:
        where = await find_repository(services.database, repository)
        base = base_address(context.settings)
        place = records.HookOwner(where.owner, where)
        published = await publishing.publish(services.database, place, publication, actor=None, base=base)
    number = "1 delivery" if published.deliveries == 1 else f"{published.deliveries} deliveries"
    context.answer({"id": published.id, "deliveries": published.deliveries}, f"published {published.id}: {number}")


def _read(source: str | None) -> Any:
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
