"""The files of a project: uploads with progress, and the page of a file."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typst
from playwright.async_api import Page, expect

from tests.browser.checks import accessible, fits, keyboard, picture
from tests.browser.people import Team
from tests.browser.visits import Scheme, Visits

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="320" height="180"><rect width="320" height="180"/></svg>'


def path_of(team: Team) -> str:
    return f"/{team.world.full_name}/files"


async def choose(page: Page, *files: tuple[str, str, bytes]) -> None:
    payload = [{"name": name, "mimeType": kind, "buffer": content} for name, kind, content in files]
    if len(files) > 1:  # the field accepts several files once its scripts are running
        await expect(page.locator("#upload-file")).to_have_attribute("multiple", "")
    await page.locator("#upload-file").set_input_files(payload)  # type: ignore[arg-type]


async def test_several_files_upload_together_and_appear_for_others(visit: Visits, team: Team) -> None:
    other = await visit(path_of(team), team.owner)
    await expect(other.locator("main")).to_have_attribute("data-live-state", "open")
    page = await visit(path_of(team), team.member)
    await choose(page, ("notes.txt", "text/plain", b"some notes"), ("plan.svg", "image/svg+xml", SVG))
    for each in (page, other):
        await expect(each.get_by_role("link", name="notes.txt")).to_be_visible()
        await expect(each.get_by_role("link", name="plan.svg")).to_be_visible()
    await expect(page.locator(".upload-row")).to_have_count(0)
    await page.get_by_label("Edit notes.txt").click()
    await page.get_by_role("button", name="Delete notes.txt").click()
    await expect(page.get_by_role("link", name="notes.txt")).to_have_count(0)
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("link", name="notes.txt")).to_be_visible()


async def test_files_are_moved_and_each_move_is_undone(visit: Visits, team: Team) -> None:
    """With the selection bar, by dragging, and without scripts."""
    page = await visit(path_of(team), team.member)
    for title in ("Designs", "Texts"):
        await page.goto(path_of(team))
        await page.get_by_text("New folder", exact=True).click()
        await expect(page.get_by_label("Folder name")).to_be_focused()
        await page.get_by_label("Folder name").fill(title)
        await page.get_by_role("button", name="Create folder").click()
        await expect(page.get_by_role("heading", name=title)).to_be_visible()
    await page.goto(path_of(team))
    await choose(page, *((f"{number}.txt", "text/plain", b"text") for number in range(3)))
    await expect(page.locator("#files tr[draggable=true]")).to_have_count(3)
    await page.get_by_label("Select 0.txt").press("Space")
    await page.get_by_label("Select 1.txt").press("Space")
    await expect(page.locator(".selection")).to_contain_text("2 selected")
    await accessible(page)
    await picture(page, "files-chosen")
    await page.set_viewport_size({"width": 360, "height": 740})
    await fits(page)
    await picture(page, "files-chosen")
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.get_by_label("Move to").select_option(label="Texts")
    await page.get_by_role("button", name="Move", exact=True).press("Enter")
    await expect(page.locator("#files tr[draggable=true]")).to_have_count(1)
    await expect(page.locator(".selection")).to_be_hidden()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator("#files tr[draggable=true]")).to_have_count(3)
    await page.get_by_label("Select 0.txt").check()
    folder = page.get_by_role("row", name="Designs")
    await page.get_by_role("row", name="2.txt").drag_to(folder)  # a file that is not selected is dragged alone
    await expect(page.get_by_role("link", name="2.txt")).to_have_count(0)
    await page.get_by_role("link", name="Designs").click()
    await page.get_by_role("row", name="2.txt").drag_to(page.get_by_label("Folder").get_by_role("link", name="Files"))
    await expect(page.get_by_text("This folder is empty.")).to_be_visible()
    plain = await visit(path_of(team), team.member, scripts=False)
    await plain.get_by_label("Select 2.txt").check()
    await plain.get_by_label("Move to").select_option(label="Texts")
    await plain.get_by_role("button", name="Move", exact=True).click()
    await plain.get_by_role("link", name="Texts").click()
    await plain.get_by_label("Edit 2.txt").click()
    await plain.locator("#files").get_by_label("Name", exact=True).fill("Last.txt")
    await plain.locator("#files").get_by_role("button", name="Rename").click()
    await expect(plain.get_by_role("link", name="Last.txt")).to_be_visible()


async def test_an_upload_that_lost_its_connection_can_be_retried(visit: Visits, team: Team) -> None:
    visit.expect_trouble("ERR_CONNECTION_RESET")
    page = await visit(path_of(team), team.client)
    await page.route(f"**{path_of(team)}", lambda route: route.abort("connectionreset"))
    await choose(page, ("report.txt", "text/plain", b"text"))
    await expect(page.get_by_text("The connection was lost.", exact=False).first).to_be_visible()
    await page.unroute(f"**{path_of(team)}")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("link", name="report.txt")).to_be_visible()


async def test_a_file_is_uploaded_without_scripts(visit: Visits, team: Team, tmp_path: Path) -> None:
    page = await visit(path_of(team), team.member, scripts=False)
    (tmp_path / "plain.txt").write_text("plain")
    await page.locator("#upload-file").set_input_files(tmp_path / "plain.txt")
    await page.get_by_role("button", name="Upload").click()
    await page.get_by_role("link", name="plain.txt").click()
    await page.get_by_label("Add a comment").fill("Well written")
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(page.get_by_text("Well written").first).to_be_visible()


async def test_the_file_pages_are_accessible(visit: Visits, team: Team, width: int, scheme: Scheme) -> None:
    page = await visit(path_of(team), team.member, width=width, scheme=scheme, reduced_motion="reduce")
    await picture(page, "files-empty")
    names = ["<b>bold.svg", "\u202egpj.exe", "x" * 251 + ".svg", "\U0001f984.svg"]
    await choose(page, *((name, "image/svg+xml", SVG) for name in names))
    await expect(page.get_by_role("link", name="<b>bold.svg")).to_be_visible()
    await expect(page.locator("#files tbody tr")).to_have_count(len(names))
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 6
    await picture(page, "files")
    await page.get_by_role("link", name="<b>bold.svg").click()
    await expect(page.locator(".preview img")).to_have_js_property("naturalWidth", 320)
    await page.get_by_label("Add a comment").fill("Is this the one?")
    await page.get_by_role("button", name="Comment", exact=True).click()
    await page.get_by_text("Reply", exact=True).click()
    await page.get_by_label("Write a reply").fill("It is.")
    await page.get_by_role("button", name="Send reply").click()
    await expect(page.locator(".replies")).to_contain_text("It is.")
    await expect(page.get_by_label("Add a comment")).to_have_value("")
    await accessible(page)
    await fits(page)
    assert len(await keyboard(page)) > 6
    await picture(page, "file")


PDF = b"""#set page(width: 12cm, height: 8cm)
= Offer
Ten pages of _design_, with a picture: #circle(fill: blue, radius: 1cm)
#pagebreak()
The second page."""


async def test_a_pdf_is_shown_page_by_page(visit: Visits, team: Team) -> None:
    page = await visit(path_of(team), team.member)
    await choose(page, ("offer.pdf", "application/pdf", typst.compile(PDF)))
    await page.get_by_role("link", name="offer.pdf").click()
    await expect(page.get_by_role("img", name="Page 2 of 2")).to_have_attribute("data-drawn", "")
    blue = """canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]
        .some((value, at, all) => at % 4 === 2 && value > 200 && all[at - 2] < 50)"""
    assert await page.get_by_role("img", name="Page 1 of 2").evaluate(blue), "the circle is drawn"
    await expect(page.get_by_role("region", name="Pages")).to_contain_text("The second page.")
    await accessible(page)
    await page.set_viewport_size({"width": 360, "height": 740})
    await fits(page)
    await picture(page, "file-pdf")
    plain = await visit(urlsplit(page.url).path, team.member, scripts=False)
    await expect(plain.get_by_text("This type of file can’t be previewed.")).to_be_visible()


@pytest.mark.parametrize("kind", ["text/html", "application/pdf"])
async def test_file_content_is_never_executed(visit: Visits, team: Team, kind: str) -> None:
    page = await visit(path_of(team), team.member)
    await choose(page, ("page.html", kind, b"<script>document.title = 'taken'</script>"))
    await page.get_by_role("link", name="page.html").click()
    await expect(page.get_by_role("heading", name="page.html")).to_be_visible()
    if kind == "application/pdf":
        await expect(page.get_by_text("This PDF can’t be previewed.")).to_be_visible()
    assert "taken" not in await page.title()
