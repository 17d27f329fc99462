"""Long payloads are stored compressed and read back unchanged."""

from __future__ import annotations

import random
import re
from functools import partial

import pytest
import sqlalchemy as sa

from tests.web.webhooks import Office, listening, office
from workhook.core import json
from workhook.events.payloads import COMPRESSED_FROM, from_stored, to_stored
from workhook.events.tables import events
from workhook.http.calls import Services
from workhook.identity.tables import projects
from workhook.storage.metadata import bigint_param

__all__ = ["office"]

_NEWEST = (
    sa.select(events.c.payload, events.c.size)
    .join_from(events, projects, projects.c.repository_id == events.c.repository_id)
    .where(projects.c.id == sa.bindparam("project_id"), events.c.listed)
    .order_by(events.c.id.desc())
    .limit(1)
)
_REPLACE = (
    sa.update(events)
    .where(events.c.id == bigint_param("event_id"))
    .values(payload=sa.bindparam("stored", type_=sa.LargeBinary()))
)
_DAMAGED = re.compile(r"^workhook_payloads_damaged_total (\S+)$", re.MULTILINE)


@pytest.mark.parametrize(
    ("event", "length", "smaller"), [("push", 200_000, True), ("push", 1_000, True), ("task", 50_000, False)]
)
def test_every_reader_gets_the_published_payload(office: Office, event: str, length: int, smaller: bool) -> None:
    hook, owner = listening(office), office.visitor()
    text = ("\U0001f600 needle\n" + "hay " * length)[:length]
    [delivery] = [each for each in office.publish(hook, {"text": text}, event=event) if each["event"] == event]
    first = office.receiver.wait_for(2)[1]
    sent = json.decode(first.body)
    assert sent["text"] == text
    [stored] = office.server.fetch(_NEWEST, {"project_id": office.world.project_id})
    assert stored["size"] == len(first.body)
    assert (len(stored["payload"]) < stored["size"] / 2) is smaller
    assert from_stored(stored["payload"]) == first.body

    deliveries = f"{office.world.repo_path}/hooks/{hook}/deliveries/{delivery['id']}"
    assert office.api("GET", deliveries)["request"]["payload"] == sent
    [happened] = office.api("GET", f"/api/v1/projects/{office.world.project_id}/activity?per_page=1")["activity"]
    assert happened["payload"] == sent
    page = owner.get(f"/{office.world.full_name}/activity/{happened['id']}").text
    assert "needle" in page
    looked_in = owner.get(f"/{hook}/deliveries?q=needle").text
    assert (f'id="delivery-{delivery["id"]}"' in looked_in) is (length < 65_536), "longer ones are not searched"

    office.api("POST", f"{deliveries}/attempts")
    assert office.receiver.wait_for(3)[2].body == first.body
    if event == "push":
        office.api("POST", f"{office.world.repo_path}/hooks/{hook}/tests")
        assert json.decode(office.receiver.wait_for(4)[3].body)["text"] == text


@pytest.mark.parametrize("damage", [b"\x00\xff\xff\xff\x7f{", b"\x00\x00\x04\x00\x00\xf0", b"\x00"])
def test_a_damaged_payload_blocks_nothing_else(office: Office, damage: bytes) -> None:
    """The payloads claim a size of 2 GB, end in the middle of a block, or are empty."""
    hook, owner = listening(office), office.visitor()
    [delivery, _] = office.publish(hook, {"text": "lost " * 1_000})
    with office.server.client(office.world.token) as api:
        damaged = float(_DAMAGED.findall(api.get("/metrics").text)[0])
    activity = f"/api/v1/projects/{office.world.project_id}/activity?per_page=1"
    [happened] = office.api("GET", activity)["activity"]
    office.server.run(partial(_damage, damage, happened["id"]))

    path = f"{office.world.repo_path}/hooks/{hook}/deliveries/{delivery['id']}"
    assert office.api("GET", path)["request"]["payload"] == {}
    assert office.api("GET", activity)["activity"] == [{**happened, "payload": {}}]
    owner.get(f"/{office.world.full_name}/activity/{happened['id']}")
    owner.get(f"/{hook}/deliveries?q=lost")
    office.api("POST", f"{path}/attempts")
    other = listening(office, url=f"{office.receiver.url}?other")
    [arrived, *_] = office.publish(other, {"text": "found"})
    assert arrived["status_code"] == 200
    with office.server.client(office.world.token) as api:
        assert float(_DAMAGED.findall(api.get("/metrics").text)[0]) >= damaged + 4
    office.api("DELETE", f"{office.world.repo_path}/hooks/{hook}")


async def _damage(stored: bytes, event_id: int, services: Services) -> None:
    async with services.database.transaction() as tx:
        assert await tx.execute(_REPLACE, {"stored": stored, "event_id": event_id}) == 1


@pytest.mark.parametrize("length", [0, 1, COMPRESSED_FROM - 1, COMPRESSED_FROM, 70_000])
def test_payloads_of_every_length_are_read_as_stored(length: int) -> None:
    payload = (b'{"a":"' + b"x" * length)[:length]
    for name in ("push", "task"):
        assert from_stored(to_stored(name, payload)) == payload
    assert (len(to_stored("push", payload)) < length) is (length >= COMPRESSED_FROM)
    assert to_stored("task", payload) == payload, "the history of a task is searched in SQL"
    drawn = random.Random(length).randbytes(length // 2).hex().encode()
    assert len(to_stored("push", drawn)) <= len(drawn)
