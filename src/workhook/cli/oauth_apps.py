"""`workhook oauth-app`."""

from __future__ import annotations

from typing import Annotated

from workhook.cli import app_common
from workhook.cli.app_common import (
    AppArgument,
    CallbackOption,
    DescriptionOption,
    DeviceFlowOption,
    HomepageOption,
    OrganizationOption,
    app_json,
    find_app,
    owner_of,
    secret_json,
    to_lines,
)
from workhook.cli.common import Context, command, find_organization, new_app
from workhook.cli.options import Flag, Option

app = new_app("OAuth apps: programs that act for the users who let them.")


@command(app, "create")
async def create(
    context: Context,
    *,
    organization: OrganizationOption,
    name: Annotated[str, Option("TEXT", "What users see. Unlike any other app's.")],
    callback_url: CallbackOption = (),
    homepage_url: HomepageOption = None,
    description: DescriptionOption = None,
    device_flow: DeviceFlowOption = False,
) -> None:
    """Register an OAuth app. This is the only time that its client secret is shown."""
    from workhook.identity.apps import actions
    from workhook.identity.apps.manage_schemas import OauthAppCreate

    async with context.transaction() as tx:
        owner = await find_organization(tx, organization)
        made, secret = await actions.create_oauth_app(
            tx,
            None,
            owner,
            OauthAppCreate(
                name=name,
                callback_urls=list(callback_url),
                homepage_url=homepage_url,
                description=description,
                device_flow=device_flow,
            ),
        )
    data = {**app_json(made, owner), "client_secret": secret}
    context.answer(data, to_lines({"client_id": made.client_id, "client_secret": secret}))


@command(app, "list")
async def list_apps(context: Context, *, organization: OrganizationOption) -> None:
    """List the OAuth apps of an organization."""
    from workhook.identity.apps import queries

    async with context.services() as services:
        owner = await find_organization(services.database, organization)
        found, _ = await queries.list_apps(services.database, owner.id, "oauth")
    columns = ("client_id", "slug", "name", "callback_urls", "device_flow", "created_at")
    context.answer_rows([app_json(each, owner) for each in found], columns, none="There is no OAuth app yet.")


@command(app, "show")
async def show(context: Context, *, name: AppArgument) -> None:
    """Show an OAuth app with what is known of its secrets; never the secrets, which are stored nowhere."""
    from workhook.identity.apps import queries

    async with context.services() as services:
        found = await find_app(services.database, name, oauth=True)
        owner = await owner_of(services.database, found)
        secrets = [secret_json(each) for each in await queries.list_secrets(services.database, found.id)]
    data = {**app_json(found, owner), "secrets": secrets}
    context.answer(data, to_lines(data))


@command(app, "edit")
async def edit(
    context: Context,
    *,
    name: AppArgument,
    new_name: Annotated[str | None, Option("TEXT", "Another name; also its slug.", flag="--name")] = None,
    callback_url: CallbackOption = (),
    homepage_url: HomepageOption = None,
    description: DescriptionOption = None,
    device_flow: Annotated[
        bool | None, Flag("Users may authorise it on another device.", off="--no-device-flow")
    ] = None,
) -> None:
    """Change an OAuth app. What is not given stays; an empty text clears."""
    from workhook.identity.apps import actions

    change = app_common.change_of(
        new_name, callback_url, homepage_url=homepage_url, description=description, device_flow=device_flow
    )
    async with context.transaction() as tx:
        found = await actions.edit_app(tx, None, await find_app(tx, name, oauth=True), change)
        owner = await owner_of(tx, found)
    data = app_json(found, owner)
    context.answer(data, to_lines(data))


app_common.add_shared_commands(
    app,
    oauth=True,
    deletes="Delete an OAuth app with its tokens, what users have granted it, and the webhooks that it made.",
)
