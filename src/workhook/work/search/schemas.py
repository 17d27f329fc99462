"""What is searched for, and what is found."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from workhook.core.clock import to_millis_text
from workhook.http.lists import PER_PAGE_DEFAULT, ListQuery
from workhook.work.search.excerpts import excerpt
from workhook.work.search.match import QUERY_MAX_CHARS

Kind = Literal["task", "task_comment", "file", "file_comment", "file_comment_reply"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class SearchQuery(ListQuery, kw_only=True):
    """`q` is words; what is found has each of them."""

    q: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=QUERY_MAX_CHARS,
            description="Words. What is found has each of them, the last perhaps as the beginning of a word. Neither "
            "case counts nor accents on Latin letters. Nothing but the words counts: there are no operators.",
        ),
    ]
    project_id: Annotated[str, Meta(description="Only in this project.")] | UnsetType = UNSET
    type: Annotated[Kind, Meta(description="Only this kind.")] | UnsetType = UNSET

    @property
    def limit(self) -> int:
        """Rows of a page. A search is never answered whole."""
        return PER_PAGE_DEFAULT if isinstance(self.per_page, UnsetType) else self.per_page

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return KINDS if isinstance(self.type, UnsetType) else (self.type,)


class FoundIn(msgspec.Struct, frozen=True):
    """The project, task or file in which something was found."""

    id: str
    title: str


class SearchResult(msgspec.Struct):
    """Something that was found. `id` is an integer for comments and replies.

    A comment has as `title` that of the task or file it is about, which is in `task` or `file`, too; a reply has
    besides the `file_comment_id` of what it answers.
    """

    type: Kind
    id: str | int
    title: str
    excerpt: Annotated[str | None, Meta(description="Plain text from around what was found; null without any text.")]
    project: FoundIn
    task: FoundIn | None
    file: FoundIn | None
    file_comment_id: int | None
    created_at: str
    updated_at: str


class SearchAnswer(msgspec.Struct):
    """`incomplete_results`: the caller sees more that has the words, which is older than what is found."""

    results: list[SearchResult]
    incomplete_results: bool = False
    success: bool = True


class FoundRecord(msgspec.Struct, frozen=True):
    """As it is stored. `number` is the id of a comment or reply, else 0; `place_id` that of the task or file."""

    kind: Kind
    number: int
    place_id: str
    title: str
    text: str | None
    project: FoundIn
    file_comment_id: int | None
    created_at: int
    updated_at: int


def search_result(found: FoundRecord, words: str) -> SearchResult:
    """`words` is what was searched for, as `match.words_of` made it."""
    place = FoundIn(found.place_id, found.title)
    in_task = found.kind in ("task", "task_comment")
    return SearchResult(
        type=found.kind,
        id=found.number or found.place_id,
        title=found.title,
        excerpt=excerpt(found.text, words),
        project=found.project,
        task=place if in_task else None,
        file=None if in_task else place,
        file_comment_id=found.file_comment_id,
        created_at=to_millis_text(found.created_at),
        updated_at=to_millis_text(found.updated_at),
    )
