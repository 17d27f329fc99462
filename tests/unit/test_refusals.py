"""What the server says where it refuses something, in the reader's language."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatch_build import LOCALES
from workhook.core import json
from workhook.core.errors import Invalid
from workhook.http import parameters
from workhook.http.parameters import LongText, Money, Title, WebAddress
from workhook.identity.audit import LATE_MS, _Alike, _row, _Seen
from workhook.identity.schemas import Account
from workhook.identity.signin import passwords
from workhook.web.frame import refusals, texts
from workhook.web.frame.api_fields import OF_A_FIELD
from workhook.web.frame.api_sentences import PHRASES, WORDING
from workhook.web.frame.import_remarks import OF_A_CARD, OF_REMARKS
from workhook.work.board.pushes import CLOSED_MAX, closed_by_push, closed_in

SOURCE = Path(refusals.__file__).parents[2]
HOLE = "70"  # a number can stand wherever a text can
# Made of several pieces, so that no text of the source is the whole.
IN_PIECES = {
    "%(thing)s: others have worked on it, so a client cannot delete it; ask a member of the team to delete it.",
    "url is not supported because it isn't reachable over the public Internet (%(host)s). To deliver to a private "
    "network, start the server with --allow-network.",
    "This form is out of date, or was not sent from a page of this server. Go back, reload the page and try again. "
    "If this is the right address: whoever runs the server sets base_url, or trust_proxy behind a proxy.",
    "Sign in again.",
    *(each for each in WORDING if each.startswith("line %(line)s, field %(name)s: ")),  # tests/web/test_importing.py
    "tax_category: a tax that is %(category)s has 0 percent; leave out one of both",
    *(each for each in WORDING if re.search(r" \(%\(numbers\)s\), so it cannot be ", each)),
    *(
        each
        for each in WORDING
        if each.startswith(("The invoice is ", "callback_urls: %(address)s must ", "You need the role admin in the"))
    ),
    *(each for each in OF_A_FIELD if " must be " in each),
    *(each for each in OF_REMARKS if " changed there since" in each),  # tests/unit/test_imports.py
    "its name is cut to 255 characters",
    *(each for each in WORDING if " decimals" in each and "%(currency)s" in each),
}


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "language", lambda: "de")


def _texts_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else HOLE for each in node.values)


_OF_PAGES = ("api_sentences.py", "api_fields.py", "import_sentences.py", "import_remarks.py")


@cache
def _source_texts() -> frozenset[str]:
    files = [each for each in SOURCE.rglob("*.py") if each.name not in _OF_PAGES]
    return frozenset(text for each in files for text in _texts_of(ast.parse(each.read_text())))


@pytest.mark.parametrize("sentence", sorted({*WORDING, *PHRASES, *OF_REMARKS, *OF_A_CARD} - IN_PIECES))
def test_the_server_still_says_it(sentence: str) -> None:
    """A sentence that was changed where it is said would be shown as the API says it from then on."""
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
        "title": "Titel: muss 1 bis 255 Zeichen haben",
        "description": "Beschreibung: darf höchstens 64 KiB Text haben",
        "homepage_url": "Website: muss eine Adresse mit http oder https sein",
        "price": "price: muss eine Zahl ab 0 sein",
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
        ("login %(who)s is taken", "Der Benutzername %(who)s ist vergeben. Bitte wählen Sie einen anderen."),
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


@pytest.mark.parametrize(
    ("api", "page"),
    [
        ("Clients cannot change columns.", "Clients cannot change columns."),
        ("title must be text of 1 to 255 characters", "Title must have 1 to 255 characters"),
        ("name must be text of 1 to 255 characters or null", "Name must have 1 to 255 characters"),
        (
            "rate_limit must be a whole number from 1 to 10000",
            "Most deliveries a second must be a whole number from 1 to 10000",
        ),
        ("url cannot be blank", "Enter the address of the receiver."),
        ("login ada is taken", "The login ada is taken. Choose another."),
        (
            "The project is archived; unarchive it (archive: false) to change it.",
            "The project is archived. Take it out of the archive to change it.",
        ),
        ("task_id must be a task of the project", "The task must be one of this project"),
        (
            "start_time is required with end_time, unless there is a duration",
            "Enter a start or a duration, too.",
        ),
        ("callback_urls may have at most 10 URLs", "There may be at most 10 callback addresses"),
        (
            "You need the role admin in the project acme/website to change `name` and `private`.",
            "Only admins of the project acme/website can change this.",
        ),
        ("Nobody has reworded this.", "Nobody has reworded this."),
    ],
)
def test_a_sentence_in_english(api: str, page: str) -> None:
    assert refusals.in_words(api) == page


def test_a_sentence_of_a_page_stays_where_it_is_read_again() -> None:
    """What code has put into words already is put into words by the template, too."""
    for sentence in WORDING.values():
        said = re.sub(r"%\(\w+\)s", "12", sentence)
        assert refusals.in_words(said) == said


_API_NAME = re.compile(r"\w_\w|\b(active|true|false|null|URL|url|slug|client id|timesheet|checkout|task_id)\b")
_NAMES_OF_NO_FIELD = ("This form is out of date", "The address must have 1 to")


def test_no_sentence_of_a_page_names_what_is_the_api_s() -> None:
    told = [each for each in WORDING.values() if not each.startswith(_NAMES_OF_NO_FIELD)]
    plain = [re.sub(r"%\(\w+\)s", "", each) for each in told]
    assert [each for each in plain if _API_NAME.search(each)] == []


def test_every_sentence_has_all_that_differs_or_leaves_it_out_on_purpose() -> None:
    """What somebody sent, or what it is about, is told in German, too."""
    german = gettext.translation("workhook", LOCALES, languages=["de"])
    for sentence in (*WORDING.values(), *PHRASES, *OF_REMARKS.values(), *OF_A_CARD.values()):
        names = set(refusals.pattern_of(sentence).groupindex) - {"doing"}
        assert all(f"%({name})s" in german.gettext(sentence) for name in names), sentence
    for api, page in (*WORDING.items(), *OF_REMARKS.items(), *OF_A_CARD.items()):
        assert set(refusals.pattern_of(page).groupindex) <= set(refusals.pattern_of(api).groupindex), api


# --- refusals late ---------------------------------------------------------------------------------------------------
# What was refused while the database was away has the time when it was written.


AT = 1_700_000_000_000
KEY = _Alike(1, None, 2, 3, None, "127.0.0.1", "hook.list", 403, "hooks", "forbidden")


def test_in_time() -> None:
    row = _row(KEY, _Seen(AT, "r", 1), AT + LATE_MS)
    assert (row["at"], json.decode(str(row["detail"]))) == (AT, {"reason": "forbidden"})


def test_late() -> None:
    row = _row(KEY, _Seen(AT, "r", 1), now := AT + LATE_MS + 1)
    told = {"reason": "forbidden", "refused_at": "2023-11-14T22:13:20.000Z"}
    assert (row["at"], json.decode(str(row["detail"]))) == (now, told)


# --- closing messages ------------------------------------------------------------------------------------------------
# Which tasks the messages of commits close.


NAME = "acme/website"


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        *((f"{word} #12", [12]) for word in ("close", "closes", "closed", "fix", "fixes", "fixed")),
        *((f"{word} #12", [12]) for word in ("resolve", "resolves", "resolved", "CLOSES", "Fixes")),
        ("Closes: #12", [12]),
        ("closes :#12", [12]),
        ("Closes #12, #3 and #4 & #5, and #6 #7", [12, 3, 4, 5, 6, 7]),
        ("Closes #12, fixes #3\n\nResolves #12.", [12, 3]),
        ("(fixes #12)", [12]),
        ("closes acme/website#12 and ACME/Website#3", [12, 3]),
        ("closes other/website#12, #3", [3]),
        ("closes\n#12", [12]),
        ("See #12", []),
        ("closes #12a, closes #0, closes #012, closes ##12, closes 12", []),
        ("encloses #12, un-fixes #12, closes#12, prefix #12, fixing #12", []),
        ("closes the door of #12", []),
        ("closes #1234567890", []),
        ("", []),
    ],
)
def test_a_message_closes(message: str, numbers: list[int]) -> None:
    assert closed_in(message, NAME) == numbers


def commit(number: str, message: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "message": message, "committer": {"email": "ada@example.com"}, **more}


def numbers(**payload: Any) -> list[tuple[int, str]]:
    return [(number, each.id) for number, each in closed_by_push({"ref": "refs/heads/main", **payload}, NAME)]


def test_a_push_closes_what_its_commits_say() -> None:
    commits = [commit("a", "closes #1, #2"), commit("b", "fixes #1"), commit("a", "closes #9")]
    assert numbers(commits=commits) == [(1, "a"), (2, "a"), (1, "b")]
    assert numbers(commits=commits, head_commit=commit("c", "fixes #3"))[-1] == (3, "c")
    many = " ".join(f"closes #{number}" for number in range(1, CLOSED_MAX + 9))
    assert len(numbers(commits=[commit("a", many)])) == CLOSED_MAX


def test_only_the_default_branch_counts() -> None:
    commits = [commit("a", "closes #1")]
    for ref in ("refs/heads/topic", "refs/tags/main", "main", None, 7):
        assert numbers(ref=ref, commits=commits) == []
    named = {"commits": commits, "repository": {"default_branch": "trunk"}}
    assert numbers(**named) == []
    assert numbers(ref="refs/heads/trunk", **named) == [(1, "a")]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["closes #1", "a", "", "refs/heads/main"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "message", "committer", "email"]), inner),
)


@given(st.dictionaries(st.sampled_from(["ref", "commits", "head_commit", "repository"]), _VALUES))
def test_whatever_is_published_is_read(payload: dict[str, Any]) -> None:
    closed_by_push(payload, NAME)
