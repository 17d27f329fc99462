"""`Idempotency-Key`: a POST that is sent twice happens once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.work.studio import Studio

KEY = {"Idempotency-Key": "8e03978e-40d5-43dd-bc93-6894a57f9324"}
NEW = {"title": "Shop"}


def _titles(studio: Studio) -> list[str]:
    return [each["title"] for each in studio.owner.get("/projects")["projects"]]


def test_the_same_request_again_gets_the_stored_answer(studio: Studio) -> None:
    first = studio.owner.call("POST", "/projects", json=NEW, headers=KEY)
    again = studio.owner.call("POST", "/projects", json=NEW, headers=KEY)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert _titles(studio) == ["Website", "Shop"]
    assert [each.action for each in studio.happened()] == ["created"]


def test_another_request_with_the_key_is_refused(studio: Studio) -> None:
    studio.owner.post("/projects", json=NEW, headers=KEY)
    for other in ({"json": {"title": "Else"}}, {"json": NEW, "params": {"private": "true"}}, {"params": NEW}):
        assert studio.owner.faults("POST", "/projects", headers=KEY, **other) == {
            "Idempotency-Key": "idempotency_key_reused"
        }
    assert _titles(studio) == ["Website", "Shop"]


def test_a_refusal_is_not_kept(studio: Studio) -> None:
    assert studio.owner.faults("POST", "/projects", json={"title": ""}, headers=KEY) == {"title": "invalid"}
    assert studio.owner.post("/projects", json=NEW, headers=KEY)["project"]["title"] == "Shop"


def test_keys_belong_to_a_token(studio: Studio) -> None:
    mine = studio.owner.post("/projects", json=NEW, headers=KEY)["project"]
    theirs = studio.member.post("/projects", json=NEW, headers=KEY)["project"]
    assert mine["id"] != theirs["id"]


def test_at_once_it_happens_once(studio: Studio) -> None:
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(studio.owner.call, "POST", "/projects", json=NEW, headers=KEY) for _ in range(8)]
        answers = [each.result() for each in calls]
    assert {each.status_code for each in answers} <= {200, 409}
    assert len({each.content for each in answers if each.status_code == 200}) == 1
    assert {each.json()["code"] for each in answers if each.status_code == 409} <= {"idempotency_in_flight"}
    assert _titles(studio) == ["Website", "Shop"]


def test_a_key_that_is_none(studio: Studio) -> None:
    for key in (b"", b"x" * 256, "ü".encode("latin-1"), b"a\tb"):
        headers = {b"Idempotency-Key": key}
        assert studio.owner.faults("POST", "/projects", json=NEW, headers=headers) == {"Idempotency-Key": "invalid"}
