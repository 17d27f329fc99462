"""Logos of an organization's invoices: accepted files, where they are printed and when their content is deleted."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.server import Server
from tests.work.paper import images_of, png, read
from tests.work.studio import Studio
from workhook.core.clock import DAY_MS, now_ms
from workhook.http.calls import Services
from workhook.work.files import actions as trash
from workhook.work.kernel.billing_settings import billing_logos

JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000") + b"\0" * 40
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.fixture
def settings(studio: Studio) -> str:
    return f"/organizations/{studio.world.organization}/billing"


def put(studio: Studio, settings: str, content: bytes, **more: Any) -> Any:
    answer = studio.owner.answer("PUT", f"{settings}/logo", files={"file": ("x", content)}, **more)
    return answer["billing"]["logo"]


def logos(studio: Studio) -> dict[str, str]:
    """Return the blobs of all stored logos by ID."""
    return {row["id"]: row["blob"] for row in studio.server.fetch(sa.select(billing_logos))}


def test_a_logo_is_printed_and_can_be_removed(studio: Studio, settings: str) -> None:
    logo = put(studio, settings, png())
    assert logo.startswith("lgo_")
    assert studio.owner.get(settings)["billing"]["logo"] == logo
    draft = studio.invoice()["id"]
    assert studio.owner.get(f"/invoices/{draft}")["invoice"]["seller"]["logo"] == logo
    assert images_of(read(studio, draft)) == 1
    studio.owner.delete(f"{settings}/logo")
    studio.owner.delete(f"{settings}/logo")
    assert studio.owner.get(settings)["billing"]["logo"] is None
    assert images_of(read(studio, draft)) == 0
    assert logo not in logos(studio)


def test_a_sent_invoice_keeps_its_logo(studio: Studio, settings: str) -> None:
    first = put(studio, settings, png())
    sent = studio.invoice("send")["id"]
    second = put(studio, settings, png(8, 8))
    assert {first, second} <= logos(studio).keys()
    studio.owner.delete(f"{settings}/logo")
    assert first in logos(studio)
    assert second not in logos(studio)
    assert studio.owner.get(f"/invoices/{sent}")["invoice"]["seller"]["logo"] == first
    assert images_of(read(studio, sent)) == 1
    body = {"reason": "Late", "total": 1}
    note = studio.owner.post(f"/invoices/{sent}/credit_notes", json=body)["credit_note"]
    assert note["seller"]["logo"] == first
    assert studio.owner.call("GET", f"/credit_notes/{note['id']}/pdf").status_code == 200


def test_other_file_types_are_refused_whatever_their_declared_type(studio: Studio, settings: str) -> None:
    for content in (SVG, b"", b"GIF89a", b"%PDF-1.7", b"\x89PN"):
        files = {"file": ("logo.png", content, "image/png")}
        error = studio.owner.refused(422, "PUT", f"{settings}/logo", files=files)
        assert "must be a PNG or a JPEG" in error["errors"][0]["message"], content
        assert studio.owner.get(settings)["billing"]["logo"] is None, content


def test_extra_fields_and_oversized_logos_are_refused(studio: Studio, settings: str) -> None:
    path, files = f"{settings}/logo", {"file": ("x", png())}
    assert studio.owner.faults("PUT", path, files=files, data={"title": "X"}) == {"title": "unknown"}
    assert studio.owner.faults("PUT", path, files={"other": ("x", png())}) != {}
    studio.owner.refused(415, "PUT", path, json={})
    error = studio.owner.refused(413, "PUT", path, files={"file": ("x", png() + b"\0" * 2**20)})
    assert "1 MiB" in error["message"]


def test_an_undecodable_jpeg_falls_back_to_the_initials(studio: Studio, settings: str) -> None:
    assert put(studio, settings, JPEG)
    assert images_of(read(studio, studio.invoice()["id"])) == 0


def test_orphaned_logo_content_is_swept_and_the_rest_remains(studio: Studio, settings: str, server: Server) -> None:
    first = put(studio, settings, png())
    gone = logos(studio)[first]
    second = put(studio, settings, png(8, 8))
    kept = logos(studio)[second]

    async def sweep(services: Services) -> tuple[bool, bool]:
        await trash.purge(services, now_ms() + 2 * DAY_MS)
        return await services.blobs.exists(gone), await services.blobs.exists(kept)

    assert server.run(sweep) == (False, True)
    assert images_of(read(studio, studio.invoice()["id"])) == 1
