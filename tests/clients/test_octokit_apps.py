"""The unmodified Octokit as an app.

`@octokit/auth-app` signs, obtains and renews tokens, and corrects its clock. `@octokit/app` receives events and acts as
the installation that a payload names.
"""

from __future__ import annotations

import pytest

from tests.clients import octokit
from tests.harness.apps import install, make_app, new_repository
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.world import World

pytestmark = pytest.mark.one_database


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_an_app_authenticates_and_renews_its_tokens(
    server: Server, world: World, receiver: Receiver, prefix: str
) -> None:
    new_repository(server, world, "shop")
    other = server.world()
    app = make_app(server, world, public=True)
    install(server, app, other)
    octokit.run(
        "apps.mjs",
        base_url=server.url + prefix,
        app_id=str(app.id),
        client_id=app.client_id,
        private_key=app.private_key,
        installation_id=str(app.installation_id),
        owner=world.organization,
        repo=world.repository,
        other_owner=other.organization,
        receiver=receiver.url,
    )
    received = receiver.wait_for(lambda requests: len(requests) == 4)
    assert octokit.verified(received, "s3cret") == [True] * 4
    assert {each.payload()["sender"]["login"] for each in received} == {app.bot}


@pytest.mark.parametrize("prefix", ["", "/api/v3"], ids=["root", "prefix"])
def test_an_app_reacts_to_events_as_its_installation(server: Server, world: World, prefix: str) -> None:
    """This requires that payloads for the app's webhook name its installation."""
    app = make_app(server, world)
    octokit.run(
        "app.mjs",
        base_url=server.url + prefix,
        app_id=str(app.id),
        client_id=app.client_id,
        client_secret=app.secret,
        private_key=app.private_key,
        installation_id=str(app.installation_id),
        owner=world.organization,
        repo=world.repository,
        token=world.token,
    )
