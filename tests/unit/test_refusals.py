"""Error messages in the reader's language."""

from __future__ import annotations

import ast
import gettext
import pickle
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
from scripts.texts import ENGLISH, message_sentences, stored_in
from workhook.core import errors, json
from workhook.core.errors import (
    Fault,
    Invalid,
    Message,
    Number,
    Problem,
    compose,
    deserialize_message,
    must_be,
    or_null,
    say,
    serialize_message,
)
from workhook.http import parameters
from workhook.http.parameters import LongText, Money, Title, WebAddress
from workhook.identity.audit import LATE_MS, _Alike, _row, _Seen
from workhook.identity.schemas import Account
from workhook.identity.signin import passwords
from workhook.web.frame import refusals, texts
from workhook.work.board.pushes import CLOSED_MAX, closed_by_push, find_closed_numbers

SOURCE = Path(refusals.__file__).parents[2]
SENTENCES = {str(each.id): str(each.string) for each in stored_in(ENGLISH) if each.context is None}
"""The texts that pages show in place of the API's messages."""


@pytest.fixture
def german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "language", lambda: "de")


@cache
def _source_texts() -> frozenset[str]:
    """Return all texts in the source, with `{}` for interpolated values."""
    found = {"", "{}"}
    for node in (each for path in SOURCE.rglob("*.py") for each in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            found.add("".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values))
    return frozenset(found)


@cache
def _composed() -> list[list[str]]:
    """Return the parts of each text with interpolated values."""
    return [each.split("{}") for each in _source_texts() if "{}" in each and each.strip("{} ")]


@cache
def _is_said(sentence: str) -> bool:
    """Return whether the sentence is a text in the source, or composed of several."""
    if sentence in _source_texts() or sentence.replace("{{", "{").replace("}}", "}") in _source_texts():
        return True
    for pieces in (each for each in _composed() if all(map(sentence.__contains__, each))):
        found = re.fullmatch(r"(\{\}|.*?)".join(map(re.escape, pieces)), sentence, re.DOTALL)
        if found and sentence not in found.groups() and all(map(_is_said, found.groups())):
            return True
    return False


@pytest.mark.parametrize("sentence", sorted(SENTENCES))
def test_every_translated_sentence_exists_in_the_source(sentence: str) -> None:
    """After a change in the source, pages would show the API's message instead of the translated sentence."""
    assert _is_said(sentence)


class Wanted(msgspec.Struct):
    """Fields of every kind used in forms."""

    title: Title
    description: LongText
    homepage_url: WebAddress
    price: Money
    number: int
    priority: Annotated[int, msgspec.Meta(ge=1, le=3)]


@pytest.mark.usefixtures("german")
def test_field_errors_are_translated_to_german() -> None:
    given = {"title": "x" * 256, "description": "ü" * 70_000, "homepage_url": "x", "price": "-1", "priority": "4"}
    with pytest.raises(Invalid) as refused:
        parameters.gather(Wanted, {name: [value] for name, value in given.items()}, {})
    said = {each.field: refusals.in_words(each.message or "") for each in refused.value.faults}
    assert said == {
        "title": "„Titel“ muss 1 bis 255 Zeichen haben",
        "description": "„Beschreibung“ darf höchstens 64 KiB Text enthalten",
        "homepage_url": "„Website“ muss mit http:// oder https:// beginnen",
        "price": "„price“ muss eine Zahl von mindestens 0 sein",
        "number": "Bitte ausfüllen: number",
        "priority": "„Priorität“ muss eine ganze Zahl von 1 bis 3 sein",
    }


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("Not Found", "Diese Seite gibt es nicht, oder Sie haben keinen Zugriff darauf."),
        (
            say("You have been signed out. {}", say("Sign in again.")),
            "Sie wurden abgemeldet. Bitte melden Sie sich neu an.",
        ),
        (
            say("Too many {}. Try again in {}.", say("failed sign-in attempts"), say("{} seconds", 90)),
            "Zu viele fehlgeschlagene Anmeldeversuche. Versuchen Sie es in 90 Sekunden erneut.",
        ),
        (say("Clients cannot {}.", "change columns"), "Kunden können das nicht."),
        (say("login {} is taken", "{0} %s"), "Der Benutzername {0} %s ist vergeben. Wählen Sie einen anderen."),
        ("Nobody has translated this.", "Nobody has translated this."),
        (must_be("note", "as nobody {wrote} it"), "note must be as nobody {wrote} it"),
        (must_be("note", or_null(compose("text of {} to {} characters", 1, 9))), "„Notiz“ muss 1 bis 9 Zeichen haben"),
    ],
)
def test_messages_are_translated_to_german(english: str, expected: str) -> None:
    assert refusals.in_words(english) == expected


@pytest.mark.usefixtures("german")
def test_password_errors_are_translated_to_german() -> None:
    ada = Account(1, "user", "ada-lovelace", "Ada Lovelace", "countess@example.com", None, 0, 0)
    found = passwords.faults_of("workhook\0", ada)
    assert len(found) > 2
    assert [each for each in found if refusals.in_words(each) == each] == []


_SHORT = compose("text of {} to {} characters", 1, 255)


@pytest.mark.parametrize(
    ("api", "page"),
    [
        (say("Clients cannot {}.", "change columns"), "Clients cannot change columns."),
        (must_be("title", _SHORT), "Title must have 1 to 255 characters"),
        (must_be("name", or_null(_SHORT)), "Name must have 1 to 255 characters"),
        (
            must_be("rate_limit", compose("a whole number from {} to {}", 1, 10000)),
            "Maximum deliveries per second must be a whole number from 1 to 10000",
        ),
        ("url cannot be blank", "Enter a payload URL."),
        (say("login {} is taken", "ada"), "The login ada is taken. Choose another."),
        (
            "The project is archived; unarchive it (archive: false) to change it.",
            "This project is archived. Unarchive it to make changes.",
        ),
        ("task_id must be a task of the project", "Choose a task in this project."),
        (
            "start_time or duration is required with end_time",
            "Enter a start or a duration as well.",
        ),
        (say("callback_urls can have at most {} URLs", 10), "Enter at most 10 callback URLs."),
        (
            say("You need the admin role in the project {} to change {}.", "acme/website", "`name` and `private`"),
            "Only admins of the project acme/website can change this.",
        ),
        ("Nobody has reworded this.", "Nobody has reworded this."),
    ],
)
def test_messages_are_reworded_for_english_pages(api: str, page: str) -> None:
    assert refusals.in_words(api) == page


def test_translating_a_page_sentence_again_does_not_change_it() -> None:
    """Templates translate sentences again that code has already translated."""
    for sentence in SENTENCES.values():
        said = sentence.format(*range(9)) if ":label" not in sentence else sentence
        assert refusals.in_words(said) == said


_API_NAME = re.compile(r"\w_\w|\b(active|true|false|null|slug|client id|timesheet|checkout|task_id)\b")
_NAMES_OF_NO_FIELD = ("This form has expired", "The address must have 1 to")
_HOLE = re.compile(r"\{(\d*)(?::label)?\}")


def test_page_sentences_contain_no_api_names() -> None:
    told = [each for each in SENTENCES.values() if not each.startswith(_NAMES_OF_NO_FIELD)]
    assert [each for each in told if _API_NAME.search(_HOLE.sub("", each))] == []


def _holes(sentence: str) -> set[int]:
    return {int(number or at) for at, number in enumerate(_HOLE.findall(sentence.replace("{{", "").replace("}}", "")))}


def test_translations_keep_all_values_unless_omitted_on_purpose() -> None:
    """The German sentence also includes the submitted value or the subject."""
    german = gettext.translation("workhook", LOCALES, languages=["de"])
    for sentence in SENTENCES.keys() | message_sentences():
        english = SENTENCES.get(sentence, sentence)
        assert _holes(english) <= _holes(sentence), sentence
        left_out = _holes(english) - _holes(german.gettext(sentence))
        assert not left_out or re.search(r"[Cc]an(not| only)? {}|to {}\.", sentence), sentence


def test_a_message_survives_serialization() -> None:
    inner = say("{} and {} more", "a", Number(1_200))
    message = say("no user matches {}", inner)
    assert message == "no user matches a and 1,200 more"
    line = msgspec.json.encode([message], enc_hook=serialize_message)
    [read] = msgspec.json.decode(line, type=list[Message], dec_hook=deserialize_message)
    assert (read, read.id, read.values) == (message, message.id, (inner,))
    assert isinstance(phrase := read.values[0], Message)
    assert phrase.values == ("a", 1_200)
    assert pickle.loads(pickle.dumps(read)).values == (inner,)
    assert json.encode([message]) == b'["no user matches a and 1,200 more"]'


# --- late refusals ----------------------------------------------------------------------------------------------------
# Refusals recorded after a database outage have the time of writing.


AT = 1_700_000_000_000
KEY = _Alike(1, None, 2, 3, None, "127.0.0.1", "hook.list", 403, "hooks", "forbidden")


def test_a_refusal_recorded_in_time_has_its_own_time() -> None:
    row = _row(KEY, _Seen(AT, "r", 1), AT + LATE_MS)
    assert (row["at"], json.decode(str(row["detail"]))) == (AT, {"reason": "forbidden"})


def test_a_refusal_recorded_late_has_the_time_of_writing() -> None:
    row = _row(KEY, _Seen(AT, "r", 1), now := AT + LATE_MS + 1)
    told = {"reason": "forbidden", "refused_at": "2023-11-14T22:13:20.000Z"}
    assert (row["at"], json.decode(str(row["detail"]))) == (now, told)


# --- closing messages -------------------------------------------------------------------------------------------------
# The tasks that commit messages close.


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
def test_closing_keywords_are_found_in_commit_messages(message: str, numbers: list[int]) -> None:
    assert find_closed_numbers(message, NAME) == numbers


def commit(number: str, message: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "message": message, "committer": {"email": "ada@example.com"}, **more}


def numbers(**payload: Any) -> list[tuple[int, str]]:
    return [(number, each.id) for number, each in closed_by_push({"ref": "refs/heads/main", **payload}, NAME)]


def test_a_push_closes_the_tasks_named_in_its_commits() -> None:
    commits = [commit("a", "closes #1, #2"), commit("b", "fixes #1"), commit("a", "closes #9")]
    assert numbers(commits=commits) == [(1, "a"), (2, "a"), (1, "b")]
    assert numbers(commits=commits, head_commit=commit("c", "fixes #3"))[-1] == (3, "c")
    many = " ".join(f"closes #{number}" for number in range(1, CLOSED_MAX + 9))
    assert len(numbers(commits=[commit("a", many)])) == CLOSED_MAX


def test_only_pushes_to_the_default_branch_close_tasks() -> None:
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
def test_arbitrary_published_payloads_can_be_parsed(payload: dict[str, Any]) -> None:
    closed_by_push(payload, NAME)


PROTOCOL = {"Malformed", "UnsupportedMediaType", "TooLarge"}  # for requests that no page of the server sends


def _formatted() -> Iterator[str]:
    """Yield refusals on pages whose text is formatted before it can be translated."""
    for area in ("work", "web"):
        for path in sorted((SOURCE / area).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
                kind = getattr(errors, name, None)
                if name in PROTOCOL or not (kind is Fault or (isinstance(kind, type) and issubclass(kind, Problem))):
                    continue
                assert isinstance(node, ast.Call)
                messages = [each.value for each in node.keywords if each.arg == "message"]
                messages += node.args if kind is not Fault else []
                if any(isinstance(each, ast.JoinedStr) for each in messages):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_refusals_on_pages_are_translated_before_formatting() -> None:
    assert list(_formatted()) == []
