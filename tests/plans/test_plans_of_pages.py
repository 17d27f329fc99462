"""The queries of the start page, the account page and calendar feeds read little more than they show.

No API operation makes these queries, so the tests call the functions that the pages use.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal

import pytest
from sqlalchemy.sql.expression import Executable

from tests.harness.databases import Databases
from tests.plans import filled
from tests.plans.captured import Asked
from tests.plans.scene import BOUND, PER_PAGE, Scene, filled_scene
from workhook.core.clock import DAY_MS, MINUTE_MS
from workhook.core.errors import NotFound
from workhook.identity.policy import SCOPES
from workhook.identity.schemas import Account, Actor, Repository
from workhook.storage import Row
from workhook.storage.statements import Params
from workhook.work.board.filters import find_filters
from workhook.work.board.projects.listing import list_newest
from workhook.work.board.tasks import assigned
from workhook.work.discussion import mentions
from workhook.work.discussion.mentions import list_mentions
from workhook.work.history import feeds, notifications
from workhook.work.history.activity import queries as task_history
from workhook.work.history.activity.queries import find_last_edits
from workhook.work.kernel.access import Access
from workhook.work.kernel.lists import NEWEST_FIRST, read
from workhook.work.kernel.scopes import source_of_project
from workhook.work.money import budgets
from workhook.work.money.credits.actions import ENTRIES
from workhook.work.money.invoices import drafts
from workhook.work.money.invoices import queries as due_invoices
from workhook.work.money.invoices.queries import INVOICES, filters_of, list_due
from workhook.work.money.invoices.schemas import InvoiceList
from workhook.work.time.timesheets import queries
from workhook.work.time.timesheets.queries import find_running

READ_MAX = 100
OFTEN = Account(filled.OFTEN_ID, "user", filled.OFTEN_LOGIN, None, None, None, 1, 1)
"""A member of the organization who is assigned thousands of tasks."""

Query = Callable[["RecordingReader"], Awaitable[Any]]


class RecordingReader:
    """A reader that finds nothing and records the statements."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    async def fetch_one(self, statement: Executable, params: Params) -> None:
        self.asked.append(Asked(statement, params))

    async def fetch_row(self, statement: Executable, params: Params) -> defaultdict[str, None]:
        self.asked.append(Asked(statement, params))
        return defaultdict(type(None))

    async def fetch_all(self, statement: Executable, params: Params) -> list[Row]:
        self.asked.append(Asked(statement, params))
        return []

    fetch_slow = fetch_all


def _actor() -> Actor:
    return Actor(OFTEN, 0, "session", frozenset(SCOPES))


def _inbox(unread: bool | None) -> Query:
    return lambda reader: notifications.find_notifications(
        reader,  # type: ignore[arg-type]
        _actor(),
        unread=unread,
        before=2**53,
        limit=PER_PAGE,
    )


ASKS: dict[str, Query] = {
    "assigned": lambda reader: assigned.list_assigned(reader, OFTEN, PER_PAGE),  # type: ignore[arg-type]
    "assigned and finished": lambda reader: assigned.list_assigned(reader, OFTEN, PER_PAGE, finished=True),  # type: ignore[arg-type]
    "due invoices": lambda reader: list_due(reader, OFTEN, PER_PAGE),  # type: ignore[arg-type]
    "mentions": lambda reader: list_mentions(reader, OFTEN, PER_PAGE),  # type: ignore[arg-type]
    **{f"inbox, unread {unread}": _inbox(unread) for unread in (None, True, False)},
    "running": lambda reader: find_running(reader, OFTEN),  # type: ignore[arg-type]
    "own time": lambda reader: queries.list_own_started(
        reader,  # type: ignore[arg-type]
        OFTEN,
        filled.START,
        filled.START + DAY_MS,
        limit=PER_PAGE,
    ),
    "projects": lambda reader: list_newest(reader, _actor(), limit=PER_PAGE),  # type: ignore[arg-type]
    "last edits": lambda reader: find_last_edits(reader, filled.OTHER_REPOSITORY_ID, "task_comment"),  # type: ignore[arg-type]
    "projects of an account": lambda reader: list_newest(
        reader,  # type: ignore[arg-type]
        _actor(),
        limit=PER_PAGE,
        account_id=filled.OTHER_ORGANIZATION_ID,
    ),
    "filters of a board": lambda reader: find_filters(reader, _access()),  # type: ignore[arg-type]
}


def _access(role: Literal["member", "client"] = "member") -> Access:
    owner = Account(filled.OTHER_ORGANIZATION_ID, "organization", "others", None, None, None, 1, 1)
    project = Repository(filled.OTHER_REPOSITORY_ID, "prj_other", owner, "x", "X", False, False, 1, 1)
    return Access(_actor(), project, role)


def _invoices(role: Literal["member", "client"], after: str | None = None) -> Query:
    def ask(reader: RecordingReader) -> Awaitable[Any]:
        source = source_of_project(_access(role))
        return read(
            reader,  # type: ignore[arg-type]
            INVOICES,
            source,
            filters_of(InvoiceList(), source, NOW),
            order=NEWEST_FIRST,
            after=None if after is None else (after,),
            limit=PER_PAGE + 1,
        )

    return ask


def _entries(after: str | None = None) -> Query:
    return lambda reader: read(
        reader,  # type: ignore[arg-type]
        ENTRIES,
        source_of_project(_access()),
        {},
        order=NEWEST_FIRST,
        after=None if after is None else (after,),
        limit=PER_PAGE + 1,
    )


async def _of_key(reader: RecordingReader) -> None:
    with pytest.raises(NotFound):
        await feeds.get_feed(reader, "k" * 43)  # type: ignore[arg-type]


NOW = filled.START + feeds.BACK_MS + DAY_MS
FEEDS: dict[str, Query] = {
    "due in a project": lambda reader: feeds.list_project_due(reader, _access(), NOW),  # type: ignore[arg-type]
    "due in assigned tasks": lambda reader: feeds.list_own_due(reader, OFTEN, NOW),  # type: ignore[arg-type]
    "feed of a key": _of_key,
    "feeds of a person": lambda reader: feeds.find_feeds(reader, OFTEN, filled.OTHER_REPOSITORY_ID),  # type: ignore[arg-type]
}

BILLING: dict[str, Query] = {
    "invoices": _invoices("member"),
    "earlier invoices": _invoices("member", "inv_000002000"),
    "invoices of a client": _invoices("client"),
    "earlier invoices of a client": _invoices("client", "inv_000002000"),
    "entries of the ledger": _entries(),
    "earlier entries of the ledger": _entries("crd_000002000"),
}


PRESETS: dict[str, Query] = {
    "invoice presets": lambda reader: drafts.find_presets(reader, _access()),  # type: ignore[arg-type]
    "price currency": lambda reader: drafts.find_price_currency(reader, filled.OTHER_ORGANIZATION_ID),  # type: ignore[arg-type]
    "open sums": lambda reader: due_invoices.open_sums(reader, _access()),  # type: ignore[arg-type]
    "default terms": lambda reader: queries.find_default_terms(reader, _access()),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def scene(backend: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assigned, "ASSIGNMENTS_MAX", READ_MAX)
        patch.setattr(feeds, "SCAN_MAX", READ_MAX)
        patch.setattr(mentions, "SCAN_MAX", READ_MAX)
        patch.setattr(notifications, "SCAN_MAX", READ_MAX)
        patch.setattr(feeds, "TASKS_MAX", PER_PAGE)
        patch.setattr(due_invoices, "OPEN_MAX", READ_MAX)
        patch.setattr(task_history, "EDITS_LOOKED_AT", READ_MAX)
        fills = (*filled.PEOPLE, *filled.WORK, *filled.FEEDS, *filled.FILTERS, *filled.MENTIONS, *filled.NOTIFICATIONS)
        with filled_scene(backend, tmp_path_factory.mktemp("pages"), fills) as scene:
            yield scene


@pytest.mark.parametrize("name", ASKS)
def test_a_block_of_a_page_reads_little_more_than_it_shows(scene: Scene, name: str) -> None:
    reader = RecordingReader()
    asyncio.run(_await(ASKS[name](reader)))
    [asked] = reader.asked  # one query per block
    verdicts = scene.judge.judge(*asked)
    # Each task, event and mention that is read is looked up by its key, as is the task's project.
    bound = (
        BOUND + 20 * READ_MAX if name in ("assigned", "mentions", "last edits") or name.startswith("inbox") else BOUND
    )
    assert [f"{each.work}\n{each.plan}" for each in verdicts if each.work > bound] == []


@pytest.mark.parametrize("name", FEEDS)
def test_a_calendar_feed_reads_little_more_than_it_shows(scene: Scene, name: str) -> None:
    reader = RecordingReader()
    asyncio.run(_await(FEEDS[name](reader)))
    bound = BOUND + 20 * READ_MAX if name.startswith("due") else BOUND
    for asked in reader.asked:
        verdicts = scene.judge.judge(*asked)
        assert [f"{each.work}\n{each.plan}" for each in verdicts if each.work > bound] == []


@pytest.mark.parametrize("name", BILLING)
def test_a_page_of_billing_reads_little_more_than_it_shows(scene: Scene, name: str) -> None:
    reader = RecordingReader()
    asyncio.run(_await(BILLING[name](reader)))
    [asked] = reader.asked
    verdicts = scene.judge.judge(*asked)
    assert [f"{each.work}\n{each.plan}" for each in verdicts if each.work > BOUND] == []


@pytest.mark.parametrize("name", PRESETS)
def test_the_defaults_of_a_form_are_found_quickly(scene: Scene, name: str) -> None:
    reader = RecordingReader()
    asyncio.run(_await(PRESETS[name](reader)))
    bound = BOUND + 20 * READ_MAX
    for asked in reader.asked:
        verdicts = scene.judge.judge(*asked)
        assert [f"{each.work}\n{each.plan}" for each in verdicts if each.work > bound] == []


SUMMED: dict[str, Query] = {
    "budget usage": lambda reader: budgets.find_budget_usage(reader, filled.OTHER_REPOSITORY_ID),  # type: ignore[arg-type]
    "unbilled time": lambda reader: queries.find_unbilled_ms(reader, _access()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_a_project_read_only_paused_time_entries_and_those_on_drafts(scene: Scene, name: str) -> None:
    """Recorded time that is not yet summed up is also read; here that is everything."""
    reader = RecordingReader()
    asyncio.run(_await(SUMMED[name](reader)))
    for verdict in scene.judge.judge(*reader.asked[0]):
        assert "ix_timesheets_paused" in verdict.plan
        assert "ix_timesheets_repository_id" not in verdict.plan
        assert "SCAN timesheets" not in verdict.plan
        assert "Seq Scan timesheets" not in verdict.plan


def test_time_that_is_not_billable_is_read_from_the_sums_only(scene: Scene) -> None:
    reader = RecordingReader()
    asyncio.run(_await(queries.find_unbilled_ms(reader, _access(), billable=False)))  # type: ignore[arg-type]
    verdicts = scene.judge.judge(*reader.asked[0])
    assert [each.plan for each in verdicts if "timesheets" in each.plan] == []
    assert [f"{each.work}\n{each.plan}" for each in verdicts if each.work > BOUND] == []


PERIOD_MS = 4 * MINUTE_MS
"""A period in which a few of the thousands of time entries started."""


@pytest.mark.parametrize("user", [None, filled.RARE_LOGIN, filled.OFTEN_LOGIN])
def test_time_to_invoice_is_read_only_for_the_period(scene: Scene, user: str | None) -> None:
    reader, since = RecordingReader(), filled.START
    looking = queries.list_to_invoice(reader, _access(), since, since + PERIOD_MS, limit=PER_PAGE, user=user)  # type: ignore[arg-type]
    asyncio.run(_await(looking))
    [asked] = reader.asked
    verdicts = scene.judge.judge(*asked)
    assert [f"{each.work}\n{each.plan}" for each in verdicts if each.work > BOUND] == []


async def _await(asking: Awaitable[Any]) -> None:
    await asking


def test_the_tables_are_full(scene: Scene) -> None:
    """Otherwise no query could read rows in vain."""
    reader = RecordingReader()
    asyncio.run(_await(assigned.list_assigned(reader, OFTEN, PER_PAGE)))  # type: ignore[arg-type]
    asked = reader.asked[0]
    everything = scene.judge.judge(asked.statement, {**asked.params, "looks_at": 1_000_000})
    assert min(each.work for each in everything) > BOUND + 20 * READ_MAX
