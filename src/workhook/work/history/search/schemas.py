"""Queries and results of the search, and the excerpts that show text around the matching words."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.http.lists import PER_PAGE_DEFAULT, ListQuery
from workhook.storage import Row
from workhook.work.board.tasks.matching import QUERY_MAX_CHARS, fold_letter, fold_text
from workhook.work.money.invoices.schemas import name_of

Kind = Literal["task", "task_comment", "file", "file_comment", "file_comment_reply", "invoice", "credit_note"]
KINDS: tuple[Kind, ...] = get_args(Kind)

DRAFT = name_of(None)
"""The title of an invoice without a number."""

EXCERPT_CHARS = 200
_BEFORE = 60  # characters shown before the matching word
_SPACES = re.compile(r"\s+")
_MORE = "…"


class SearchQuery(ListQuery, kw_only=True):
    """A search. Every result contains all the words of `q`."""

    q: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=QUERY_MAX_CHARS,
            description="Words to search for. Results contain all of them; the last one may be a prefix. In "
            "titles, names, and invoice numbers, words of three or more characters also match inside "
            "other words. `#12` finds tasks with that number, `owner/name#12` in one project. Case "
            "and accents on Latin letters are ignored, and `ß` equals `ss`. There are no operators.",
        ),
    ]
    project_id: Annotated[str, Meta(description="Only in this project.")] | UnsetType = UNSET
    type: Annotated[Kind, Meta(description="Only this kind.")] | UnsetType = UNSET

    @property
    def limit(self) -> int:
        """Return the page size. Search results are always paginated."""
        return PER_PAGE_DEFAULT if isinstance(self.per_page, UnsetType) else self.per_page

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return KINDS if isinstance(self.type, UnsetType) else (self.type,)


class SearchResultParent(msgspec.Struct, frozen=True):
    """The project, task, file or invoice that contains a result."""

    id: str
    title: str


class SearchResult(msgspec.Struct):
    """A search result. `id` is an integer for comments and replies.

    The `title` of a comment is that of its task or file, which is also in `task` or `file`. A reply also has the
    `file_comment_id` of the comment it answers. The `title` of an invoice or credit note is its number, and the
    `excerpt` of an invoice is the name of the client who pays.
    """

    type: Kind
    id: str | int
    number: Annotated[
        int | None,
        Meta(description="Number of the task, or of a comment's task; null for files."),
    ]
    title: str
    excerpt: Annotated[str | None, Meta(description="Plain text around the matches; null without text.")]
    project: SearchResultParent
    task: SearchResultParent | None
    file: SearchResultParent | None
    invoice: SearchResultParent | None
    file_comment_id: int | None
    created_at: str
    updated_at: str


class SearchAnswer(msgspec.Struct):
    """A page of search results. `incomplete_results` is true if older matches exist that are not listed."""

    results: list[SearchResult]
    incomplete_results: bool = False
    success: bool = True


def search_result(row: Row, words: str) -> SearchResult:
    kind = KINDS[row["kind"]]
    invoice, title = None, row["title"] or DRAFT
    if row["invoice_id"] is not None:
        invoice = SearchResultParent(row["invoice_id"], row["invoice_number"] or DRAFT)
    place, in_task = SearchResultParent(row["place_id"], title), kind in ("task", "task_comment")
    return SearchResult(
        type=kind,
        id=row["number"] or row["place_id"],
        number=row["task_number"],
        title=title,
        excerpt=excerpt(row["text"], words),
        project=SearchResultParent(row["project_id"], row["project_title"]),
        task=place if in_task else None,
        file=None if in_task or invoice else place,
        invoice=invoice,
        file_comment_id=row["file_comment_id"],
        created_at=to_millis_text(row["created_at"]),
        updated_at=to_millis_text(row["updated_at"]),
    )


def excerpt(text: str | None, words: str) -> str | None:
    """Return at most `EXCERPT_CHARS` characters on one line, with `…` for omissions, or None if there is no text.

    The excerpt starts shortly before the first occurrence of any of `words`, or else at the beginning.
    """
    line = _SPACES.sub(" ", text or "").strip()
    if not line:
        return None
    start = _start(line, words)
    if start:
        start = line.find(" ", start) + 1 or start  # start with a whole word
    room = EXCERPT_CHARS - (len(_MORE) if start else 0)
    part = line[start : start + room]
    if start + room < len(line):
        part = part[: room - len(_MORE)].rstrip() + _MORE
    return _MORE + part if start else part


def _start(line: str, words: str) -> int:
    letters, places = fold(line)
    found = [at for word in words.split() if (at := letters.find(fold_text(word))) >= 0]
    first = places[min(found)] if found else 0
    return first - _BEFORE if first > _BEFORE else 0


def fold(text: str) -> tuple[str, list[int]]:
    """Return the letters of a text, normalized for comparison, and the place of each in the text.

    The last place is the length of the text.
    """
    found = [fold_letter(character) for character in text]
    places = [at for at, letters in enumerate(found) for _ in letters]
    return "".join(found), [*places, len(text)]
