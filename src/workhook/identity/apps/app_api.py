"""What an app asks for itself, with the JWT that its key signs."""

from __future__ import annotations

from workhook.core.errors import NotFound
from workhook.http.calls import NOT_KEPT, Answer, Call
from workhook.http.operations import AREA_B, Operation
from workhook.http.paging import PAGING, page_link, page_of
from workhook.identity import queries as account_queries
from workhook.identity.apps import access_tokens, actions, app_queries, queries
from workhook.identity.apps.app_schemas import (
    AccessTokenBody,
    InstallationRequest,
    InstallationShape,
    InstallationTokenShape,
    IntegrationShape,
    installation_shape,
    integration_shape,
    token_shape,
)
from workhook.identity.apps.schemas import Installation
from workhook.identity.guard import app_of


async def get_app(call: Call) -> Answer:
    app = app_of(call)
    owner = await account_queries.find_account_by_id(call.database, app.account_id)
    assert owner is not None, "an app belongs to an organization"
    count = await queries.count_installations_of(call.database, app.id)
    return Answer(integration_shape(app, owner, count, call.base))


async def list_installations(call: Call) -> Answer:
    page, per_page = page_of(call)
    found, total = await queries.list_installations_of(
        call.database, app_of(call).id, limit=per_page, offset=(page - 1) * per_page
    )
    shapes = [installation_shape(each, call.base) for each in found]
    return Answer(shapes, headers=page_link(call, page=page, per_page=per_page, total=total))


async def _own(call: Call) -> Installation:
    found = await app_queries.find_own(call.database, app_of(call).id, call.path_integer("installation_id"))
    return _existing(found)


def _existing(installation: Installation | None) -> Installation:
    if installation is None:
        raise NotFound()
    return installation


async def get_installation(call: Call) -> Answer:
    return Answer(installation_shape(await _own(call), call.base))


async def delete_installation(call: Call) -> Answer:
    installation = await _own(call)
    await call.database.in_transaction(lambda tx: actions.uninstall(tx, None, installation))
    return Answer(status=204)


async def suspend_installation(call: Call) -> Answer:
    installation = await _own(call)
    await call.database.in_transaction(lambda tx: actions.suspend(tx, None, installation, by="app"))
    return Answer(status=204)


async def unsuspend_installation(call: Call) -> Answer:
    installation = await _own(call)
    await call.database.in_transaction(lambda tx: actions.unsuspend(tx, None, installation, by="app"))
    return Answer(status=204)


async def create_access_token(call: Call) -> Answer:
    wanted = access_tokens.parse(await call.json_object(null=True), AccessTokenBody)
    app, installation_id = app_of(call), call.path_integer("installation_id")
    made = await call.database.in_transaction(lambda tx: access_tokens.create(tx, app, installation_id, wanted))
    shape = token_shape(made.issued, made.permissions, made.repository_ids, made.named, call.base)
    # Where the token itself, as the credential, finds what it is: it is deleted there.
    headers = {**NOT_KEPT, "Location": f"{call.base}/installation/token"}
    return Answer(shape, status=201, headers=headers)


async def get_of_organization(call: Call) -> Answer:
    found = _existing(await app_queries.find_on(call.database, app_of(call), call.path("org")))
    if found.account.kind != "organization":
        raise NotFound()
    return Answer(installation_shape(found, call.base))


async def get_of_user(call: Call) -> Answer:
    found = await app_queries.find_on(call.database, app_of(call), call.path("username"))
    return Answer(installation_shape(_existing(found), call.base))


async def get_of_repository(call: Call) -> Answer:
    found = await app_queries.find_reaching(call.database, app_of(call), call.path("owner"), call.path("repo"))
    return Answer(installation_shape(_existing(found), call.base))


async def get_of_repository_by_number(call: Call) -> Answer:
    number = call.path_integer("repository_id")
    found = await app_queries.find_reaching_by_id(call.database, app_of(call), number)
    return Answer(installation_shape(_existing(found), call.base))


async def installation_requests(call: Call) -> Answer:
    """Nobody can ask for an installation here: who owns the organization installs."""
    return Answer([])


def _op(method: str, path: str, name: str, summary: str, handler: object, **more: object) -> Operation:
    return Operation(
        AREA_B, method, path, handler, name, summary, "app", "apps",  # type: ignore[arg-type]  # passed through
        path_types={"installation_id": "integer", "repository_id": "integer"}, **more,  # type: ignore[arg-type]  # likewise
    )  # fmt: skip


_ONE = "/app/installations/{installation_id}"
_FOUND = {200: InstallationShape}

OPERATIONS = (
    _op("GET", "/app", "app_get", "The app itself", get_app, answers={200: IntegrationShape}),
    _op("GET", "/app/installations", "app_installations_list", "List the app's installations", list_installations,
        query=PAGING, answers={200: list[InstallationShape]}, problems=(422,)),
    _op("GET", _ONE, "app_installations_get", "Get an installation of the app", get_installation, answers=_FOUND),
    _op("DELETE", _ONE, "app_installations_delete", "Uninstall the app from an organization", delete_installation,
        answers={204: None}),
    _op("POST", f"{_ONE}/access_tokens", "app_access_tokens_create", "Create an installation access token",
        create_access_token, body=AccessTokenBody | None,
        answers={201: InstallationTokenShape}, problems=(400, 413, 422),
        etag=False),
    _op("PUT", f"{_ONE}/suspended", "app_installations_suspend", "Suspend an installation", suspend_installation,
        answers={204: None}),
    _op("DELETE", f"{_ONE}/suspended", "app_installations_unsuspend", "Take up a suspended installation again",
        unsuspend_installation, answers={204: None}, problems=(403,),
        description="One that the app itself has suspended: what an owner has, an owner takes back."),
    _op("GET", "/orgs/{org}/installation", "app_installation_of_organization",
        "Get the app's installation on an organization", get_of_organization, answers=_FOUND),
    _op("GET", "/repos/{owner}/{repo}/installation", "app_installation_of_repository",
        "Get the app's installation that reaches a repository", get_of_repository, answers=_FOUND),
    _op("GET", "/repositories/{repository_id}/installation", "app_installation_of_repository_by_number",
        "The same, by the repository's number", get_of_repository_by_number, answers=_FOUND),
    _op("GET", "/app/installation-requests", "app_installation_requests",
        "Who has asked for the app to be installed: nobody, since owners install it themselves", installation_requests,
        answers={200: list[InstallationRequest]}),
    _op("GET", "/users/{username}/installation", "app_installation_of_user",
        "Get the app's installation on an account", get_of_user, answers=_FOUND),
)  # fmt: skip
