"""`workhook oauth-app`."""

from __future__ import annotations

from typing import Annotated

import typer

from workhook.cli import registered
from workhook.cli.common import Context, command, find_organization, new_app
from workhook.cli.registered import (
    AppArgument,
    CallbackOption,
    DescriptionOption,
    DeviceFlowOption,
    HomepageOption,
    OrganizationOption,
    find_app,
    owner_of,
    shown,
    shown_secret,
    told,
)
from workhook.cli.usage import row_id

app = new_app("OAuth apps: programs that act for the users who let them.")


@command(app, "create")
async def create(
    context: Context,
    *,
    organization: OrganizationOption,
    name: Annotated[str, typer.Option(metavar="TEXT", help="What users see. Unlike any other app's.")],
    callback_url: CallbackOption = [],  # noqa: B006  # typer copies it
    homepage_url: HomepageOption = None,
    description: DescriptionOption = None,
    device_flow: DeviceFlowOption = False,
) -> None:
    """Register an OAuth app. This is the only time that its client secret is shown."""
    from workhook.identity.apps import actions

    async with context.services() as services, services.database.transaction() as tx:
        owner = await find_organization(tx, organization)
        made, secret = await actions.create_oauth_app(
            tx,
            None,
            owner,
            name=name,
            callback_urls=callback_url,
            homepage_url=homepage_url,
            description=description,
            device_flow=device_flow,
        )
    data = {**shown(made, owner), "client_secret": secret}
    context.answer(data, told({"client_id": made.client_id, "client_secret": secret}))


@command(app, "list")
async def list_apps(context: Context, *, organization: OrganizationOption) -> None:
    """List the OAuth apps of an organization."""
    from workhook.identity.apps import queries

    async with context.services() as services:
        owner = await find_organization(services.database, organization)
        found, _ = await queries.list_apps(services.database, owner.id, "oauth")
    columns = ("client_id", "slug", "name", "callback_urls", "device_flow", "created_at")
    context.answer_rows([shown(each, owner) for each in found], columns, none="There is no OAuth app yet.")


@command(app, "show")
async def show(context: Context, *, name: AppArgument) -> None:
    """Show an OAuth app with what is known of its secrets; never the secrets, which are stored nowhere."""
    from workhook.identity.apps import queries

    async with context.services() as services:
        found = await find_app(services.database, name, oauth=True)
        owner = await owner_of(services.database, found)
        secrets = [shown_secret(each) for each in await queries.list_secrets(services.database, found.id)]
    data = {**shown(found, owner), "secrets": secrets}
    context.answer(data, told(data))


@command(app, "edit")
async def edit(
    context: Context,
    *,
    name: AppArgument,
    new_name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="Another name; also its slug.")] = None,
    callback_url: CallbackOption = [],  # noqa: B006  # typer copies it
    homepage_url: HomepageOption = None,
    description: DescriptionOption = None,
    device_flow: Annotated[
        bool | None, typer.Option("--device-flow/--no-device-flow", help="Users may authorise it on another device.")
    ] = None,
) -> None:
    """Change an OAuth app. What is not given stays; an empty text clears."""
    from workhook.identity.apps import actions

    change = registered.change_of(
        new_name, callback_url, homepage_url=homepage_url, description=description, device_flow=device_flow
    )
    async with context.services() as services, services.database.transaction() as tx:
        found = await actions.edit_app(tx, None, await find_app(tx, name, oauth=True), change)
        owner = await owner_of(tx, found)
    data = shown(found, owner)
    context.answer(data, told(data))


@command(app, "delete")
async def delete(context: Context, *, name: AppArgument) -> None:
    """Delete an OAuth app with its tokens, what users have granted it, and the webhooks that it made."""
    await registered.delete(context, name, oauth=True)


@command(app, "new-secret")
async def new_secret(context: Context, *, name: AppArgument) -> None:
    """Make another client secret: two at most. This is the only time that it is shown."""
    await registered.new_secret(context, name, oauth=True)


@command(app, "delete-secret")
async def delete_secret(
    context: Context,
    *,
    name: AppArgument,
    secret_id: Annotated[int, typer.Argument(metavar="ID", parser=row_id, help="As `oauth-app show` shows it.")],
) -> None:
    """Delete a client secret: from now on no process takes it."""
    await registered.delete_secret(context, name, secret_id, oauth=True)
