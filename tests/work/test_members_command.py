"""`workhook member` and `workhook collaborator` trigger the same events as the API."""

from __future__ import annotations

import pytest

from tests.harness import forge
from tests.work.studio import Studio

pytestmark = pytest.mark.one_database


def _run(studio: Studio, *command: str) -> None:
    ran = forge.run(command, studio.server.environment())
    assert ran.returncode == 0, ran.stderr


def test_adding_and_removing_an_organization_member_triggers_events(studio: Studio) -> None:
    name = studio.stranger.login
    where = ("--organization", studio.world.organization, "--user", name)
    _run(studio, "member", "add", *where)
    [added] = studio.happened()
    assert (added.name, added.action) == ("member", "added")
    assert added.record == studio.stranger.get("/me")["user"]  # apart from the address
    assert "repository" not in added.payload
    assert (added.payload["organization"]["login"], added.payload["sender"]) == (studio.world.organization, None)
    assert added.payload["organization"]["url"].startswith(studio.server.url)
    _run(studio, "member", "add", *where, "--role", "owner")  # a change of role is not an event
    assert studio.happened() == []
    _run(studio, "member", "remove", *where)
    _run(studio, "member", "remove", *where)
    assert [each.action for each in studio.happened()] == ["removed"]


def test_adding_and_removing_a_collaborator_triggers_events(studio: Studio) -> None:
    name = studio.stranger.login
    where = ("--repository", studio.world.full_name, "--user", name)
    _run(studio, "collaborator", "add", *where, "--role", "read")
    _run(studio, "collaborator", "add", *where, "--role", "write")
    [added] = studio.happened()
    assert (added.name, added.action, added.record["username"]) == ("member", "added", name)
    assert added.payload["repository"]["full_name"] == studio.world.full_name
    assert added.payload["sender"] is None
    assert [each["actor"] for each in studio.owner.get(f"{studio.project}/activity")["activity"]] == [None]
    _run(studio, "collaborator", "remove", *where)
    _run(studio, "collaborator", "remove", *where)
    assert [each.action for each in studio.happened()] == ["removed"]
