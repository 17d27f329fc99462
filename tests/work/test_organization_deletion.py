"""Deleting an organization: who may, what its webhook gets, and the command."""

from __future__ import annotations

from tests.cli.cli_kit import Cli
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until


def test_its_webhook_gets_the_event_and_the_login_is_free(server: Server, receiver: Receiver) -> None:
    world = server.world()
    with server.client(world.token) as client:
        config = {"url": receiver.url, "content_type": "json"}
        made = client.post(
            f"{world.org_path}/hooks", json={"name": "web", "events": ["organization"], "config": config}
        )
        assert made.status_code == 201, made.text
        organization = client.get(world.org_path).json()
        assert client.delete(world.org_path).status_code == 202
        assert client.delete(world.org_path).status_code == 404
    [got] = until(lambda: receiver.events("organization"))
    payload = got.payload()
    assert set(payload) == {"action", "organization", "sender"}
    assert (payload["action"], payload["organization"]["id"]) == ("deleted", organization["id"])
    assert payload["organization"]["login"] == world.organization
    assert payload["sender"]["login"] == world.owner


def test_the_command_deletes_beside_a_running_server(server: Server) -> None:
    world, other = server.world(), server.world()
    cli = Cli(server.data, {k: v for k, v in server.settings.items() if k == "database_url"})
    assert "Give --yes" in cli.refused("organization", "delete", world.organization, status=2)
    done = cli.json("organization", "delete", world.organization, "--yes")
    assert done == {"organization": world.organization, "issued_invoices": 0, "purged": True}
    with server.client(world.token) as client:
        assert client.get(world.org_path).status_code == 404
        assert client.get("/user").status_code == 200
    with server.client(other.token) as client:
        assert client.get(other.org_path).status_code == 200
    setup = ("setup", "--organization", world.organization, "--owner", world.owner)
    assert cli.json(*setup, "--email", "a@example.com")["organization"] == world.organization
