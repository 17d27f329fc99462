"""The texts of pages: the choice of language, and the completeness of translations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from hatch_build import LOCALES
from scripts import texts as collecting
from workhook.web.frame import texts

CATALOGS = sorted(LOCALES.glob("*/LC_MESSAGES/workhook.po"))


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (None, "en"),
        ("", "en"),
        ("*", "en"),
        ("de", "de"),
        ("de-AT", "de"),
        ("DE-de, en;q=0.9", "de"),
        ("en, de", "en"),
        ("en;q=0.8, de;q=0.9", "de"),
        ("fr, de;q=0.5, en;q=0.3", "de"),
        ("fr-FR, pt", "en"),
        ("de;q=0", "en"),
        ("de;q=x, en;q=0.1", "en"),
        ("de;q=nan", "en"),
        ("de;q=9", "en"),
    ],
)
def test_the_language_is_negotiated(accepted: str | None, expected: str) -> None:
    assert texts.negotiated(accepted) == expected


def test_languages_and_catalogs_match() -> None:
    there = {each.parent.parent.name for each in CATALOGS}
    assert there == set(texts.LANGUAGES)


def _has_messages(catalog: Path) -> bool:
    with catalog.open("rb") as file:
        return any(each.id for each in read_po(file))


def test_every_text_is_translated() -> None:
    """A catalog with any translation is complete, without missing, unused or fuzzy texts or different placeholders."""
    begun = [each for each in CATALOGS if each != collecting.ENGLISH and _has_messages(each)]
    assert [fault for each in begun for fault in collecting.faults_of(each)] == []


def test_texts_of_templates_and_code_are_collected() -> None:
    found = {each.id for each in collecting.collected()}
    assert {"Sign out", "Page not found", "Board", "“%(title)s” was moved."} <= found


def test_faults_of_a_catalog_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "workhook.po"
    new = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n\nmsgid "Sign out"\nmsgstr ""\n\n'
    path.write_text(f'{new}msgid "Of another time"\nmsgstr "Von früher"\n')
    faults = collecting.faults_of(path)
    assert f"{path}: 'Sign out' is not translated" in faults
    assert f"{path}: 'Of another time' is no longer used" in faults
    assert f"{path}: 'Board' is missing" in faults


def test_placeholders_are_named() -> None:
    """A translation may need another order. In messages, placeholders can be numbered for that."""
    for each in collecting.collected():
        for text in [each.id] if isinstance(each.id, str) else each.id:
            assert not re.search(r"%[sdrf]|(?<!\{)\{\w+\}", text), text
