"""What an import makes: a project, its columns, their tasks and comments, and who is assigned; and what of it is there.

Every key is `KIND:ID` with the id of the other service: by it a later import knows what was made already. It adds what
is not there yet, and leaves alone what is: people go on working on it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from workhook.core import json
from workhook.core.clock import to_millis_text
from workhook.core.errors import shown
from workhook.http.parameters import TEXT_MAX_BYTES, TITLE_MAX_CHARS
from workhook.http.wire_types import read_day_or_moment
from workhook.identity.queries import find_project, key_of
from workhook.identity.schemas import Account, Repository, account_of
from workhook.identity.tables import accounts, memberships, projects
from workhook.storage import Reader, Row, Transaction
from workhook.storage.dialects import any_of
from workhook.storage.metadata import big, in_project, insert_into, metadata
from workhook.work.columns.schemas import Stage, columns, completes
from workhook.work.comments.schemas import CommentedTask
from workhook.work.imports.trello import TrelloMember
from workhook.work.tasks.schemas import tasks

NAMELESS = "(no name)"
_MARK = "…"  # where something was cut
_OBJECT_ID = re.compile(r"[0-9a-f]{24}")


def title_of(text: str, otherwise: str = NAMELESS, limit: int = TITLE_MAX_CHARS) -> str:
    """Trimmed, of at most `limit` characters, and never empty."""
    title = text.strip()
    if len(title) > limit:
        title = title[: limit - len(_MARK)].rstrip() + _MARK
    return title or otherwise


def is_cut(text: str, limit: int = TITLE_MAX_CHARS) -> bool:
    """Whether `title_of` leaves something out."""
    return len(text.strip()) > limit


def within(text: str, limit_bytes: int = TEXT_MAX_BYTES) -> str:
    """At most so many bytes of UTF-8, cut between characters."""
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    if limit_bytes < len(_MARK.encode()):
        return ""
    return data[: limit_bytes - len(_MARK.encode())].decode(errors="ignore") + _MARK


class Distinct:
    """Makes names unlike those it made before: `name`, `name (2)`, `name (3)` …"""

    def __init__(self, limit: int = TITLE_MAX_CHARS) -> None:
        self._limit = limit
        self._last: dict[str, int] = {}  # names that were given out, and the number that was last tried for each

    def __call__(self, name: str) -> str:
        found = name
        while found in self._last:
            self._last[name] += 1
            suffix = f" ({self._last[name]})"
            found = name[: self._limit - len(suffix)] + suffix
        self._last[found] = 1
        return found


def moment_of(text: str) -> int | None:
    """Milliseconds since the epoch; None for what is no time or day from 1970 to 9998."""
    try:
        return read_day_or_moment(text)
    except ValueError:
        return None


def moment_of_id(external_id: str) -> int | None:
    """Trello's ids begin with the second in which they were made, in eight hexadecimal digits."""
    return int(external_id[:8], 16) * 1000 if _OBJECT_ID.fullmatch(external_id) else None


class PlannedColumn(msgspec.Struct, frozen=True):
    key: str
    title: str
    stage: Stage | None = None
    finished: bool = False

    @property
    def completes(self) -> bool:
        """A task that is in such a column is finished."""
        return completes(self.stage, self.finished)


class PlannedComment(msgspec.Struct, frozen=True):
    """`created_at` None: nobody knows."""

    key: str
    text: str
    author: TrelloMember
    created_at: int | None


class PlannedTask(msgspec.Struct, frozen=True):
    """`finished_at`: when, as far as that is known, for a task that is `finished`. Comments are oldest first."""

    key: str
    column_key: str
    title: str
    description: str | None
    deadline: int | None
    cover_url: str | None
    labels: list[str]
    fields: dict[str, str]
    sections: dict[str, dict[str, str]]
    members: list[TrelloMember]
    finished: bool
    finished_at: int | None
    created_at: int | None
    comments: list[PlannedComment]


class ImportPlan(msgspec.Struct, frozen=True):
    """Columns in their order; tasks in the order of their columns, and in each in theirs."""

    source: str
    key: str
    title: str
    columns: list[PlannedColumn]
    tasks: list[PlannedTask]
    warnings: list[str]


def fingerprint(planned: PlannedColumn | PlannedTask | PlannedComment) -> str:
    """Tells two states of one thing of the other service apart. The comments of a task are not part of it."""
    values: Mapping[str, object] = {
        name: getattr(planned, name) for name in planned.__struct_fields__ if name not in ("comments", "finished_at")
    }
    return hashlib.blake2b(json.encode(values), digest_size=12).hexdigest()


class People:
    """Members of the organization by their logins, and by the names that the caller gave them."""

    def __init__(self, members: Iterable[Account], named: Mapping[str, str]) -> None:
        """`named`: login by user name, full name or id in the other service. Raises `KeyError` with a login that is
        no member's."""
        by_login = {key_of(each.login): each for each in members}
        self._by_login = by_login
        for login in named.values():
            if key_of(login) not in by_login:
                raise KeyError(login)
        self._named = {_key(name): by_login[key_of(login)] for name, login in named.items()}

    def find(self, member: TrelloMember) -> Account | None:
        """The account of a member: the one that the caller gave any of its names, else the one of its user name."""
        names = (_key(each) for each in (member.username, member.full_name, member.id) if each.strip())
        named = next((self._named[each] for each in names if each in self._named), None)
        return named or self._by_login.get(_key(member.username))


def _key(name: str) -> str:
    return name.strip().casefold()


MEMBERS = "trello_members"  # the field for those who are nobody here
NAMES_SHOWN = 10


def assign(task: PlannedTask, people: People, seeing: Collection[int]) -> tuple[list[Account], dict[str, str]]:
    """The assignees of a task, oldest account first, and its fields, which name the members who have no account here.
    `seeing`: ids of those who see the project."""
    known = [people.find(each) for each in task.members]
    found = [each if each is not None and each.id in seeing else None for each in known]
    assignees = {each.id: each for each in found if each is not None}
    strangers = [member.display_name for member, account in zip(task.members, found, strict=True) if account is None]
    fields = {**task.fields, MEMBERS: within(", ".join(strangers))} if strangers else task.fields
    return [assignees[account_id] for account_id in sorted(assignees)], fields


def author_and_text(comment: PlannedComment, people: People, importer: Account) -> tuple[Account, str]:
    """Whose the comment is here, and its text: where the author is nobody here, it begins with the name and time."""
    author = people.find(comment.author)
    if author is not None:
        return author, comment.text
    when = f" on {to_millis_text(comment.created_at)[:10]}" if comment.created_at is not None else ""
    return importer, within(f"{comment.author.display_name} wrote{when}:\n\n{comment.text}")


def unknown_people(
    tasks: Sequence[PlannedTask], comments: Sequence[PlannedComment], people: People, hint: str
) -> list[str]:
    """What there is to say about those who are nobody here; nothing where everybody is somebody. `hint`: what can be
    done about it."""
    everybody = [member for task in tasks for member in task.members]
    everybody += [each.author for each in (*comments, *(each for task in tasks for each in task.comments))]
    names = list(dict.fromkeys(each.display_name for each in everybody if people.find(each) is None))
    return [f"nobody here is {name_some(names)}{hint and f': {hint}'}"] if names else []


def name_some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    text = ", ".join(shown(each) for each in names[:NAMES_SHOWN])
    return f"{text} and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else text


# --- what of a plan is not there yet ----------------------------------------------------------------------------------

import_links = sa.Table(
    "import_links",
    metadata,
    sa.Column("account_id", sa.BigInteger, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),  # trello
    sa.Column("external_id", sa.Text, primary_key=True),  # `KIND:ID`, the id as the other service calls it
    in_project(),
    sa.Column("kind", sa.Text, nullable=False),  # project | column | task | task_comment
    sa.Column("internal_id", sa.Text, nullable=False),  # no foreign key: what is deleted here is not made again
    sa.Column("fingerprint", sa.Text, nullable=False),  # of what the other service had when it was imported
    sa.Index("ix_import_links_repository_id", "repository_id"),
)
"""What was made of what, so that an import that is repeated makes nothing twice."""

_of_source = (import_links.c.account_id == big("account_id"), import_links.c.source == sa.bindparam("source"))
_links = (
    sa.select(import_links, projects.c.id.label("project_id"))
    .join_from(import_links, projects, projects.c.repository_id == import_links.c.repository_id)
    .where(*_of_source, any_of(import_links.c.external_id, "keys"), projects.c.deleted_at.is_(None))
)
_forget = sa.delete(import_links).where(
    *_of_source,
    import_links.c.repository_id.in_(
        sa.select(projects.c.repository_id).where(
            projects.c.account_id == big("account_id"), projects.c.deleted_at.is_not(None)
        )
    ),
)
_forget_keys = sa.delete(import_links).where(*_of_source, any_of(import_links.c.external_id, "keys"))
insert_link = insert_into(
    import_links, "account_id", "source", "external_id", "repository_id", "kind", "internal_id", "fingerprint"
)
_columns = sa.select(columns.c.id).where(columns.c.repository_id == big("repository_id"))
_tasks = sa.select(tasks.c.id, tasks.c.title).where(
    tasks.c.repository_id == big("repository_id"), tasks.c.deleted_at.is_(None), any_of(tasks.c.id, "task_ids")
)
_members = (
    sa.select(*(accounts.c[name] for name in Account.__struct_fields__))
    .join_from(accounts, memberships, memberships.c.user_id == accounts.c.id)
    .where(memberships.c.organization_id == big("organization_id"), accounts.c.kind == "user")
    .order_by(accounts.c.id)
)


async def forget_links(tx: Transaction, account_id: int, source: str, gone: Sequence[str]) -> None:
    """Delete the links into projects that were deleted, and those of the keys in `gone`."""
    await tx.execute(_forget, {"account_id": account_id, "source": source})
    if gone:
        await tx.execute(_forget_keys, {"account_id": account_id, "source": source, "keys": list(gone)})


async def members_of(reader: Reader, organization_id: int) -> list[Account]:
    """The members of the organization, oldest first."""
    return [account_of(row) for row in await reader.fetch_all(_members, {"organization_id": organization_id})]


class Counts(msgspec.Struct, frozen=True):
    columns: int
    tasks: int
    comments: int


class Remaining(msgspec.Struct, frozen=True):
    """`repository` None: the project is to be made too. `columns`: ids of those that are there, by key. `again`: keys
    of columns that were deleted here and that new tasks need. `comments`: new ones on tasks that are there, with the
    task. `changed`: titles of tasks that have changed in the other service since they were imported."""

    repository: Repository | None
    columns: dict[str, str]
    again: list[str]
    new_columns: list[PlannedColumn]
    new_tasks: list[PlannedTask]
    comments: list[tuple[CommentedTask, PlannedComment]]
    skipped: Counts
    changed: list[str]

    @property
    def is_empty(self) -> bool:
        return self.repository is not None and not (self.new_columns or self.new_tasks or self.comments)

    @property
    def created(self) -> Counts:
        comments = len(self.comments) + sum(len(each.comments) for each in self.new_tasks)
        return Counts(len(self.new_columns), len(self.new_tasks), comments)


async def remaining_of(reader: Reader, organization: Account, plan: ImportPlan, user_id: int) -> Remaining:
    """What is not there yet, with the role of the user in the project, if there is one."""
    comment_keys = [each.key for task in plan.tasks for each in task.comments]
    keys = [plan.key, *(each.key for each in plan.columns), *(each.key for each in plan.tasks), *comment_keys]
    params = {"account_id": organization.id, "source": plan.source, "keys": keys}
    links = {row["external_id"]: row for row in await reader.fetch_all(_links, params)}
    link = links.get(plan.key)
    repository = await find_project(reader, link["project_id"], user_id) if link else None
    column_ids, titles = set[str](), dict[str, str]()
    if repository is not None:
        column_ids = {row["id"] for row in await reader.fetch_all(_columns, {"repository_id": repository.id})}
        task_ids = [links[each.key]["internal_id"] for each in plan.tasks if each.key in links]
        rows = await reader.fetch_all(_tasks, {"repository_id": repository.id, "task_ids": task_ids})
        titles = {row["id"]: row["title"] for row in rows}
    return _compare(plan, repository, links, column_ids, titles)


def batches_of(plan: ImportPlan, rest: Remaining, size: int) -> Iterator[ImportPlan]:
    """The plan in parts, each with whole tasks of which something is new: `size` tasks and comments in all, or one task
    with its comments. The first part makes the columns; there is one in any case."""
    new_tasks, new_comments = {each.key for each in rest.new_tasks}, {each.key for _, each in rest.comments}
    batch: list[PlannedTask] = []
    left = size
    for task in plan.tasks:
        if task.key not in new_tasks and not any(each.key in new_comments for each in task.comments):
            continue
        weight = 1 + len(task.comments)
        if batch and weight > left:
            yield msgspec.structs.replace(plan, tasks=batch)
            batch, left = [], size
        batch.append(task)
        left -= weight
    yield msgspec.structs.replace(plan, tasks=batch)


def made_in_all(plan: ImportPlan, before: Remaining, done: Sequence[Remaining]) -> Remaining:
    """What all batches made, where `before` was what there was to make; another import may have made a part of it."""
    columns = [column for each in done for column in each.new_columns]
    tasks = [task for each in done for task in each.new_tasks]
    comments = [comment for each in done for comment in each.comments]
    made = len(comments) + sum(len(each.comments) for each in tasks)
    skipped = Counts(
        len(plan.columns) - len(columns),
        len(plan.tasks) - len(tasks),
        before.skipped.comments + before.created.comments - made,
    )
    repository = done[0].repository if done else before.repository
    return msgspec.structs.replace(
        before, repository=repository, new_columns=columns, new_tasks=tasks, comments=comments, skipped=skipped
    )


def _compare(
    plan: ImportPlan,
    repository: Repository | None,
    links: Mapping[str, Row],
    column_ids: set[str],
    titles: dict[str, str],
) -> Remaining:
    """`column_ids` and `titles` of tasks by id: what is still there of what was imported."""
    ids: dict[str, str] = {key: row["internal_id"] for key, row in links.items()}
    new_tasks = [each for each in plan.tasks if each.key not in ids]
    old_tasks = [each for each in plan.tasks if each.key in ids]
    needed = {each.column_key for each in new_tasks}
    columns = {each.key: ids[each.key] for each in plan.columns if ids.get(each.key) in column_ids}
    again = [each.key for each in plan.columns if each.key in ids and each.key not in columns and each.key in needed]
    new_columns = [each for each in plan.columns if each.key not in ids or each.key in again]
    comments = [
        (CommentedTask(ids[task.key], titles[ids[task.key]]), comment)
        for task in old_tasks
        if ids[task.key] in titles
        for comment in task.comments
        if comment.key not in ids
    ]
    known = sum(len(task.comments) for task in old_tasks) - len(comments)
    skipped = Counts(len(plan.columns) - len(new_columns), len(old_tasks), known)
    changed = [each.title for each in old_tasks if fingerprint(each) != links[each.key]["fingerprint"]]
    return Remaining(repository, columns, again, new_columns, new_tasks, comments, skipped, changed)
