"""`workhook listen`."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from workhook.cli import deliveries as cli_deliveries
from workhook.cli.common import Context, base_address, command, get_repository
from workhook.cli.error_messages import CliError, Misuse
from workhook.cli.options import Option, comma_list, row_id
from workhook.cli.output import cell
from workhook.core import json as core_json
from workhook.core.urls import RECEIVE_PATH, new_receiver_key
from workhook.delivery import sign
from workhook.hooks import actions, bodies, deliveries, history, receivers, schemas
from workhook.hooks import queries as hooks_queries

if TYPE_CHECKING:
    from workhook.delivery.client import Client, Target
    from workhook.http.calls import Services
    from workhook.storage import Transaction

TIMEOUT_S = 10.0
_FORM = "application/x-www-form-urlencoded"


@command(None, "listen")
async def listen(
    context: Context,
    *,
    forward: Annotated[
        str, Option("URL", "Address to forward each delivery to, such as http://localhost:3000/webhook.")
    ],
    repository: Annotated[
        str | None, Option("OWNER/NAME", "Repository to create a webhook in while this command runs.")
    ] = None,
    hook: Annotated[int | None, Option("ID", "Forward the deliveries of this webhook instead.", parse=row_id)] = None,
    events: Annotated[str | None, Option("NAMES", "Only these events, separated by commas. Default: all.")] = None,
    secret_file: Annotated[
        str | None, Option("FILE", "File whose first line is the webhook's secret. Default: generate and print one.")
    ] = None,
) -> None:
    """Forward deliveries to a URL that the server cannot reach, such as one on your machine, until Ctrl-C.

    Each delivery is forwarded after the server has attempted it, with the headers, body, and signature of that attempt.
    A server or worker must be running. The temporary webhook sends to a receiver inside the server and is deleted when
    the command ends.
    """
    from workhook.delivery.address_policy import AddressPolicy, check_url

    if (fault := check_url(forward, AddressPolicy(("0.0.0.0/0", "::/0")))) is not None:  # in any network
        raise Misuse(f"--forward is not a valid URL. {fault}", "Use one such as http://localhost:3000/webhook.")
    names = comma_list(events or "*")
    if (repository is None) == (hook is None):
        raise Misuse("the deliveries are not specified.", "Use exactly one of --repository and --hook.")
    if hook is not None and secret_file is not None:
        raise Misuse("--hook and --secret-file cannot be combined.", "The webhook already has a secret.")
    task = asyncio.current_task()
    assert task is not None, "a command runs in one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with cli_deliveries.until_interrupted():
        async with context.services() as services:
            if hook is not None:
                if not await hooks_queries.hooks_by_id(services.database, [hook]):
                    remedy = "`workhook deliveries list --repository` shows hook IDs."
                    raise CliError(f"webhook {hook} does not exist.", remedy)
                follower = cli_deliveries.Follower(services.database, _only(hook), history.Filters())
                await follower.begin(1)  # earlier deliveries are not forwarded
                sentence = f"deliveries of webhook {hook} are also forwarded to {forward}"
                context.print_result({"listening": {"hook_id": hook}}, sentence)
                await _forward_all(context, services, follower, names, forward)
            else:
                secret = _read_secret(secret_file) or secrets.token_urlsafe(24)
                async with _own_hook(context, services, repository or "", names, secret) as made:
                    sentence = f"webhook {made} forwards to {forward}; its secret is {secret}"
                    context.print_result({"listening": {"hook_id": made, "secret": secret}}, sentence)
                    follower = cli_deliveries.Follower(services.database, _only(made), history.Filters())
                    await _forward_all(context, services, follower, ["*"], forward)


def _read_secret(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{path} cannot be read.", "Set --secret-file to the path of a text file.") from error
    if not lines or not lines[0].strip():
        raise CliError(f"{path} has no secret in its first line.", "Write one into it, or omit --secret-file.")
    return lines[0].strip()


def _only(hook_id: int) -> cli_deliveries.HookIds:
    async def ids(_: object) -> list[int]:
        return [hook_id]

    return ids


@asynccontextmanager
async def _own_hook(
    context: Context, services: Services, repository: str, names: Sequence[str], secret: str
) -> AsyncIterator[int]:
    found = await get_repository(services.database, repository)
    owner, key, base = schemas.HookOwner(found.owner, found), new_receiver_key(), base_address(context.settings)
    config = {"url": f"{base}{RECEIVE_PATH}{key}", "content_type": "json", "secret": secret, "retries": "0"}
    body = {"name": "web", "config": config, "events": list(names), "active": True}
    change = bodies.parse_hook(body, "repository", lambda _: None, creating=True)

    async def create(tx: Transaction) -> schemas.Hook:
        write = actions.HookWrite(tx, None, owner, services.vault, services.settings.hooks_per_event, base)
        return await receivers.create_receiver(write, change, key)

    hook = await services.database.in_transaction(create)
    try:
        yield hook.id
    finally:
        await services.database.in_transaction(lambda tx: actions.delete_hook(tx, None, owner, hook.id))


async def _forward_all(
    context: Context, services: Services, follower: cli_deliveries.Follower, names: Sequence[str], forward: str
) -> None:
    from workhook.delivery.address_policy import AddressPolicy
    from workhook.delivery.client import CONNECTIONS_MAX, Client, ConnectionPool, Target
    from workhook.delivery.dns import SystemResolver

    client = Client(AddressPolicy(), SystemResolver(), ConnectionPool(CONNECTIONS_MAX))
    target = Target(forward, own=True)  # chosen by the user of this command
    try:
        while True:
            for row in await cli_deliveries.poll_patiently(follower):
                if "*" in names or row["event"] in names:
                    await _forward(context, services, client, row, target)
    finally:
        client.close()


async def _forward(
    context: Context, services: Services, client: Client, row: Mapping[str, object], target: Target
) -> None:
    from workhook.delivery.client import SendError

    found = await deliveries.find_delivery(services.database, int(str(row["hook_id"])), int(str(row["id"])))
    body = core_json.encode(found.request.payload)
    headers = {name: value for name, value in found.request.headers.items() if value != sign.REDACTED}
    if any(name.lower() == "content-type" and value == _FORM for name, value in headers.items()):
        body = sign.form_encode(body)
    status_code, error, start = None, None, time.monotonic()
    deadline = asyncio.get_running_loop().time() + TIMEOUT_S
    try:
        status_code = (await client.post(target, headers, body, insecure=False, deadline=deadline)).code
    except TimeoutError:
        error = "timed out"
    except SendError as failure:
        error = failure.status
    except OSError as failure:
        error = f"{target.host}:{target.port} cannot be reached: {failure.strerror or failure}"
    duration = round(time.monotonic() - start, 3)
    name = cell(row["event"]) + (f".{cell(row['action'])}" if row["action"] else "")
    sentence = f"{row['delivered_at']}  {cell(row['id']):<8}  {name:<28}  {error or status_code}  {duration:.2f}s"
    forwarded = {"status_code": status_code, "error": error, "duration": duration}
    context.print_result({"delivery": row, "forwarded": forwarded}, sentence)
