"""GET `/search`: who finds what, where, and in which order."""

from __future__ import annotations

import re

import pytest

from tests.work.studio import Caller, JsonObject, Studio

KEYS = {
    "type", "id", "number", "title", "excerpt", "project", "task", "file", "invoice", "file_comment_id", "created_at",
    "updated_at",
}  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def _found(caller: Caller, q: str = "needle", **more: str) -> list[JsonObject]:
    answer = caller.get("/search", params={"q": q, **more})
    assert set(answer) == {"success", "results", "incomplete_results"}
    assert answer["incomplete_results"] is False
    results: list[JsonObject] = answer["results"]
    return results


def _ids(caller: Caller, q: str = "needle", **more: str) -> list[tuple[str, str | int]]:
    return [(each["type"], each["id"]) for each in _found(caller, q, **more)]


def _task_comment(studio: Studio, task_id: str, text: str = "A needle", **more: object) -> int:
    made = studio.owner.post(f"/tasks/{task_id}/task_comments", json={"text": text, **more})
    return int(made["task_comment"]["id"])


def _file_comment(studio: Studio, file_id: str, text: str = "A needle", **more: object) -> int:
    return int(studio.owner.post(f"/files/{file_id}/file_comments", json={"text": text, **more})["id"])


def _reply(studio: Studio, comment_id: int, body: str = "A needle", **more: object) -> int:
    made = studio.owner.post(f"/file_comments/{comment_id}/comments", json={"body": body, **more})
    return int(made["comment"]["id"])


def test_everything_is_found_the_newest_first(studio: Studio) -> None:
    task_id = studio.task(title="Sew", description="with a\n  needle")
    comment_id = _task_comment(studio, task_id)
    file_id = studio.file("needle.svg")
    file_comment_id = _file_comment(studio, file_id)
    reply_id = _reply(studio, file_comment_id, "A <b>nee</b>dle &amp; a thread")
    found = _found(studio.owner)
    for each in found:
        assert set(each) == KEYS
        assert each["project"] == {"id": studio.project_id, "title": "Website"}
        assert TIME.fullmatch(each["created_at"])
        assert TIME.fullmatch(each["updated_at"])
    task, file = {"id": task_id, "title": "Sew"}, {"id": file_id, "title": "needle.svg"}
    shown = [
        (each["type"], each["id"], each["title"], each["excerpt"], each["task"], each["file"], each["file_comment_id"])
        for each in found
    ]
    assert shown == [
        ("file_comment_reply", reply_id, "needle.svg", "A needle & a thread", None, file, file_comment_id),
        ("file_comment", file_comment_id, "needle.svg", "A needle", None, file, None),
        ("file", file_id, "needle.svg", None, None, file, None),
        ("task_comment", comment_id, "Sew", "A needle", task, None, None),
        ("task", task_id, "Sew", "with a needle", task, None, None),
    ]
    for kind, record_id in [(each["type"], each["id"]) for each in found]:
        assert _ids(studio.owner, type=kind) == [(kind, record_id)]


def test_the_index_keeps_in_step(studio: Studio) -> None:
    task_id = studio.task(title="Sew", description="needle")
    comment_id = _task_comment(studio, task_id)
    file_id = studio.file()
    file_comment_id = _file_comment(studio, file_id)
    reply_id = _reply(studio, file_comment_id)
    assert len(_ids(studio.owner)) == 4
    studio.owner.patch(f"/tasks/{task_id}", json={"title": "Knit", "description": "yarn"})
    studio.owner.patch(f"/task_comments/{comment_id}", json={"text": "yarn"})
    studio.owner.patch(f"/file_comments/{file_comment_id}", json={"text": "yarn"})
    studio.owner.patch(f"/file_comments/{file_comment_id}/comments/{reply_id}", json={"body": "<i>yarn</i>"})
    assert _ids(studio.owner) == []
    assert len(_ids(studio.owner, "yarn")) == 4
    assert _ids(studio.owner, "knit", type="task") == [("task", task_id)]
    studio.owner.patch(f"/tasks/{task_id}", json={"description": None})
    assert ("task", task_id) not in _ids(studio.owner, "yarn")
    studio.owner.delete(f"/task_comments/{comment_id}")
    studio.owner.delete(f"/file_comments/{file_comment_id}")  # and the reply with it
    assert _ids(studio.owner, "yarn") == []


def test_what_was_deleted_is_not_found(studio: Studio) -> None:
    task_id, file_id = studio.task(title="Needle"), studio.file("needle")
    _task_comment(studio, task_id)
    _reply(studio, _file_comment(studio, file_id))
    other = studio.owner.post("/projects", json={"title": "Other", "organization": studio.world.organization})
    path = f"/projects/{other['project']['id']}"
    studio.task(studio.column(project=path), "Needle")
    assert len(_ids(studio.owner)) == 6
    studio.owner.delete(path)
    assert len(_ids(studio.owner)) == 5
    studio.owner.delete(f"/tasks/{task_id}")
    assert {kind for kind, _ in _ids(studio.owner)} == {"file", "file_comment", "file_comment_reply"}
    studio.owner.delete(f"/files/{file_id}")
    assert _ids(studio.owner) == []


def test_what_is_archived_is_found(studio: Studio) -> None:
    task_id = studio.task(title="Needle")
    studio.owner.patch(studio.project, json={"archive": True})
    assert _ids(studio.owner) == [("task", task_id)]


def test_clients_find_what_is_not_private(studio: Studio) -> None:
    task_id = studio.task(title="Needle")
    comment_id = _task_comment(studio, task_id)
    hidden = [("task_comment", _task_comment(studio, task_id, private=True))]
    file_id = studio.file("needle")
    file_comment_id = _file_comment(studio, file_id)
    reply_id = _reply(studio, file_comment_id)
    hidden.append(("file_comment_reply", _reply(studio, file_comment_id, private=True)))
    private_comment = _file_comment(studio, file_id, private=True)
    hidden += [("file_comment", private_comment), ("file_comment_reply", _reply(studio, private_comment))]
    private_file = studio.file("needle", private="true")
    below = _file_comment(studio, private_file)
    hidden += [("file_comment", below), ("file_comment_reply", _reply(studio, below))]
    shown = {
        ("task", task_id), ("task_comment", comment_id), ("file", file_id), ("file_comment", file_comment_id),
        ("file_comment_reply", reply_id),
    }  # fmt: skip
    assert set(_ids(studio.client)) == shown
    assert set(_ids(studio.member)) == {*shown, *hidden, ("file", private_file)}
    assert set(_ids(studio.add(role="read"))) == {*shown, *hidden, ("file", private_file)}


def test_it_stays_in_the_projects_that_one_sees(studio: Studio) -> None:
    private = studio.owner.post(
        "/projects", json={"title": "Hidden", "organization": studio.world.organization, "private": True}
    )["project"]
    path = f"/projects/{private['id']}"
    hidden = studio.task(studio.column(project=path), "Needle")
    shown = studio.task(title="Needle")
    assert _ids(studio.owner) == [("task", shown), ("task", hidden)]
    assert _ids(studio.owner, project_id=private["id"]) == [("task", hidden)]
    assert _ids(studio.member) == _ids(studio.client) == [("task", shown)]
    assert _ids(studio.stranger) == []
    assert _ids(studio.member, project_id=studio.project_id) == [("task", shown)]
    for caller, project_id in (
        (studio.member, private["id"]),
        (studio.client, private["id"]),
        (studio.stranger, studio.project_id),
        (studio.owner, "prj_none"),
    ):
        caller.refused(404, "GET", "/search", params={"q": "needle", "project_id": project_id})
    studio.nobody.refused(401, "GET", "/search", params={"q": "needle"})


def test_pages(studio: Studio) -> None:
    task_id, file_id = studio.task(title="Needle"), studio.file("needle")
    for _ in range(4):
        _task_comment(studio, task_id)
        _reply(studio, _file_comment(studio, file_id))
    every = _ids(studio.owner, per_page="100")
    assert len(every) == len(set(every)) == 14
    for only in ({}, {"type": "task_comment"}, {"project_id": studio.project_id}):
        paged: list[tuple[str, str | int]] = []
        response = studio.owner.call("GET", "/search", params={"q": "needle", "per_page": "3", **only})
        while True:
            paged += [(each["type"], each["id"]) for each in response.json()["results"]]
            if "next" not in response.links:
                break
            # What comes meanwhile neither repeats nor hides anything.
            _task_comment(studio, task_id, "Another thread")
            response = studio.owner.http.get(response.links["next"]["url"])
        assert paged == [each for each in every if only.get("type", each[0]) == each[0]]


def test_a_page_has_30_unless_it_is_told(studio: Studio) -> None:
    task_id = studio.task()
    for _ in range(31):
        _task_comment(studio, task_id)
    assert len(_ids(studio.owner)) == 30
    assert len(_ids(studio.owner, per_page="31")) == 31


def test_what_is_wrong_is_named(studio: Studio) -> None:
    def faults(**params: str) -> dict[str, str]:
        return studio.owner.faults("GET", "/search", params=params)

    assert faults() == {"q": "missing"}
    assert faults(q="", type="project", per_page="101", sort="title") == {
        "q": "invalid", "type": "invalid", "per_page": "invalid", "sort": "unknown",
    }  # fmt: skip
    assert faults(q="x" * 256) == {"q": "invalid"}
    for cursor in ("x", "v1_WzFd", "v1_WzEwMDAwMDAwMDAwMDAwMDAwMDAwMCwwLDAsIiJd"):  # [1], [10**21, 0, 0, ""]
        assert faults(q="x", cursor=cursor) == {"cursor": "invalid"}


@pytest.mark.parametrize("q", ["!!!", '" OR "', "*", "(", "\N{COMBINING ACUTE ACCENT}", " ", "'; --"])
def test_without_words_nothing_is_found(studio: Studio, q: str) -> None:
    studio.task(title="Needle or thread")
    assert [each["title"] for each in _found(studio.owner, q)] == (["Needle or thread"] if "OR" in q else [])


def test_excerpts(studio: Studio) -> None:
    text = "One " * 100 + "and then the Nëedle in\n\nthe haystack" + " of hay" * 100
    _task_comment(studio, studio.task(), text)
    [found] = _found(studio.owner, "needle")
    assert len(found["excerpt"]) <= 200
    assert found["excerpt"].startswith("…One One")
    assert "and then the Nëedle in the haystack of hay" in found["excerpt"]
    assert found["excerpt"].endswith("…")


def _invoice(studio: Studio, payer: str | None = None, *, send: bool = True, **more: object) -> JsonObject:
    studio.owner.patch(f"{studio.project}/billing", json={"buyer": {"name": payer}})
    body = {"invoice_items": [{"description": "Design", "qty": 1, "unit_price": 100}], "currency": "EUR", **more}
    invoice: JsonObject = studio.owner.post(f"{studio.project}/invoices", json=body)["invoice"]
    if send:
        invoice = studio.owner.post(f"/invoices/{invoice['id']}/send")["invoice"]
    return invoice


def test_invoices_and_credit_notes_are_found(studio: Studio) -> None:
    invoice = _invoice(studio, "Bäckerei Groß & Söhne", invoice_number="2026-0042")
    addressed = _invoice(studio, invoice_number="R/77-0815", bill_to="Dashboard Ltd\n1 High Street")
    note = studio.owner.post(f"/invoices/{invoice['id']}/credit_notes", json={"reason": "Typo"})["credit_note"]
    draft = _invoice(studio, send=False, bill_to="Quagga Inc")
    first, second = ("invoice", invoice["id"]), ("invoice", addressed["id"])
    number = note["credit_note_number"]
    cases = {
        "2026-0042": first, "0042": first, "2026": first, "backerei gross": first, "sohne": first,
        "R/77-0815": second, "815": second, "board": second, "high str": second, "uagg": ("invoice", draft["id"]),
        number: ("credit_note", note["id"]), "typ": ("credit_note", note["id"]),
    }  # fmt: skip
    for q, expected in cases.items():
        assert expected in _ids(studio.owner, q), q
        assert expected in _ids(studio.member, q, type=expected[0], project_id=studio.project_id), q
        if expected[1] != draft["id"]:
            assert expected in _ids(studio.client, q), q
        assert _ids(studio.stranger, q) == []
    assert _ids(studio.client, "quagga") == []

    [found] = _found(studio.owner, "backerei", type="invoice")
    assert found["title"] == "2026-0042"
    assert found["excerpt"] == "Bäckerei Groß & Söhne"
    assert found["invoice"] == {"id": invoice["id"], "title": "2026-0042"}
    assert found["project"] == {"id": studio.project_id, "title": "Website"}
    assert (found["task"], found["file"], found["number"]) == (None, None, None)
    [found] = _found(studio.owner, number, type="credit_note")
    assert (found["title"], found["invoice"]) == (number, {"id": invoice["id"], "title": "2026-0042"})
    [found] = _found(studio.owner, "quagga")
    assert found["title"] == "Draft invoice"

    studio.owner.patch(f"/invoices/{draft['id']}", json={"bill_to": "Okapi Inc"})
    assert _ids(studio.owner, "quagga") == []
    assert _ids(studio.owner, "okapi") == [("invoice", draft["id"])]
    studio.owner.delete(f"/invoices/{draft['id']}")
    assert _ids(studio.owner, "okapi") == []
