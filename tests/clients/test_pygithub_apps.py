"""The unmodified PyGithub and githubkit as an app and as its installation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from github import Auth, Github, GithubException, GithubIntegration, UnknownObjectException
from github.AppAuthentication import AppAuthentication
from githubkit import AppAuthStrategy, AppInstallationAuthStrategy, GitHub
from githubkit.exception import RequestFailed

from tests.clients.support import SECRET, signed_with
from tests.harness.apps import PERMISSIONS, Registered, install, make_app, new_repository
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

pytestmark = pytest.mark.one_database

NOT_GRANTED = "The permissions requested are not granted to this installation."
WITHOUT_PAUSES: dict[str, Any] = {
    "retry": None, "seconds_between_requests": 0, "seconds_between_writes": 0, "timeout": 60,
}  # fmt: skip


@pytest.fixture(params=["", "/api/v3"], ids=["root", "prefix"])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def app(server: Server, world: World) -> Registered:
    return make_app(server, world, public=True)


@pytest.fixture
def integration(server: Server, app: Registered, prefix: str) -> Iterator[GithubIntegration]:
    auth = Auth.AppAuth(app.id, app.private_key)
    with GithubIntegration(auth=auth, base_url=server.url + prefix, **WITHOUT_PAUSES) as integration:
        yield integration


def test_pygithub_reads_the_app_and_its_installations(
    server: Server, world: World, app: Registered, integration: GithubIntegration
) -> None:
    shown = integration.get_app()
    assert (shown.id, shown.slug, shown.client_id, shown.permissions) == (app.id, app.slug, app.client_id, PERMISSIONS)
    assert (getattr(shown.owner, "login", None), shown.events) == (world.organization, [])
    assert shown.created_at <= datetime.now(UTC)
    second = install(server, app, server.world())
    found = list(integration.get_installations())
    assert [each.id for each in found] == [app.installation_id, second]
    one = integration.get_app_installation(app.installation_id)
    assert (one.app_id, one.app_slug, one.client_id) == (app.id, app.slug, app.client_id)
    assert (one.target_type, one.account.login, one.target_id) == ("Organization", world.organization, one.account.id)
    assert (one.permissions, one.repository_selection) == (PERMISSIONS, "all")
    assert integration.get_org_installation(world.organization).id == app.installation_id
    assert integration.get_repo_installation(world.organization, world.repository).id == app.installation_id
    assert integration.get_user_installation(world.organization).id == app.installation_id
    with pytest.raises(UnknownObjectException):
        integration.get_repo_installation(world.organization, "absent")
    assert [each.full_name for each in found[0].get_repos()] == [world.full_name]


def test_pygithub_creates_installation_tokens(world: World, app: Registered, integration: GithubIntegration) -> None:
    whole = integration.get_access_token(app.installation_id)
    assert (whole.permissions, whole.repository_selection) == (PERMISSIONS, "all")
    assert timedelta(minutes=58) < whole.expires_at - datetime.now(UTC) <= timedelta(hours=1)
    less = integration.get_access_token(app.installation_id, {"repository_hooks": "read"})
    assert less.permissions == {"repository_hooks": "read"}
    with pytest.raises(GithubException) as caught:
        integration.get_access_token(app.installation_id, {"contents": "read"})
    assert (caught.value.status, caught.value.message) == (422, NOT_GRANTED)
    with pytest.raises(UnknownObjectException):
        integration.get_access_token(app.installation_id + 10**6)
    reading = integration.get_github_for_installation(app.installation_id, {"repository_hooks": "read"})
    with reading, pytest.raises(GithubException) as caught:
        reading.get_repo(world.full_name).create_hook("web", {"url": "http://127.0.0.1:9/"})
    assert (caught.value.status, caught.value.message) == (403, "Resource not accessible by integration")


def test_pygithub_manages_webhooks_as_the_installation(
    server: Server, world: World, app: Registered, prefix: str, receiver: Receiver
) -> None:
    new_repository(server, world, "shop")
    auth = Auth.AppInstallationAuth(Auth.AppAuth(app.client_id, app.private_key), app.installation_id)
    with Github(auth=auth, base_url=server.url + prefix, **WITHOUT_PAUSES) as github:
        first = auth.token
        assert auth.token == first
        places: list[Any] = [github.get_repo(world.full_name), github.get_organization(world.organization)]
        assert github.get_repo(places[0].id).full_name == world.full_name
        assert github.get_user_by_id(places[1].id).login == world.organization
        for at, place in enumerate(places):
            config = {"url": f"{receiver.url}/{at}", "content_type": "json", "secret": SECRET}
            hook = place.create_hook("web", config, events=["issues"], active=True)
            assert [each.id for each in place.get_hooks()] == [hook.id]
            hook.edit("web", config, add_events=["push"]) if at == 0 else hook.edit("web", config, events=["push"])
            assert "push" in place.get_hook(hook.id).events
            hook.ping()
            deliveries = until(lambda p=place, h=hook: [*p.get_hook_deliveries(h.id)][1:])  # type: ignore[misc]  # called immediately
            assert {each.installation_id for each in deliveries} == {app.installation_id}
            if at == 0:  # force the renewal that is otherwise due after most of an hour
                authorization = auth._AppInstallationAuth__installation_authorization  # type: ignore[attr-defined]  # the state that time would change
                authorization._expires_at = authorization._makeDatetimeAttribute("2026-01-01T00:00:00Z")
            hook.delete()
        assert auth.token != first
    received = receiver.wait_for(4)
    assert all(signed_with(each, SECRET) for each in received)
    assert {(each.payload()["sender"]["login"], each.payload()["sender"]["type"]) for each in received} == {
        (app.bot, "Bot")
    }


def test_pygithub_with_a_wrong_key_is_refused(server: Server, world: World, app: Registered) -> None:
    stranger = make_app(server, world, own_key=True)
    auth = Auth.AppAuth(app.id, stranger.private_key)
    with GithubIntegration(auth=auth, base_url=server.url, **WITHOUT_PAUSES) as integration:
        with pytest.raises(GithubException) as caught:
            integration.get_app()
        assert (caught.value.status, caught.value.message) == (401, "A JSON web token could not be decoded")


def test_pygithubs_deprecated_app_authentication_works(server: Server, world: World, app: Registered) -> None:
    """Many programs still use `AppAuthentication`, which PyGithub has deprecated."""
    with pytest.deprecated_call():
        auth = AppAuthentication(app.id, app.private_key, app.installation_id, {"repository_hooks": "read"})
    with Github(auth=auth, base_url=server.url, **WITHOUT_PAUSES) as github:
        assert list(github.get_repo(world.full_name).get_hooks()) == []
        with pytest.raises(GithubException) as caught:
            list(github.get_organization(world.organization).get_hooks())
        assert (caught.value.status, caught.value.message) == (403, "Resource not accessible by integration")


def test_githubkit_manages_the_app_and_its_tokens(server: Server, world: World, app: Registered, prefix: str) -> None:
    """githubkit's models refuse a response that lacks anything from GitHub's description."""
    shop_id, _ = new_repository(server, world, "shop")
    base = server.url + prefix
    with GitHub(AppAuthStrategy(app.id, app.private_key), base_url=base, auto_retry=False) as github:
        apps: Any = github.rest.apps
        shown = apps.get_authenticated().parsed_data
        assert (shown.id, shown.permissions.model_dump(exclude_unset=True)) == (app.id, PERMISSIONS)
        [one] = apps.list_installations().parsed_data
        assert (one.id, one.account.login, one.target_type) == (app.installation_id, world.organization, "Organization")
        assert one.permissions.repository_hooks == one.permissions.organization_hooks == "write"
        assert apps.get_installation(one.id).parsed_data == one
        assert apps.get_org_installation(world.organization).parsed_data == one
        assert apps.get_repo_installation(world.organization, world.repository).parsed_data == one
        assert apps.get_user_installation(world.organization).parsed_data == one
        assert apps.list_installation_requests_for_authenticated_app().parsed_data == []
        token = apps.create_installation_access_token(one.id, repository_ids=[shop_id]).parsed_data
        assert [each.name for each in token.repositories] == ["shop"]
        with pytest.raises(RequestFailed) as caught:
            apps.create_installation_access_token(one.id, repositories=["absent"])
        assert caught.value.response.status_code == 422
        assert caught.value.response.parsed_data.errors[0].field == "repositories"
        assert apps.suspend_installation(one.id).status_code == 204
        assert apps.get_installation(one.id).parsed_data.suspended_at is not None
        assert apps.unsuspend_installation(one.id).status_code == 204
    narrow = AppInstallationAuthStrategy(
        None,
        app.private_key,
        app.installation_id,
        client_id=app.client_id,
        repositories=["shop"],
        permissions={"repository_hooks": "write"},
    )
    with GitHub(narrow, base_url=base, auto_retry=False) as github:
        rest: Any = github.rest
        listed = rest.apps.list_repos_accessible_to_installation().parsed_data
        assert [each.name for each in listed.repositories] == ["shop"]
        place = {"owner": world.organization, "repo": "shop"}
        hook = rest.repos.create_webhook(**place, name="web", config={"url": "http://127.0.0.1:9/"}, active=False)
        assert [each.id for each in rest.repos.list_webhooks(**place).parsed_data] == [hook.parsed_data.id]
        for refused, status in ((world.repository, 404), (None, 403)):
            with pytest.raises(RequestFailed) as caught:
                if refused:
                    rest.repos.list_webhooks(world.organization, refused)
                else:
                    rest.orgs.list_webhooks(world.organization)
            assert caught.value.response.status_code == status
        assert rest.apps.revoke_installation_access_token().status_code == 204
    with GitHub(AppAuthStrategy(app.id, app.private_key), base_url=base, auto_retry=False) as github:
        assert github.rest.apps.delete_installation(app.installation_id).status_code == 204
