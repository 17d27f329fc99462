"""Hostile input: nothing makes the server fail, and nothing harmful is stored."""

from __future__ import annotations

import httpx
import pytest

from tests.work.scene import Scene
from tests.work.studio import Studio

pytestmark = pytest.mark.one_database


def test_odd_amounts_are_refused(studio: Studio) -> None:
    for amount in ("1e999999", "1e9999999999", "9" * 5000, "1." + "0" * 40 + "1", "nan", "1e13"):
        assert studio.owner.faults("POST", f"{studio.project}/task_credits", params={"amount": amount}) == {
            "amount": "invalid"
        }


def test_amounts_are_parsed_exactly(studio: Studio) -> None:
    made = studio.owner.post(
        f"{studio.project}/task_credits", params={"amount": "1.50000000000000000000000000000000000"}
    )
    assert made["task_credit"]["amount"] == 1.5


def test_huge_numbers_are_refused(studio: Studio) -> None:
    for number in ("1" + "0" * 400, "1e308", "-1" + "0" * 400, "9" * 5000):
        item = f'{{"description":"Work","qty":{number},"unit_price":{number}}}'
        body = f'{{"invoice_number":{number},"tax":{number},"invoice_items":[{item}]}}'
        response = studio.owner.call("POST", f"{studio.project}/invoices", content=body)
        assert response.status_code in (400, 422), response.text


def _upload(studio: Studio, name: bytes, content_type: bytes) -> httpx.Response:
    head = b'Content-Disposition: form-data; name="file"; filename="%s"\r\nContent-Type: %s' % (name, content_type)
    return studio.owner.call(
        "POST",
        f"{studio.project}/files",
        content=b"--BB\r\n" + head + b"\r\n\r\nDATA\r\n--BB--\r\n",
        headers={"Content-Type": "multipart/form-data; boundary=BB"},
    )


def test_no_media_type_can_break_the_headers_of_a_download(studio: Studio) -> None:
    for space in ("\n", "\r", "\x0b", "\x0c", "\x1c", "\u0085", "\u2003", "\u2028"):
        made = _upload(studio, b"a.txt", f"text/plain;{space}a=b".encode())
        assert made.status_code == 200, made.text
        assert made.json()["file"]["content_type"] == "application/octet-stream", space
        content = studio.owner.call("GET", f"/files/{made.json()['file']['id']}/content")
        assert (content.status_code, content.content) == (200, b"DATA"), space


def test_an_ascii_file_name_contains_no_path(studio: Studio) -> None:
    made = _upload(studio, "\uff0e\uff0e\uff0fetc\uff0fpasswd".encode(), b"text/plain").json()["file"]
    disposition = studio.owner.call("GET", f"/files/{made['id']}/content").headers["content-disposition"]
    assert disposition.startswith('attachment; filename=".._etc_passwd"; ')


@pytest.mark.parametrize(
    ("notes", "cell"),
    [("\n=1+1", "'\n'=1+1"), ("\uff1d1+1", "'\uff1d1+1"), ("\uff20SUM(1)", "'\uff20SUM(1)"), ("a;=1+1", "a;'=1+1")],
)
def test_csv_cells_cannot_be_formulas(studio: Studio, scene: Scene, notes: str, cell: str) -> None:
    scene.timesheet(notes=notes)
    table = studio.owner.call("GET", f"{studio.project}/timesheets", headers={"Accept": "text/csv"}).text
    assert cell in table


def test_large_tasks_are_split_into_more_pages(studio: Studio, scene: Scene) -> None:
    """A thousand of them would take 180 MB, several times over in memory."""
    column_id = scene.column()
    fields = {f"k{k}": "v" * 590 for k in range(100)}
    sections = {f"s{n}": {f"k{k}": "v" * 90 for k in range(100)} for n in range(6)}
    made = [scene.task(column_id, fields=fields, sections=sections, description="d" * 60_000) for _ in range(66)]
    made.append(scene.task(column_id, title="Last"))
    for path in (f"/columns/{column_id}/tasks", f"{studio.project}/tasks", f"{studio.project}/tasks?sort=-created_at"):
        found: list[str] = []
        address = f"/api/v1{path}"
        pages = 0
        while address:
            response = studio.owner.http.get(address)
            assert response.status_code == 200, response.text[:300]
            assert len(response.content) < 12 * 2**20
            found += [task["id"] for task in response.json()["tasks"]]
            address = response.links.get("next", {}).get("url", "")
            pages += 1
        assert pages == 2
        assert sorted(found) == sorted(made)
        assert len(set(found)) == len(found)
    edits = [{"action": "edit", "id": each, "priority": "low"} for each in made]
    assert studio.owner.refused(413, "POST", "/tasks/bulk", json={"operations": edits})["code"] == "too_large"
    assert studio.owner.post("/tasks/bulk", json={"operations": edits[-3:]})["tasks"][2]["priority"] == "low"
