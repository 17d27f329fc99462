"""The unmodified PyGithub against the server, at the root and under the prefix of enterprise clients."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from github import Auth, BadCredentialsException, Github, GithubException, UnknownObjectException
from github.Hook import Hook
from github.Organization import Organization
from github.Repository import Repository

from tests.api.wire import unknown_event
from tests.clients.support import SECRET, arrived, history, pinged, publish, signed_with, unsigned
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.world import World, add_user

pytestmark = pytest.mark.one_database

KINDS = ("repository", "organization")


def connect(server: Server, token: str | None, prefix: str = "", **more: Any) -> Github:
    """Return a client configured as PyGithub documents it for self-hosted servers, without pauses between requests."""
    auth = Auth.Token(token) if token else None
    return Github(
        base_url=server.url + prefix,
        auth=auth,
        retry=None,
        seconds_between_requests=0,
        seconds_between_writes=0,
        timeout=60,
        **more,
    )


@pytest.fixture(params=["", "/api/v3"], ids=["root", "prefix"])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def github(server: Server, world: World, prefix: str) -> Iterator[Github]:
    with connect(server, world.token, prefix) as github:
        yield github


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, github: Github, world: World) -> Repository | Organization:
    """Return an object with webhooks. Both kinds have the same methods for them."""
    if request.param == "repository":
        return github.get_repo(world.full_name)
    return github.get_organization(world.organization)


def noun(place: Repository | Organization) -> str:
    return "repository" if isinstance(place, Repository) else "organization"


def last_result(hook: Hook) -> tuple[int | None, str, str | None]:
    """Return the result of the webhook's last delivery."""
    return hook.last_response.code, hook.last_response.status, hook.last_response.message


def path_of(place: Repository | Organization, world: World) -> str:
    return world.repo_path if isinstance(place, Repository) else world.org_path


def test_the_user_the_organization_and_the_repository_are_described(
    github: Github, world: World, server: Server, prefix: str
) -> None:
    base = server.url + prefix
    user = github.get_user()
    assert (user.login, user.name, user.email, user.type) == (world.owner, "Octo", "octo@example.com", "User")
    assert isinstance(user.id, int)
    assert abs(user.created_at - datetime.now(UTC)) < timedelta(minutes=10)
    organization = github.get_organization(world.organization)
    assert (organization.login, organization.name, organization.type) == (world.organization, "Acme", "Organization")
    assert organization.hooks_url == f"{base}{world.org_path}/hooks"
    repository = github.get_repo(world.full_name)
    assert (repository.full_name, repository.name, repository.owner.login) == (
        world.full_name,
        world.repository,
        world.organization,
    )
    assert (repository.private, repository.archived, repository.fork) == (False, False, False)
    assert repository.permissions.admin is True
    assert repository.hooks_url == f"{base}{world.repo_path}/hooks"
    assert github.get_repo(world.full_name.upper()).full_name == world.full_name, "names are case-insensitive"
    limits = github.get_rate_limit()
    assert limits.resources.core.remaining > 0
    assert limits.resources.core.reset > datetime.now(UTC)
    assert github.oauth_scopes is not None
    assert "admin:org_hook" in github.oauth_scopes


def test_members_and_collaborators_are_listed(github: Github, server: Server, world: World) -> None:
    tokens = [
        server.run(lambda services: add_user(services, world, member="member")),
        server.run(lambda services: add_user(services, world, role="read")),
    ]
    member, outsider = (_login(server, token) for token in tokens)
    organization, repository = github.get_organization(world.organization), github.get_repo(world.full_name)
    assert [each.login for each in organization.get_members()] == [world.owner, member]
    assert [each.login for each in organization.get_members(role="admin")] == [world.owner]
    assert organization.has_in_members(github.get_user(member))
    owner: Any = github.get_user()
    [membership] = owner.get_organization_memberships()
    assert (membership.role, membership.state, membership.organization.login) == ("admin", "active", world.organization)
    assert [each.login for each in owner.get_orgs()] == [world.organization]
    somebody: Any = github.get_user(member)
    assert [each.login for each in somebody.get_orgs()] == [world.organization]
    assert list(somebody.get_repos()) == []
    found = {each.login: (each.role_name, each.permissions.push) for each in repository.get_collaborators()}
    assert found == {world.owner: ("admin", True), member: ("write", True), outsider: ("read", False)}
    assert [each.login for each in repository.get_collaborators(affiliation="outside")] == [outsider]
    assert repository.has_in_collaborators(member)
    assert not repository.has_in_collaborators("no-such")
    assert repository.get_collaborator_permission(outsider) == "read"
    assert repository.get_collaborator_role_name(somebody) == "write"
    with connect(server, tokens[0]) as other, pytest.raises(GithubException) as caught:
        other.get_repo(f"{world.organization}/absent").get_collaborators()
    assert caught.value.status == 404


def test_invitations_can_be_sent_accepted_and_ended(github: Github, server: Server, world: World, prefix: str) -> None:
    """A user of another organization is invited, accepts and leaves; a member becomes an owner and is removed."""
    second = server.world()
    token = server.run(lambda services: add_user(services, second, member="member"))
    member_token = server.run(lambda services: add_user(services, world, member="member"))
    login, member = _login(server, token), _login(server, member_token)
    repository, organization = github.get_repo(world.full_name), github.get_organization(world.organization)
    made = repository.add_to_collaborators(login, permission="push")
    assert made is not None
    assert (made.permissions, made.inviter.login, made.repository.full_name) == ("write", world.owner, world.full_name)
    assert [each.id for each in repository.get_pending_invitations()] == [made.id]
    with connect(server, token, prefix) as theirs:
        user = theirs.get_user()
        [waiting] = user.get_invitations()
        user.accept_invitation(waiting)
        assert theirs.get_repo(world.full_name).full_name == world.full_name
        theirs.get_repo(world.full_name).remove_from_collaborators(login)
        with pytest.raises(UnknownObjectException):
            theirs.get_repo(world.full_name)
    again = repository.add_to_collaborators(login, permission="admin")
    assert again is not None
    repository.remove_invitation(again.id)
    assert list(repository.get_pending_invitations()) == []
    organization.invite_user(email=f"{login}@example.com", role="admin")
    assert [each.email for each in organization.invitations()] == [f"{login}@example.com"]
    colleague = github.get_user(member)
    organization.add_to_members(colleague, role="admin")
    assert [each.login for each in organization.get_members(role="admin")] == [world.owner, member]
    organization.remove_from_membership(colleague)
    assert [each.login for each in organization.get_members()] == [world.owner]


def _login(server: Server, token: str) -> str:
    with connect(server, token) as github:
        return github.get_user().login


def test_a_webhook_with_json_and_a_secret_is_created(
    place: Repository | Organization, github: Github, world: World, server: Server, receiver: Receiver, prefix: str
) -> None:
    config = {"url": receiver.url, "content_type": "json", "secret": SECRET}
    hook = place.create_hook("web", config, events=["push", "issues"], active=True)
    base = f"{server.url}{prefix}{path_of(place, world)}/hooks/{hook.id}"
    assert (hook.name, hook.active, hook.events) == ("web", True, ["push", "issues"])
    assert hook.type == noun(place).capitalize()
    assert hook.config == {
        "url": receiver.url,
        "content_type": "json",
        "insecure_ssl": "0",
        "secret": "********",
    }
    assert (hook.url, hook.ping_url, hook.deliveries_url) == (base, f"{base}/pings", f"{base}/deliveries")
    assert hook.created_at == hook.updated_at
    ping = pinged(receiver, hook.id)
    assert signed_with(ping, SECRET)
    assert ping.headers["content-type"] == "application/json"
    payload = ping.payload()
    assert list(payload)[:3] == ["zen", "hook_id", "hook"]
    assert payload["hook"]["config"]["secret"] == "********", "no payload carries a secret"
    assert payload["organization"]["login"] == world.organization
    assert payload["sender"]["login"] == world.owner
    assert ("repository" in payload) == isinstance(place, Repository)
    if isinstance(place, Repository):
        assert hook.test_url == f"{base}/test"
        assert last_result(hook) == (None, "unused", None)
        history(server, world, f"{world.repo_path}/hooks/{hook.id}", 1)
        assert last_result(place.get_hook(hook.id)) == (200, "active", "OK")


def test_the_defaults_are_form_and_push(place: Repository | Organization, receiver: Receiver) -> None:
    hook = place.create_hook("web", {"url": receiver.url})
    assert (hook.events, hook.active) == (["push"], True)
    assert hook.config == {"url": receiver.url, "content_type": "form", "insecure_ssl": "0"}
    ping = pinged(receiver, hook.id)
    assert ping.headers["content-type"] == "application/x-www-form-urlencoded"
    assert ping.payload()["hook_id"] == hook.id
    assert unsigned(ping)


def test_webhooks_for_every_event_and_inactive_webhooks(
    place: Repository | Organization, server: Server, world: World, receiver: Receiver
) -> None:
    everything = place.create_hook("web", {"url": receiver.url, "content_type": "json"}, events=["*"])
    silent = place.create_hook("web", {"url": f"{receiver.url}/silent"}, events=["*"], active=False)
    assert everything.events == ["*"]
    assert silent.active is False
    with server.client(world.token) as client:
        assert publish(client, world, "watch", {"action": "started"}) == 1, "the inactive hook does not count"
    received = receiver.wait_for(2)
    assert sorted(each.event for each in received) == ["ping", "watch"]
    assert {each.path for each in received} == {"/hook"}


def test_the_list_is_paginated(server: Server, world: World, prefix: str) -> None:
    with connect(server, world.token, prefix, per_page=2) as github:
        for place in (github.get_repo(world.full_name), github.get_organization(world.organization)):
            assert list(place.get_hooks()) == []
            assert place.get_hooks().totalCount == 0
            made = [
                place.create_hook("web", {"url": f"http://127.0.0.1:9/{number}"}, active=False).id
                for number in range(5)
            ]
            hooks = place.get_hooks()
            assert hooks.totalCount == 5
            assert [hook.id for hook in hooks] == made
            assert [hook.id for hook in place.get_hooks().reversed] == made[::-1]
            assert [hook.id for hook in place.get_hooks().get_page(2)] == made[4:]
            assert place.get_hooks()[3].config["url"] == "http://127.0.0.1:9/3"


def test_a_webhook_can_be_edited(
    place: Repository | Organization, server: Server, world: World, receiver: Receiver
) -> None:
    config = {"url": receiver.url, "content_type": "json", "secret": SECRET}
    hook = place.create_hook("web", config, events=["push"])
    # A script that reads the webhook and sends its configuration back must not break the secret.
    hook.edit("web", hook.config, events=["issues", "push"])
    assert hook.events == ["issues", "push"]
    assert hook.config["secret"] == "********"
    with server.client(world.token) as client:
        publish(client, world, "issues", {"action": "opened"})
    assert signed_with(arrived(receiver, "issues"), SECRET)
    # A new configuration replaces the old one: if it has no secret, the secret is removed.
    hook.edit("web", {"url": f"{receiver.url}/moved"}, active=False)
    fetched = place.get_hook(hook.id)
    assert fetched.config == {"url": f"{receiver.url}/moved", "content_type": "form", "insecure_ssl": "0"}
    assert (fetched.active, fetched.events) == (False, ["issues", "push"])
    assert fetched.updated_at >= fetched.created_at
    # `name` is ignored; an empty configuration changes nothing.
    if isinstance(place, Repository):
        hook.edit("bob", {}, active=True)
        assert (hook.name, hook.config["url"], hook.active) == ("web", f"{receiver.url}/moved", True)


def test_an_edit_adds_and_removes_events(github: Github, world: World) -> None:
    repository = github.get_repo(world.full_name)
    hook = repository.create_hook("web", {"url": "http://127.0.0.1:9/"}, events=["push", "issues"], active=False)
    hook.edit("web", {}, add_events=["fork", "push"], remove_events=["issues"])
    assert hook.events == ["push", "fork"]
    hook.edit("web", {}, events=["star"], add_events=["fork"], remove_events=["push"])
    assert hook.events == ["star"], "a whole list wins over changes to it"
    hook.edit("web", {}, remove_events=["star"])
    assert hook.events == []
    hook.edit("web", {}, events=["*"])
    assert repository.get_hook(hook.id).events == ["*"]


def test_pings_and_tests_are_sent(
    place: Repository | Organization, server: Server, world: World, receiver: Receiver
) -> None:
    hook = place.create_hook("web", {"url": receiver.url, "content_type": "json", "secret": SECRET})
    pinged(receiver, hook.id)
    hook.ping()
    pings = receiver.wait_for(2)
    assert [each.event for each in pings] == ["ping", "ping"]
    assert pings[0].guid != pings[1].guid
    if isinstance(place, Organization):
        return
    hook.test()  # there was no push yet, so nothing is sent
    with server.client(world.token) as client:
        publish(client, world, "push", {"ref": "refs/heads/main", "commits": []})
    pushed = receiver.wait_for(3)[2]
    hook.test()
    tested = receiver.wait_for(4)[3]
    assert (pushed.event, tested.event) == ("push", "push")
    assert tested.payload() == pushed.payload()
    assert tested.guid != pushed.guid
    assert signed_with(tested, SECRET)


def test_a_webhook_can_be_deleted(place: Repository | Organization) -> None:
    hook = place.create_hook("web", {"url": "http://127.0.0.1:9/"}, active=False)
    hook.delete()
    assert list(place.get_hooks()) == []
    with pytest.raises(UnknownObjectException) as caught:
        _ = place.get_hook(hook.id).config
    assert caught.value.status == 404
    assert caught.value.data["message"] == "Not Found"
    assert caught.value.data["status"] == "404"
    with pytest.raises(UnknownObjectException):
        hook.delete()


def test_deliveries_can_be_read(
    place: Repository | Organization, server: Server, world: World, receiver: Receiver
) -> None:
    config = {"url": receiver.url, "content_type": "json", "secret": SECRET}
    hook = place.create_hook("web", config, events=["issues"])
    with server.client(world.token) as client:
        publish(client, world, "issues", {"action": "opened", "issue": {"title": "Zoë's ticket"}})
    issue = arrived(receiver, "issues")
    history(server, world, f"{path_of(place, world)}/hooks/{hook.id}", 2)
    items = list(place.get_hook_deliveries(hook.id))
    assert sorted((item.event, item.action) for item in items) == [("issues", "opened"), ("ping", None)]
    item = next(item for item in items if item.event == "issues")
    assert (item.guid, item.status, item.status_code, item.redelivery) == (issue.guid, "OK", 200, False)
    assert item.delivered_at is not None
    assert abs(item.delivered_at - datetime.now(UTC)) < timedelta(minutes=10)
    assert item.duration is not None
    assert 0 <= item.duration < 60  # seconds; the server waits at most 40
    assert (item.url, item.installation_id) == ("", None)
    assert item.throttled_at is None or item.throttled_at <= item.delivered_at
    detail = place.get_hook_delivery(hook.id, _known(item.id))
    assert (detail.id, detail.guid, detail.url) == (item.id, item.guid, receiver.url)
    assert detail.request is not None
    assert detail.response is not None
    sent = {name.lower(): value for name, value in (detail.request.headers or {}).items()}
    assert sent["x-hub-signature-256"] == issue.headers["x-hub-signature-256"]
    assert sent["x-service-event"] == "issues"
    assert detail.request.payload == issue.payload()
    assert issue.payload()["issue"] == {"title": "Zoë's ticket"}
    assert detail.response.payload == "ok"
    assert detail.response.headers is not None
    assert detail.response.headers["Content-Length"] == "2"
    with pytest.raises(UnknownObjectException):
        place.get_hook_delivery(hook.id, 2**52)


def test_deliveries_are_paged_by_cursor(server: Server, world: World, receiver: Receiver, prefix: str) -> None:
    with connect(server, world.token, prefix, per_page=3) as github:
        for place in (github.get_repo(world.full_name), github.get_organization(world.organization)):
            hook = place.create_hook("web", {"url": receiver.url})
            for _ in range(7):
                hook.ping()
            expected = history(server, world, f"{path_of(place, world)}/hooks/{hook.id}", 8)
            ids = [item.id for item in place.get_hook_deliveries(hook.id)]
            assert ids == [item["id"] for item in expected]
            assert len(ids) == 8


def test_a_failed_delivery_is_reported(github: Github, server: Server, world: World, receiver: Receiver) -> None:
    repository = github.get_repo(world.full_name)
    hook = repository.create_hook("web", {"url": "http://127.0.0.1:1/", "retries": "0"})
    path = f"{world.repo_path}/hooks/{hook.id}"
    assert history(server, world, path, 1)[0]["status_code"] == 502
    item = repository.get_hook_deliveries(hook.id)[0]
    assert (item.status, item.status_code) == ("failed to connect to host", 502)
    assert last_result(repository.get_hook(hook.id)) == (502, "failure", "failed to connect to host")


def refused(place: Repository | Organization, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the error response of a failing create."""
    with pytest.raises(GithubException) as caught:
        place.create_hook(*args, **kwargs)
    assert caught.value.status == 422
    data: dict[str, Any] = caught.value.data
    assert data.pop("documentation_url").startswith("http://127.0.0.1:")
    return data


def _faults(*faults: dict[str, Any]) -> dict[str, Any]:
    return {
        "message": "Validation Failed",
        "errors": [{"resource": "Hook", "code": "custom", **each} for each in faults],
        "status": "422",
    }


def _known(value: int | None) -> int:
    assert value is not None
    return value


def test_errors_of_creation_are_reported(place: Repository | Organization) -> None:
    config = {"url": "http://127.0.0.1:9/hook", "content_type": "json"}
    place.create_hook("web", config, events=["push", "issues"], active=False)
    duplicate = _faults({"message": f"Hook already exists on this {noun(place)}"})
    assert refused(place, "web", config, events=["issues", "push"]) == duplicate
    place.create_hook("web", config, events=["fork"], active=False)  # the same URL with other events
    assert refused(place, "web", config, events=["no_such"]) == _faults({"message": unknown_event("no_such")})
    assert refused(place, "web", {}) == _faults({"field": "url", "message": "url cannot be blank"})
    assert refused(place, "web", {"url": ""}) == _faults({"field": "url", "message": "url cannot be blank"})
    assert refused(place, "bob", config, events=["star"]) == {
        **_faults(),
        "errors": [{"resource": "Hook", "field": "name", "code": "invalid", "value": "bob"}],
    }
    unknown = refused(place, "web", {**config, "content-type": "json"}, events=["star"])
    assert unknown == _faults({"message": "Invalid config attribute: content-type"})


def test_errors_of_edits_are_reported(place: Repository | Organization) -> None:
    first = place.create_hook("web", {"url": "http://127.0.0.1:9/1"}, active=False)
    place.create_hook("web", {"url": "http://127.0.0.1:9/2"}, active=False)
    with pytest.raises(GithubException) as caught:
        first.edit("web", {"url": "http://127.0.0.1:9/2"})
    assert caught.value.status == 422
    assert caught.value.data["errors"] == _faults({"message": f"Hook already exists on this {noun(place)}"})["errors"]
    with pytest.raises(GithubException) as caught:
        first.edit("web", {"url": ""})
    assert caught.value.data["errors"] == _faults({"field": "url", "message": "url cannot be blank"})["errors"]
    assert place.get_hook(first.id).config["url"] == "http://127.0.0.1:9/1"


def test_webhooks_are_found_only_under_their_owner(github: Github, world: World) -> None:
    repository, organization = github.get_repo(world.full_name), github.get_organization(world.organization)
    ours = repository.create_hook("web", {"url": "http://127.0.0.1:9/"}, active=False)
    theirs = organization.create_hook("web", {"url": "http://127.0.0.1:9/"}, active=False)

    def config_of(hook: Hook) -> dict[str, Any]:
        return hook.config

    for place, hook_id in ((repository, theirs.id), (organization, ours.id)):
        with pytest.raises(UnknownObjectException):
            config_of(place.get_hook(hook_id))
        with pytest.raises(UnknownObjectException):
            list(place.get_hook_deliveries(hook_id))


@pytest.mark.parametrize("token", ["whp_" + "0" * 36, "gone"])
def test_bad_credentials_are_refused(server: Server, world: World, token: str) -> None:
    with connect(server, token) as github, pytest.raises(BadCredentialsException) as caught:
        github.get_repo(world.full_name)
    assert caught.value.status == 401
    assert caught.value.data["message"] == "Bad credentials"


def test_a_missing_token_is_refused(server: Server, world: World) -> None:
    with connect(server, None) as github, pytest.raises(GithubException) as caught:
        _ = github.get_user().login
    assert caught.value.status == 401
    assert caught.value.data["message"] == "Requires authentication"
