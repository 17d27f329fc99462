"""Events contain no members-only details of an organization, because outside collaborators receive them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.work.rights_kit import BASE, change_by_hand
from tests.work.studio import Caller, Studio
from workhook.http.calls import Services
from workhook.identity.context import Write
from workhook.identity.tables import accounts
from workhook.work.people import membership

NAME, EMAIL = "Zebra and Sons", "zebra-office@example.com"
_describe = sa.update(accounts).where(accounts.c.login == sa.bindparam("of")).values(name=NAME, email=EMAIL)
_seen_by_members = ("name", "email", "created_at", "updated_at")


@pytest.fixture
def studios(server: Server) -> Iterator[tuple[Studio, Studio]]:
    """Provide A, and B with a name and an address."""
    found = Studio(server, server.world()), Studio(server, server.world())

    async def describe(services: Services) -> None:
        async with services.database.transaction() as tx:
            await tx.execute(_describe, {"of": found[1].world.organization})

    server.run(describe)
    yield found
    for each in found:
        each.close()


@pytest.fixture
def outsider(studios: tuple[Studio, Studio]) -> Caller:
    """Provide an owner of A who is an admin of B's project but not a member of B."""
    here, there = studios
    person = here.add(member="owner")
    change_by_hand(
        there,
        person,
        lambda tx, _, place, who: membership.set_collaborator(Write(tx, None, BASE), place, who, "admin"),
    )
    return person


def _sent(outsider: Caller, hook: str) -> list[dict[str, Any]]:
    """Return the payloads sent to the webhook, as its owner sees them."""
    listed = outsider.http.get(f"{hook}/deliveries?per_page=100").json()
    payloads = [outsider.http.get(f"{hook}/deliveries/{each['id']}").json()["request"]["payload"] for each in listed]
    return [each for each in payloads if "organization" in each]


def test_events_tell_an_outsider_no_more_about_an_organization_than_the_api(
    studios: tuple[Studio, Studio], outsider: Caller, receiver: Receiver
) -> None:
    _, there = studios
    world = there.world
    for path in (world.org_path, f"/users/{world.organization}"):
        assert outsider.http.get(path).status_code == 404
    whole = there.owner.http.get(world.org_path).json()
    assert [whole[name] for name in ("name", "email")] == [NAME, EMAIL]
    shown = outsider.http.get(world.repo_path).json()["owner"]

    config = {"url": receiver.url, "content_type": "json"}
    made = outsider.http.post(f"{world.repo_path}/hooks", json={"name": "web", "events": ["*"], "config": config})
    assert made.status_code == 201, made.text
    hook = f"{world.repo_path}/hooks/{made.json()['id']}"
    there.owner.patch(there.project, json={"title": "Later"})  # an event of the work API
    push = {"event": "push", "payload": {"ref": "refs/heads/main"}}
    assert outsider.http.post(f"{world.repo_path}/events", json=push).is_success
    until(lambda: len(_sent(outsider, hook)) >= 3)  # including the ping
    sent = _sent(outsider, hook)
    told = [each["payload"] for each in outsider.get(f"{there.project}/activity")["activity"]]
    found = [each["organization"] for each in (*sent, *told) if "organization" in each]
    assert len(found) > len(sent) >= 3
    for organization in found:
        assert not set(_seen_by_members) & set(organization)
        for name, value in organization.items():
            is_link = name.endswith("_url") and world.organization in str(value)
            assert is_link or value is None or str(shown[name]).endswith(str(value).removeprefix(BASE)), name
    assert not any(secret in str(each) for each in (*sent, *told) for secret in (NAME, EMAIL))


def test_an_invited_user_sees_the_name_but_not_the_address(studios: tuple[Studio, Studio]) -> None:
    here, there = studios
    person = here.add()
    login = person.login
    path = f"{there.world.org_path}/memberships/{login}"
    assert there.owner.http.put(path, json={"role": "member"}).json()["state"] == "pending"
    own = f"/user/memberships/orgs/{there.world.organization}"
    [waiting] = person.http.get("/user/memberships/orgs?state=pending").json()
    assert (waiting["state"], waiting["organization"]["name"]) == ("pending", NAME)
    assert waiting["organization"]["email"] is None
    accepted = person.http.patch(own, json={"state": "active"}).json()
    assert (accepted["state"], accepted["organization"]["email"]) == ("active", EMAIL)
