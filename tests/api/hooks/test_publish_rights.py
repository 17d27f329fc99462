"""The publisher's permissions are checked in the statement that commits the event, even if they were cached just
before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.databases import Databases
from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, add_user, make_world
from workhook.events.payloads import from_stored
from workhook.events.tables import events
from workhook.hooks import fan_out
from workhook.hooks.tables import dispatches
from workhook.identity.queries import Premise, premise_params
from workhook.identity.tables import audit_log, collaborators, projects
from workhook.storage import dialects
from workhook.storage.statements import Compiler

PUSH = {"event": "push", "payload": {"ref": "refs/heads/main"}}
OWN = {"event": "task", "payload": {}}  # only admins publish Workhook's own events
NAMED = {**PUSH, "id": "build-17"}  # has a transaction of its own


@pytest.fixture
def writer(server: Server, world: World) -> Iterator[httpx.Client]:
    """Yield a client of a user whose only access is write access to the repository."""
    with server.client(server.run(partial(add_user, world=world, role="write"))) as client:
        yield client


def _is_repository(world: World, column: sa.Column[Any]) -> sa.ColumnElement[bool]:
    here = projects.alias("here")
    return column == sa.select(here.c.repository_id).where(here.c.id == world.project_id).scalar_subquery()


def _set_role(server: Server, world: World, role: str) -> None:
    server.execute(
        sa.update(collaborators).where(_is_repository(world, collaborators.c.repository_id)).values(role=role)
    )


def _remove_collaborators(server: Server, world: World) -> None:
    server.execute(sa.delete(collaborators).where(_is_repository(world, collaborators.c.repository_id)))


def _events(server: Server, world: World, name: str = "push") -> list[dict[str, Any]]:
    here = (_is_repository(world, events.c.repository_id), events.c.name == name)
    return server.fetch(sa.select(events.c.id, events.c.payload).where(*here).order_by(events.c.id))


@pytest.mark.parametrize("body", [PUSH, NAMED], ids=["", "with an id"])
def test_a_removed_collaborator_cannot_publish(
    server: Server, world: World, writer: httpx.Client, receiver: Receiver, body: dict[str, Any]
) -> None:
    path = f"{world.repo_path}/events"
    with server.client(world.token) as owner:
        config = {"url": receiver.url, "content_type": "json"}
        assert owner.post(f"{world.repo_path}/hooks", json={"config": config, "events": ["push"]}).status_code == 201
    assert writer.post(path, json=body).status_code == 202
    done = sa.select(audit_log.c.id).where(
        _is_repository(world, audit_log.c.repository_id), audit_log.c.status.is_(None)
    )
    entries = server.fetch(done)
    _remove_collaborators(server, world)
    answer = writer.post(path, json=body)
    assert (answer.status_code, answer.json()["message"]) == (404, "Not Found")
    [event] = _events(server, world)
    assert len(server.fetch(sa.select(dispatches.c.id).where(dispatches.c.event_id == event["id"]))) == 1
    assert server.fetch(done) == entries


def test_a_changed_role_takes_effect_at_once(server: Server, world: World, writer: httpx.Client) -> None:
    """A refusal never relies on a cached role."""
    path = f"{world.repo_path}/events"
    assert writer.post(path, json=PUSH).status_code == 202
    assert writer.post(path, json=OWN).status_code == 403
    _set_role(server, world, "admin")
    assert writer.post(path, json=OWN).status_code == 202
    _set_role(server, world, "write")
    assert writer.post(path, json=OWN).status_code == 403
    _set_role(server, world, "read")
    assert writer.post(path, json=PUSH).status_code == 403
    _set_role(server, world, "write")
    assert writer.post(path, json=PUSH).status_code == 202
    assert (len(_events(server, world)), len(_events(server, world, "task"))) == (2, 1)


def test_a_payload_shows_the_current_repository(server: Server, world: World, writer: httpx.Client) -> None:
    assert writer.post(f"{world.repo_path}/events", json=PUSH).status_code == 202
    here = projects.c.id == world.project_id
    server.execute(sa.update(projects).where(here).values(title="Shop", private=True))
    assert writer.post(f"{world.repo_path}/events", json=PUSH).status_code == 202
    payload = from_stored(_events(server, world)[1]["payload"]) or b""
    assert b'"description":"Shop"' in payload
    assert b'"private":true' in payload


def test_a_name_refers_to_the_repository_that_has_it_now(server: Server, world: World) -> None:
    """The previous holder of the name may still exist under another name."""
    other: World = server.run(make_world)
    with server.client(world.token) as owner:
        path = f"{world.repo_path}/events"
        assert owner.post(path, json=PUSH).status_code == 202
        renamed = {"name": f"{world.repository}-1", "name_key": f"{world.repository}-1".lower()}
        server.execute(sa.update(projects).where(projects.c.id == world.project_id).values(renamed))
        assert owner.post(path, json=PUSH).status_code == 404
        given: dict[str, Any] = {"name": world.repository, "name_key": world.repository.lower()}
        here = projects.alias("here")
        given["account_id"] = sa.select(here.c.account_id).where(here.c.id == world.project_id).scalar_subquery()
        server.execute(sa.update(projects).where(projects.c.id == other.project_id).values(given))
        assert owner.post(path, json=PUSH).status_code == 202
    assert len(_events(server, world)) == 1
    assert len(_events(server, other)) == 1


def test_a_refused_event_does_not_affect_others_in_the_same_commit(
    server: Server, world: World, writer: httpx.Client
) -> None:
    """Events that are published concurrently share a commit."""
    path, count = f"{world.repo_path}/events", 24
    with server.client(world.token) as owner, ThreadPoolExecutor(8) as pool:
        for client in (owner, writer):
            assert client.post(path, json=PUSH).status_code == 202
        _remove_collaborators(server, world)
        asked = [(owner, writer)[number % 2] for number in range(count)]
        codes = list(pool.map(lambda client: client.post(path, json=PUSH).status_code, asked))
    assert codes == [202, 404] * (count // 2)
    assert len(_events(server, world)) == 2 + count // 2


def test_a_refusal_under_a_former_name_is_not_recorded(server: Server, world: World) -> None:
    """A stranger gets the same response under the former and the new name, but only the latter names the repository."""
    entries = sa.select(audit_log.c.id).where(
        _is_repository(world, audit_log.c.repository_id), audit_log.c.status == 404
    )
    server.execute(sa.update(projects).where(projects.c.id == world.project_id).values(private=True))
    stranger: str = server.run(partial(add_user, world=world))
    with server.client(stranger) as client:
        path = f"{world.repo_path}/events"
        assert client.post(path, json=PUSH).status_code == 404
        noted = until(lambda: server.fetch(entries))
        renamed = {"name": f"{world.repository}-1", "name_key": f"{world.repository}-1".lower()}
        server.execute(sa.update(projects).where(projects.c.id == world.project_id).values(renamed))
        assert client.post(path, json=PUSH).status_code == 404
        assert client.post(f"{world.repo_path}-1/events", json=PUSH).status_code == 404
        until(lambda: len(server.fetch(entries)) == len(noted) + 1)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_permission_check_does_not_scan_all_projects(backend: Databases, tmp_path: Path) -> None:
    """On SQLite, a nested join would materialize all projects for each commit.

    PostgreSQL's plans are tested in `tests/work/test_plans_once.py`.
    """
    backend.new(tmp_path)
    statement = Compiler(dialects.SQLITE, dialects.sqlite_value)(fan_out._sent_on_premises)
    params = {"count": 1, "due_until": 1, **premise_params([Premise(1, 1, "[]")])}
    with closing(sqlite3.connect(tmp_path / "workhook.db")) as connection:
        plan = connection.execute("EXPLAIN QUERY PLAN " + statement.sql, statement.arguments(params)).fetchall()
    steps = [step[-1] for step in plan]
    assert any("SEARCH projects USING" in step for step in steps)
    assert not [step for step in steps if "SCAN projects" in step or "MATERIALIZE" in step]
