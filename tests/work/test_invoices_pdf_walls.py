"""Isolation of PDF rendering: hostile invoices and logos affect neither the server nor other organizations."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import uvloop

from tests.harness.waiting import until
from tests.work.paper import LINE, Draw, Upload, images_of, metric, png, read, renders, text_of
from tests.work.studio import Studio
from workhook.core import limited_process

pytestmark = pytest.mark.one_database

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{0}">{1}</svg>'
FILTER = (
    '<filter id="f" x="-9" y="-9" width="99" height="99">'
    + '<feGaussianBlur stdDeviation="90"/><feTurbulence numOctaves="20" baseFrequency="0.9"/>' * 20
    + '</filter><rect width="90%" height="90%" filter="url(#f)"/>'
)


def uses(depth: int) -> str:
    groups = [f'<g id="a{n + 1}">' + f'<use href="#a{n}"/>' * 10 + "</g>" for n in range(depth)]
    return f'<defs><rect id="a0" width="9" height="9"/>{"".join(groups)}</defs><use href="#a{depth}"/>'


@contextmanager
def suspended_renders(studio: Studio) -> Iterator[list[psutil.Process]]:
    """Yield a list of suspended processes, and resume them at the end."""
    stopped: list[psutil.Process] = []
    try:
        yield stopped
    finally:
        for each in stopped:
            with suppress(psutil.NoSuchProcess):
                each.resume()


def suspend_renders(studio: Studio, stopped: list[psutil.Process]) -> int:
    """Suspend all rendering processes and return how many are suspended."""
    for each in renders(studio):
        if each not in stopped:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
                stopped.append(each)
    return len(stopped)


# --- hostile logos -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said", ["x&#10;no font has: Signed by the bank", "x&#10;no font has: 漢字", "x&#10;no font has: a&#13;b"]
)
def test_a_logo_cannot_write_a_header(studio: Studio, draw: Draw, upload: Upload, said: str) -> None:
    """Typst includes the address of a linked image in its error message."""
    svg = SVG.format(9, f'<image href="http://{said}" width="9" height="9"/>')
    upload(svg.encode(), "logo.svg", "image/svg+xml")
    answer = studio.owner.call("GET", f"/invoices/{draw()}/pdf")
    assert (answer.status_code, answer.headers.get("x-missing-characters")) == (200, None)


def test_text_in_a_logo_is_not_text_of_the_invoice(studio: Studio, draw: Draw, upload: Upload) -> None:
    upload(SVG.format(99, '<text y="20">\ue123</text>').encode(), "logo.svg", "image/svg+xml")
    invoice_id = draw(bill_to="a \ufdd0")
    answer = studio.owner.call("GET", f"/invoices/{invoice_id}/pdf")
    assert answer.headers.get("x-missing-characters") == "U+FDD0"


@pytest.mark.variants("content", "reason")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (SVG.format(3000, FILTER), "timeout"),
        (SVG.format(9, "<g>" * 200_000 + "</g>" * 200_000), "killed"),
        (SVG.format(100, uses(9)), "invalid"),
        (lambda: png(30_000, 20_000), "killed"),  # created only on demand because that takes seconds
    ],
    ids=["filters", "deep", "nested use", "png bomb"],
)
def test_an_invoice_is_printed_without_a_logo_that_cannot_be_rendered(
    studio: Studio, draw: Draw, upload: Upload, content: str | Callable[[], bytes], reason: str
) -> None:
    if isinstance(content, str):
        upload(content.encode(), "logo.svg", "image/svg+xml")
    else:
        upload(content(), "logo.png", "image/png")
    before = metric(studio, "workhook_invoice_pdf_logos_left_out_total", reason=reason)
    reader = read(studio, draw("send"))
    assert (images_of(reader), "INV-00001" in text_of(reader)) == (0, True)
    assert metric(studio, "workhook_invoice_pdf_logos_left_out_total", reason=reason) == before + 1


@pytest.mark.parametrize("size", ["1000000000", "1e38", "0.00001"])
def test_a_logo_of_any_size_is_drawn_or_omitted(studio: Studio, draw: Draw, upload: Upload, size: str) -> None:
    svg = SVG.format(size, '<rect width="100%" height="100%"/><g id="a"><use href="#a"/></g>')
    upload(svg.encode(), "logo.svg", "image/svg+xml")
    assert "INV-00001" in text_of(read(studio, draw("send")))


def test_a_logo_cannot_fetch_anything(studio: Studio, draw: Draw, upload: Upload, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(png())
    for href in ("http://127.0.0.1:9/logo.png", str(secret), f"file://{secret}", f"../../../../..{secret}"):
        upload(SVG.format(9, f'<image href="{href}" width="9" height="9"/>').encode(), "logo.svg", "image/svg+xml")
        assert images_of(read(studio, draw())) == 0, href


def test_a_killed_render_is_repeated_without_the_logo(studio: Studio, draw: Draw, upload: Upload) -> None:
    upload(png(), "logo.png", "image/png")
    invoice_id = draw("send")
    with ThreadPoolExecutor(1) as pool, suspended_renders(studio) as stopped:
        printed = pool.submit(read, studio, invoice_id)
        until(lambda: suspend_renders(studio, stopped))
        stopped[0].kill()
        assert images_of(printed.result()) == 0
        assert "INV-00001" in text_of(printed.result())


def test_a_render_that_dies_before_its_input_is_not_a_server_error() -> None:
    async def write_to_dead() -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "", stdin=asyncio.subprocess.PIPE)
        assert process.stdin is not None
        assert await process.wait() == 0
        await limited_process.write_all(process.stdin, b"a job")  # uvloop has closed its end of the pipe by now

    uvloop.run(write_to_dead())


# --- the process -------------------------------------------------------------------------------------------------


def descriptors(process: psutil.Process) -> set[str]:
    """Return the open files of a process, except its three pipes and system files such as fonts and libraries."""
    folder = f"/proc/{process.pid}/fd"
    names = {}
    for each in os.listdir(folder):
        with suppress(FileNotFoundError):  # closed in the meantime
            names[each] = os.readlink(f"{folder}/{each}")
    pipes = {names.get(each) for each in ("0", "1", "2")}
    return {
        each for each in names.values() if each not in pipes and not each.startswith(("/usr/", str(Path(sys.prefix))))
    }


def test_the_rendering_process_inherits_nothing_from_the_server(studio: Studio, draw: Draw) -> None:
    assert studio.server.process is not None
    server = psutil.Process(studio.server.process.pid)
    assert server.environ(), "the server has settings and more there"
    invoice_id = draw("send", invoice_items=[LINE] * 900)
    with ThreadPoolExecutor(1) as pool, suspended_renders(studio) as stopped:
        printed = pool.submit(read, studio, invoice_id)
        until(lambda: suspend_renders(studio, stopped))
        (process,) = stopped
        folder = process.cwd()
        assert set(process.environ()) <= {"LD_LIBRARY_PATH"}
        assert folder not in ("/", server.cwd())
        listening = [each.fd for each in server.net_connections() if each.status == psutil.CONN_LISTEN]
        assert listening
        assert not {os.readlink(f"/proc/{server.pid}/fd/{each}") for each in listening} & descriptors(process)

        def without() -> bool:
            """Let the process run briefly, and return whether it has closed inherited descriptors."""
            process.resume()
            process.suspend()
            return not descriptors(process)

        until(without)
        process.resume()
        printed.result()
    assert not os.path.exists(folder)


# --- the queue ---------------------------------------------------------------------------------------------------


def test_one_organization_does_not_block_another(studio: Studio, draw: Draw, elsewhere: Studio) -> None:
    ours = [draw("send", invoice_items=[LINE] * 300) for _ in range(3)]  # long enough to be found
    theirs = elsewhere.owner.post(f"{elsewhere.project}/invoices", json={"invoice_items": [LINE]})["invoice"]["id"]
    with ThreadPoolExecutor(len(ours)) as pool, suspended_renders(studio) as stopped:
        prints = [pool.submit(read, studio, each) for each in ours]
        until(lambda: suspend_renders(studio, stopped) + metric(studio, "workhook_invoice_pdf_waiting") >= 2)
        assert "Draft" in str(read(elsewhere, theirs).metadata)
        for each in stopped:
            each.resume()
        assert all("INV-" in text_of(each.result()) for each in prints)


@pytest.mark.whole  # `tests/unit/test_render_queue.py` covers the limits of the queue
def test_requests_beyond_the_queue_limit_are_refused(studio: Studio, elsewhere: Studio, draw: Draw) -> None:
    ours = [draw() for _ in range(12)]
    with ThreadPoolExecutor(len(ours)) as pool, suspended_renders(studio) as stopped:
        first = pool.submit(studio.owner.call, "GET", f"/invoices/{ours[0]}/pdf")
        until(lambda: suspend_renders(studio, stopped))
        prints = [pool.submit(studio.owner.call, "GET", f"/invoices/{each}/pdf") for each in ours[1:]]
        until(lambda: sum(each.done() for each in prints) == 3)
        for each in [each.result() for each in prints if each.done()]:
            assert (each.status_code, each.json()["code"]) == (503, "pdf_unavailable")
            assert int(each.headers["retry-after"]) > 0
        stopped[0].resume()
        assert sorted(each.result().status_code for each in [first, *prints]) == [200] * 9 + [503] * 3


def test_each_version_is_rendered_once(studio: Studio, draw: Draw, upload: Upload) -> None:
    def rendered() -> float:
        return metric(studio, "workhook_invoice_pdf_answers_total", source="rendered")

    invoice_id, before = draw("send"), rendered()
    with ThreadPoolExecutor(3) as pool, suspended_renders(studio) as stopped:
        shared = metric(studio, "workhook_invoice_pdf_answers_total", source="shared")
        prints = [pool.submit(read, studio, invoice_id) for _ in range(3)]
        until(lambda: suspend_renders(studio, stopped))
        stopped[0].resume()
        assert len({text_of(each.result()) for each in prints}) == 1
    assert rendered() == before + 1
    assert metric(studio, "workhook_invoice_pdf_answers_total", source="shared") >= shared
    read(studio, invoice_id)
    assert rendered() == before + 1
    upload(png(), "logo.png", "image/png")
    assert images_of(read(studio, invoice_id)) == 1
    studio.owner.patch(f"/invoices/{invoice_id}", json={"payment_terms": "Soon"})
    assert "Soon" in text_of(read(studio, invoice_id))
    assert rendered() == before + 3


# --- limits ------------------------------------------------------------------------------------------------------


def test_the_length_of_an_invoice_is_limited(studio: Studio, draw: Draw) -> None:
    lines = [{**LINE, "description": "a" * 4000} for _ in range(25)]
    invoice_id = draw(invoice_items=lines)
    where = f"/invoices/{invoice_id}"
    assert studio.owner.faults("PATCH", where, json={"payment_terms": "b"}) == {"payment_terms": "too_long"}
    assert studio.owner.faults("PATCH", where, json={"invoice_items": [*lines, LINE]}) == {"invoice_items": "too_long"}
    body = studio.owner.refused(422, "POST", f"{studio.project}/invoices", json={"invoice_items": [*lines, LINE]})
    assert "100006 characters" in body["errors"][0]["message"]
    studio.owner.patch(where, json={"invoice_items": [LINE], "payment_terms": "b"})
    assert "Design" in text_of(read(studio, invoice_id))
