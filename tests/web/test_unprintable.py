"""The page of an invoice warns about characters that its PDF cannot show, before anyone receives it."""

from __future__ import annotations

import asyncio

import pytest

from tests.harness.waiting import until
from tests.web.studio import Studio, page_of, send, text_of
from workhook.work.money.invoices import documents, unprintable
from workhook.work.money.invoices.unprintable import FontKnowledge

NO_CHARACTER = "\ufdd0"
"""Permanently unassigned in Unicode, so no font contains it."""
WORDS = "The PDF can’t show these characters: U+FDD0 ."


def draft_of(studio: Studio, description: str, **more: str) -> str:
    items = [{"description": description, "qty": 1, "unit_price": 10}]
    made = studio.call("POST", f"{studio.project}/invoices", currency="EUR", invoice_items=items, **more)
    return f"{studio.base}/billing/{made['invoice']['id']}"


def test_draft_and_issued_invoice_warn_about_unprintable_characters(studio: Studio) -> None:
    path = draft_of(studio, f"Logo {NO_CHARACTER}{NO_CHARACTER}")
    assert until(lambda: WORDS in text_of(page_of(studio.member, path)))
    assert "install a font that includes them, such as fonts-noto-core" in text_of(page_of(studio.member, path))
    send(studio.owner, f"{path}/send")
    assert WORDS in text_of(page_of(studio.owner, path))
    assert "can’t show these characters" not in page_of(studio.client, path)
    send(studio.owner, f"{path}/void")
    assert "can’t show these characters" not in page_of(studio.owner, path)


def test_names_of_the_parties_are_checked_too(studio: Studio) -> None:
    path = draft_of(studio, "Logo", bill_to=f"Ada {NO_CHARACTER} Lovelace")
    assert until(lambda: WORDS in text_of(page_of(studio.member, path)))


@pytest.mark.parametrize(
    "words", ["Åse Ünal", "Ωμέγα", "Жанна", "“quoted”: 5 €", "→ ✓", "e\u0301", "🎉", "a\u200bb\tc"]
)
def test_printable_characters_cause_no_warning(studio: Studio, words: str) -> None:
    path = draft_of(studio, words)
    known = draft_of(studio, f"{words} {NO_CHARACTER}")  # its warning appears only when all characters are checked
    assert until(lambda: WORDS in text_of(page_of(studio.member, known)))
    assert "can’t show these characters" not in page_of(studio.member, path)


def test_each_character_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    find = documents.find_missing

    async def find_missing(characters: str, *, timeout_s: float) -> set[str]:
        asked.append(characters)
        return await find(characters, timeout_s=timeout_s)

    monkeypatch.setattr(documents, "find_missing", find_missing)
    monkeypatch.setattr(unprintable, "WAIT_S", 60.0)

    async def run() -> list[str]:
        known = FontKnowledge()
        texts = ("Only Latin", "→ \ufdd0", "✓ → \ufdd0 \ufdd1", "\ufdd1 →")
        both = await asyncio.gather(*(known.missing_in(texts[1]) for _ in range(3)))
        return [*both[:1], *[await known.missing_in(each) for each in texts]]

    assert asyncio.run(run()) == ["\ufdd0", "", "\ufdd0", "\ufdd0\ufdd1", "\ufdd1"]
    assert asked == ["→\ufdd0", "✓\ufdd1"]


def test_a_failed_check_causes_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unprintable, "CHECK_S", 0.0)
    assert asyncio.run(FontKnowledge().missing_in("\ufdd0")) == ""


def test_the_warning_names_a_package_and_a_few_characters() -> None:
    assert unprintable.package_for("東京") == "fonts-noto-cjk"
    assert unprintable.package_for("ש") == "fonts-noto-core"
    assert unprintable.format_missing("東京\ufdd0") == "東 京 U+FDD0"
    assert unprintable.format_missing("東" * 20).endswith("東 …")
