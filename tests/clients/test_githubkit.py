"""The unmodified githubkit, whose models refuse any response that does not match GitHub's OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.clients.support import SECRET, history, publish
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.world import World, add_user

pytestmark = pytest.mark.one_database


@pytest.fixture
def github(server: Server, world: World) -> Iterator[GitHub[Any]]:
    """Yield a client without retries, which would hide errors, but with the default ETag cache."""
    with GitHub(world.token, base_url=server.url, auto_retry=False) as github:
        yield github


def test_repository_webhooks_can_be_managed(
    github: GitHub[Any], server: Server, world: World, receiver: Receiver
) -> None:
    repos: Any = github.rest.repos
    place = {"owner": world.organization, "repo": world.repository}
    config = {"url": receiver.url, "content_type": "json", "secret": SECRET}
    hook = repos.create_webhook(**place, name="web", config=config, events=["issues"], active=True).parsed_data
    assert (hook.type, hook.name, hook.active, hook.events) == ("Repository", "web", True, ["issues"])
    assert (hook.config.url, hook.config.content_type, hook.config.secret) == (receiver.url, "json", "********")
    assert hook.last_response.status == "unused"
    path = f"{world.repo_path}/hooks/{hook.id}"
    assert hook.url == server.url + path
    with server.client(world.token) as client:
        publish(client, world, "issues", {"action": "opened"})
    history(server, world, path, 2)
    one = {**place, "hook_id": hook.id}
    fetched = repos.get_webhook(**one).parsed_data
    assert (fetched.last_response.code, fetched.last_response.message) == (200, "OK")
    assert [each.id for each in repos.list_webhooks(**place).parsed_data] == [hook.id]
    updated = repos.update_webhook(**one, add_events=["fork"], active=True).parsed_data
    assert updated.events == ["issues", "fork"]
    changed = repos.update_webhook_config_for_repo(**one, insecure_ssl="1").parsed_data
    assert (changed.insecure_ssl, changed.secret) == ("1", "********")
    assert repos.get_webhook_config_for_repo(**one).parsed_data.insecure_ssl == "1"
    assert repos.ping_webhook(**one).status_code == 204
    assert repos.test_push_webhook(**one).status_code == 204
    check_deliveries(repos, server, world, one, path)
    assert repos.delete_webhook(**one).status_code == 204
    with pytest.raises(RequestFailed) as caught:
        repos.get_webhook(**one)
    assert caught.value.response.status_code == 404


def test_organization_webhooks_can_be_managed(
    github: GitHub[Any], server: Server, world: World, receiver: Receiver
) -> None:
    orgs: Any = github.rest.orgs
    place = {"org": world.organization}
    config = {"url": receiver.url, "content_type": "json", "secret": SECRET, "username": "ada", "password": "pw"}
    hook = orgs.create_webhook(**place, name="web", config=config, events=["issues"], active=True).parsed_data
    assert (hook.type, hook.events, hook.config.secret) == ("Organization", ["issues"], "********")
    path = f"{world.org_path}/hooks/{hook.id}"
    with server.client(world.token) as client:
        publish(client, world, "issues", {"action": "opened"})
    history(server, world, path, 2)
    one = {**place, "hook_id": hook.id}
    assert orgs.get_webhook(**one).parsed_data.id == hook.id
    assert [each.id for each in orgs.list_webhooks(**place).parsed_data] == [hook.id]
    updated = orgs.update_webhook(**one, events=["*"], active=True).parsed_data
    assert updated.events == ["*"]
    assert orgs.update_webhook_config_for_org(**one, content_type="form").parsed_data.content_type == "form"
    assert orgs.get_webhook_config_for_org(**one).parsed_data.content_type == "form"
    assert orgs.ping_webhook(**one).status_code == 204
    check_deliveries(orgs, server, world, one, path)
    assert orgs.delete_webhook(**one).status_code == 204
    assert orgs.list_webhooks(**place).parsed_data == []


def check_deliveries(api: Any, server: Server, world: World, one: dict[str, Any], path: str) -> None:
    """Check the list of three deliveries, a single delivery and a redelivery."""
    recorded = history(server, world, path, 3)
    items = api.list_webhook_deliveries(**one).parsed_data
    assert [item.id for item in items] == [each["id"] for each in recorded]
    issue = next(item for item in items if item.event == "issues")
    assert (issue.action, issue.status, issue.status_code, issue.redelivery) == ("opened", "OK", 200, False)
    detail = api.get_webhook_delivery(**one, delivery_id=issue.id).parsed_data
    assert detail.guid == issue.guid
    assert detail.request.payload.model_dump()["action"] == "opened"
    assert detail.response.payload == "ok"
    again = api.redeliver_webhook_delivery(**one, delivery_id=issue.id)
    assert again.status_code == 202
    assert again.parsed_data.model_dump() == {}
    assert history(server, world, path, 4)[0]["guid"] == issue.guid


def test_the_user_the_organization_and_the_repository_are_parsed(github: GitHub[Any], world: World) -> None:
    rest: Any = github.rest
    repository = rest.repos.get(world.organization, world.repository).parsed_data
    assert repository.pushed_at == repository.created_at, "as on GitHub before the first push"
    user, organization = (rest.users.get_by_username(name).parsed_data for name in (world.owner, world.organization))
    assert (user.login, user.blog, organization.login) == (world.owner, "", world.organization)
    assert rest.meta.root().parsed_data.emails_url.endswith("/user/emails")
    assert [str(each) for each in rest.meta.get_all_versions().parsed_data] == ["2026-03-10", "2022-11-28"]


def test_the_user_and_errors_are_parsed(github: GitHub[Any], world: World) -> None:
    rest: Any = github.rest
    assert rest.rate_limit.get().parsed_data.resources.core.remaining > 0
    assert rest.users.get_authenticated().json()["login"] == world.owner
    with pytest.raises(RequestFailed) as caught:
        rest.orgs.create_webhook(world.organization, name="web", config={"url": ""})
    assert caught.value.response.status_code == 422
    error = caught.value.response.parsed_data
    assert error.message == "Validation Failed"
    assert error.errors[0].message == "url cannot be blank"
    with pytest.raises(RequestFailed) as caught:
        rest.repos.list_webhooks(world.organization, "absent")
    assert caught.value.response.parsed_data.message == "Not Found"


def test_members_and_collaborators_are_parsed(github: GitHub[Any], server: Server, world: World) -> None:
    server.run(lambda services: add_user(services, world, member="member"))
    rest: Any = github.rest
    members = rest.orgs.list_members(world.organization, role="admin").parsed_data
    assert [each.login for each in members] == [world.owner]
    assert rest.orgs.check_membership_for_user(world.organization, world.owner).status_code == 204
    [membership] = rest.orgs.list_memberships_for_authenticated_user(state="active").parsed_data
    assert (membership.role, membership.organization.login) == ("admin", world.organization)
    assert [each.login for each in rest.orgs.list_for_user(world.owner).parsed_data] == [world.organization]
    assert rest.repos.list_for_user(world.owner).parsed_data == []
    place = {"owner": world.organization, "repo": world.repository}
    pages = [each.role_name for each in rest.paginate(rest.repos.list_collaborators, **place, per_page=1)]
    assert pages == ["admin", "write"]
    assert rest.repos.check_collaborator(**place, username=world.owner).status_code == 204
    shown = rest.repos.get_collaborator_permission_level(**place, username=world.owner).parsed_data
    assert (shown.permission, shown.role_name, shown.user.permissions.admin) == ("admin", "admin", True)
