"""What the server says where it refuses something, in the reader's language."""

from __future__ import annotations

import ast
import gettext
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from hatch_build import LOCALES
from workhook.core.errors import Invalid
from workhook.http import parameters
from workhook.http.parameters import LongText, Money, Title, WebAddress
from workhook.identity.schemas import Account
from workhook.identity.signin import passwords
from workhook.web.frame import refusals, texts

SOURCE = Path(refusals.__file__).parents[2]
HOLE = "\N{REPLACEMENT CHARACTER}"  # stands for what an f-string fills in
# Made of several pieces, so that no text of the source is the whole.
IN_PIECES = {
    "%(field)s must be %(wanted)s",
    "%(thing)s: others have worked on it, so a client cannot delete it; ask a member of the team to delete it.",
    "url is not supported because it isn't reachable over the public Internet (%(host)s). To deliver to a private "
    "network, start the server with --allow-network.",
    "This form is out of date, or was not sent from a page of this server. Go back, reload the page and try again. "
    "If this is the right address: whoever runs the server sets base_url, or trust_proxy behind a proxy.",
    "Sign in again.",
}


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "language", lambda: "de")
    monkeypatch.setattr(refusals, "language", lambda: "de")


def _texts_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else HOLE for each in node.values)


@cache
def _source_texts() -> frozenset[str]:
    files = [each for each in SOURCE.rglob("*.py") if each != Path(refusals.__file__)]
    return frozenset(text for each in files for text in _texts_of(ast.parse(each.read_text())))


@pytest.mark.parametrize("sentence", sorted({*refusals.SENTENCES, *refusals.PHRASES} - IN_PIECES))
def test_the_server_still_says_it(sentence: str) -> None:
    """A sentence that was changed where it is said would be shown in English from then on."""
    pattern = refusals.pattern_of(sentence)
    assert any(pattern.fullmatch(each) for each in _source_texts()), sentence


class Wanted(msgspec.Struct):
    """Fields of every kind that forms of pages have."""

    title: Title
    description: LongText
    homepage_url: WebAddress
    price: Money
    number: int
    priority: Annotated[int, msgspec.Meta(ge=1, le=3)]


@pytest.mark.usefixtures("german")
def test_what_a_field_has_to_be_is_said_in_german() -> None:
    given = {"title": "x" * 256, "description": "ü" * 70_000, "homepage_url": "x", "price": "-1", "priority": "4"}
    with pytest.raises(Invalid) as refused:
        parameters.gather(Wanted, {name: [value] for name, value in given.items()}, {})
    said = {each.field: refusals.in_words(each.message or "") for each in refused.value.faults}
    assert said == {
        "title": "Titel: muss ein Text mit 1 bis 255 Zeichen sein",
        "description": "Beschreibung: muss höchstens 64 KiB Text sein",
        "homepage_url": "Website: muss eine Adresse mit http oder https sein",
        "price": "price: muss eine Zahl ab 0 mit höchstens zwei Nachkommastellen sein",
        "number": "Bitte ausfüllen: number",
        "priority": "Priorität: muss eine ganze Zahl von 1 bis 3 sein",
    }


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("Not Found", "Das gibt es hier nicht, oder Sie dürfen es nicht sehen."),
        ("You have been signed out. Sign in again.", "Sie wurden abgemeldet. Bitte melden Sie sich neu an."),
        (
            "There were too many failed attempts to sign in. Try again in 90 seconds.",
            "Es gab zu viele fehlgeschlagene Anmeldeversuche. Bitte versuchen Sie es in 90 Sekunden noch einmal.",
        ),
        ("Clients cannot change columns.", "Kunden ist das nicht möglich."),
        ("login %(who)s is taken", "Der Benutzername %(who)s ist vergeben"),
        ("Nobody has translated this.", "Nobody has translated this."),
        ("note must be as nobody wrote it", "note must be as nobody wrote it"),
    ],
)
def test_a_sentence_in_german(english: str, expected: str) -> None:
    assert refusals.in_words(english) == expected


@pytest.mark.usefixtures("german")
def test_what_is_wrong_with_a_password_is_said_in_german() -> None:
    ada = Account(1, "user", "ada-lovelace", "Ada Lovelace", "countess@example.com", None, 0, 0)
    found = passwords.faults_of("workhook\0", ada)
    assert len(found) > 2
    assert [each for each in found if refusals.in_words(each) == each] == []


def test_in_english_a_sentence_stays() -> None:
    assert refusals.in_words("Clients cannot change columns.") == "Clients cannot change columns."


def test_every_sentence_has_all_that_differs_or_leaves_it_out_on_purpose() -> None:
    """What somebody sent, or what it is about, is told in German, too."""
    german = gettext.translation("workhook", LOCALES, languages=["de"])
    left_out = {"doing", "place", "thing"}
    for sentence in (*refusals.SENTENCES, *refusals.WANTED, *refusals.PHRASES):
        names = set(refusals.pattern_of(sentence).groupindex) - left_out
        assert all(f"%({name})s" in german.gettext(sentence) for name in names), sentence
