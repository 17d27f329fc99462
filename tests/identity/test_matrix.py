"""Every operation with every kind of token and caller: who is allowed, who is refused, and who gets a 404.

`tests.identity.model` contains the expectations; the operations are those of the server. Cells that cannot differ are
left out. A confined token narrows its user's access, so one such token suffices for users without a role here.
Confinement is stored and evaluated the same way for every kind of token. Expired and revoked tokens are refused before
their user or permissions matter.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest
import sqlalchemy as sa

from tests.harness.depth import is_taken
from tests.harness.many_requests import ManyRequests
from tests.harness.server import Server
from tests.harness.waiting import finish
from tests.identity import model
from tests.identity.asking import (
    Request,
    basic,
    is_destructive,
    is_work,
    key_of,
    nowhere_in_webhooks,
    nowhere_in_work,
    webhook_request,
    work_request,
)
from tests.identity.cast import PEOPLE, SCOPES
from tests.identity.kit import Site, build
from tests.identity.model import ALLOWED, HERE, OTHER_ORGANIZATION, Credential
from tests.work.requests_kit import TABLE as WORK
from workhook.asgi import described
from workhook.http.calls import Services
from workhook.http.operations import GRAPHQL, OAUTH, PAGES, PLACES, SYSTEM, WEBHOOK_API, WORK_API, Operation
from workhook.storage.metadata import metadata

OPERATIONS: tuple[Operation, ...] = described()
WITH_TOKENS = tuple(each for each in OPERATIONS if each.area in (WORK_API, WEBHOOK_API, GRAPHQL))
CONCURRENCY = 12
# Deliveries continue in the background, and refusals are recorded.
UNSTEADY = {
    "audit_log",
    "deliveries",
    "dispatches",
    "lanes",
    "rate_windows",
    "timesheet_changes",
    "timesheet_sums",
    "workers",
    "worker_generation",
    "sign_in_failures",
    "probe",
}


def need_of(operation: Operation) -> model.Need:
    if is_work(operation):
        return model.need_of_work(key_of(operation))
    return model.WEBHOOKS[key_of(operation)]


def expected(operation: Operation, by: Credential) -> str:
    if is_work(operation):
        return model.of_work(key_of(operation), by)
    return model.of_webhooks(key_of(operation), by)


def test_every_operation_has_an_expectation() -> None:
    work = {key_of(each) for each in OPERATIONS if each.area is WORK_API}
    assert work == set(WORK) | {model.STREAM}
    assert {key_of(each) for each in OPERATIONS if each.area in (WEBHOOK_API, GRAPHQL)} == set(model.WEBHOOKS)
    assert all(each.access is None for each in OPERATIONS if each.area in (OAUTH, PAGES, PLACES, SYSTEM))
    assert {each.area for each in OPERATIONS} == {WORK_API, WEBHOOK_API, GRAPHQL, OAUTH, PAGES, PLACES, SYSTEM}


def _scope_sets() -> list[tuple[str, ...]]:
    """Return, for every operation, each sufficient scope alone and all other scopes together."""
    sets = set()
    for operation in WITH_TOKENS:
        if scopes := need_of(operation).scopes:
            sets |= {(scope,) for scope in scopes} | {tuple(sorted(set(SCOPES) - set(scopes)))}
    return sorted(sets)


@pytest.fixture(scope="module")
def site(server: Server) -> Iterator[Site]:
    site = build(server, _scope_sets())
    yield site
    site.close()


# --- the cells -------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    operation: Operation
    by: Credential
    outcome: str

    @property
    def title(self) -> str:
        return f"{self.operation.method} {self.operation.path} by {self.by.name}"


def credentials(site: Site, operation: Operation, programs: Sequence[Credential]) -> Iterator[Credential]:
    """Yield the credentials that the operation may treat differently."""
    need, tokens = need_of(operation), site.tokens
    yield Credential("nobody", "nobody")
    yield from tokens.bad if operation.path in ("/user", "/me", "/repos/{owner}/{repo}/hooks") else tokens.bad[:2]
    yield from programs if need.target in ("app", "client") else programs[:2]
    lacking = tuple(sorted(set(SCOPES) - set(need.scopes)))
    for caller in PEOPLE:
        yield tokens.scoped(caller, "classic", SCOPES)
        if caller in ("owner", "member", "stranger"):
            yield tokens.scoped(caller, "oauth", SCOPES)
            if need.scopes:
                yield tokens.scoped(caller, "classic", lacking)
    if need.scopes:
        yield tokens.scoped("owner", "oauth", lacking)
        yield tokens.scoped("owner", "oauth", need.scopes[:1])
        for scope in need.scopes:
            yield tokens.scoped("owner", "classic", (scope,))
    for caller in (*PEOPLE, "app"):
        for kind in ("installation",) if caller == "app" else ("fine_grained", "app_user"):
            yield from (each for each in tokens.confined(caller, kind) if _can_differ(each, need))


def _programs(site: Site) -> list[Credential]:
    own, other = site.apps[HERE], site.apps["idle"]
    return [
        Credential("the app's JWT", "app", header=f"Bearer {own.jwt()}"),
        Credential("the app's secret", "client", header=basic(*site.cast.oauth_app)),
        Credential("another app's JWT", "app", header=f"Bearer {other.jwt()}", other=True),
        Credential("another app's secret", "client", header=basic(other.client_id, other.secret), other=True),
    ]


def _can_differ(by: Credential, need: model.Need) -> bool:
    if by.place == HERE and by.permissions == model.FULL:
        return by.kind != "app_user" or by.caller in ("owner", "member", "stranger")
    if by.caller == "second":
        return by.place == OTHER_ORGANIZATION and by.kind == "fine_grained"  # an attacker's token
    if by.caller not in ("owner", "app") and (by.caller, by.kind) != ("member", "fine_grained"):
        return False
    return by.place != HERE or (need.permission is not None and not by.has(need.permission))


@pytest.fixture(scope="module")
def cells(site: Site) -> list[Cell]:
    programs = _programs(site)
    every = [
        Cell(operation, by, expected(operation, by))
        for operation in WITH_TOKENS
        for by in credentials(site, operation, programs)
    ]
    return [cell for cell in every if is_taken(cell.title)]


# --- requests --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _http(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=site.server.url, timeout=60, transport=ManyRequests(CONCURRENCY)) as client:
        yield client


async def _ask(client: httpx.AsyncClient, request: Request, by: Credential) -> httpx.Response:
    """Send the request. A stream never ends, so its body is not read."""
    headers = {"Authorization": by.header} if by.header else {}
    asked = client.build_request(request.method, request.path, headers=headers, **request.more)
    response = await client.send(asked, stream=True)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        await response.aclose()
    else:
        await response.aread()
    return response


def ask_all(site: Site, asked: Sequence[tuple[Request, Credential]], *, at_once: int) -> list[httpx.Response]:
    """Send the requests, at most `at_once` concurrently, and return the responses in their order."""

    async def run() -> list[httpx.Response]:
        turn = asyncio.Semaphore(at_once)
        async with _http(site) as client:

            async def one(request: Request, by: Credential) -> httpx.Response:
                async with turn:
                    return await _ask(client, request, by)

            return await asyncio.gather(*(one(*each) for each in asked))

    return finish(run)


async def _contents(services: Services) -> dict[str, int]:
    """Return the number of rows of each table."""
    counted = {}
    for table in sorted(metadata.tables.values(), key=lambda each: each.name):
        if table.name not in UNSTEADY:
            row = await services.database.fetch_one(sa.select(sa.func.count().label("rows")).select_from(table))
            assert row is not None
            counted[table.name] = row["rows"]
    return counted


# --- refused requests ------------------------------------------------------------------------------------------------


def _shared_requests(site: Site, cells: Sequence[Cell]) -> dict[str, Request]:
    """Return one request per operation of work management, about the same object."""
    wanted = {cell.operation.name: cell.operation for cell in cells if is_work(cell.operation)}
    return {name: work_request(site, operation) for name, operation in wanted.items()}


def _request(site: Site, cell: Cell, shared: dict[str, Request]) -> Request:
    if is_work(cell.operation):
        return shared[cell.operation.name]
    return webhook_request(site, cell.operation, cell.by)


def _error_of(response: httpx.Response) -> Any:
    """Return an error's body without members that differ between requests."""
    body = response.json()
    body.pop("request_id", None)
    return body


def test_refused_requests_are_refused_as_expected(site: Site, cells: list[Cell]) -> None:
    refused = [cell for cell in cells if cell.outcome != ALLOWED]
    shared = _shared_requests(site, refused)
    asked = [(_request(site, cell, shared), cell.by) for cell in refused]
    before = site.server.run(_contents)
    answers = ask_all(site, asked, at_once=CONCURRENCY)
    wrong = [
        f"{cell.title}: {answer.status_code}, not {cell.outcome}: {answer.text[:150]}"
        for cell, answer in zip(refused, answers, strict=True)
        if str(answer.status_code) != cell.outcome
    ]
    assert wrong == [], f"{len(wrong)} of {len(refused)}\n" + "\n".join(wrong[:60])
    assert site.server.run(_contents) == before
    _require_hidden(site, refused, shared, answers)


def _require_hidden(
    site: Site, refused: Sequence[Cell], shared: dict[str, Request], answers: Sequence[httpx.Response]
) -> None:
    """Check that responses for hidden objects are identical to those for missing ones."""
    hidden = {cell.operation.name: cell for cell in refused if cell.outcome == "404"}
    asked = [
        (
            nowhere_in_work(cell.operation, shared[name])
            if is_work(cell.operation)
            else nowhere_in_webhooks(site, cell.operation, cell.by),
            cell.by,
        )
        for name, cell in hidden.items()
    ]
    nowhere = dict(zip(hidden, ask_all(site, asked, at_once=CONCURRENCY), strict=True))
    assert {name for name, answer in nowhere.items() if answer.status_code != 404} == set()
    for cell, answer in zip(refused, answers, strict=True):
        if cell.outcome == "404":
            assert _error_of(answer) == _error_of(nowhere[cell.operation.name]), cell.title


# --- allowed requests ------------------------------------------------------------------------------------------------

# Operations that end an object come after those that use it.
_ENDINGS = (
    "PUT /app/installations/{}/suspended", "DELETE /app/installations/{}/suspended", "DELETE /app/installations/{}",
    "PUT /orgs/{}/installations/{}/suspended", "DELETE /orgs/{}/installations/{}/suspended",
    "DELETE /orgs/{}/installations/{}", "DELETE /orgs/{}/apps/{}/tokens", "DELETE /orgs/{}/apps/{}",
    "DELETE /orgs/{}/oauth-apps/{}/tokens", "DELETE /orgs/{}/oauth-apps/{}",
)  # fmt: skip
REVOKES_ITSELF = "DELETE /installation/token"


def _order_of(cell: Cell) -> int:
    key = key_of(cell.operation)
    return _ENDINGS.index(key) + 1 if key in _ENDINGS else 0


def _is_allowed(cell: Cell, answer: httpx.Response) -> bool:
    """Return whether the request succeeded, or was refused because of its content rather than its caller."""
    if answer.is_success:
        return True
    missing = answer.status_code == 404 and key_of(cell.operation).endswith(NOT_THERE)
    return missing or answer.status_code in (409, 422)


# These name a missing secret, key or token, so that the existing one remains for further requests.
NOT_THERE = (
    "/secrets/{}", "/keys/{}", "/applications/{}/token", "/applications/{}/grant", "/applications/{}/token/scoped",
    "/invitations/{}", "DELETE /repos/{}/{}/collaborators/{}",
)  # fmt: skip


def test_allowed_requests_are_allowed(site: Site, cells: list[Cell]) -> None:
    chosen = [cell for cell in cells if cell.outcome == ALLOWED and key_of(cell.operation) != REVOKES_ITSELF]
    ends = {cell.operation.name: cell for cell in chosen if _order_of(cell)}  # an object can be ended only once
    chosen = [*(cell for cell in chosen if not _order_of(cell)), *sorted(ends.values(), key=_order_of)]
    shared = _shared_requests(site, chosen)
    asked = []
    for cell in chosen:
        again = is_destructive(cell.operation)
        if is_work(cell.operation):
            request = work_request(site, cell.operation) if again else shared[cell.operation.name]
        else:
            request = webhook_request(site, cell.operation, cell.by, fresh=again)
        asked.append((request, cell.by))
    answers = ask_all(site, asked, at_once=1)
    wrong = [
        f"{cell.title}: {answer.status_code}: {answer.text[:150]}"
        for cell, answer in zip(chosen, answers, strict=True)
        if not _is_allowed(cell, answer)
    ]
    assert wrong == [], f"{len(wrong)} of {len(chosen)}\n" + "\n".join(wrong[:60])
    _require_confined_lists(site, chosen, answers)
    _require_headers(chosen, answers)


def test_an_installation_token_can_revoke_itself(site: Site) -> None:
    operation = next(each for each in OPERATIONS if key_of(each) == REVOKES_ITSELF)
    token = f"Bearer {site.tokens.by['app', 'installation', 'thrown away']}"
    by = Credential("an installation", "installation", "app", token)
    request = webhook_request(site, operation, by)
    assert [each.status_code for each in ask_all(site, [(request, by)] * 2, at_once=1)] == [204, 401]


def _require_confined_lists(site: Site, cells: Sequence[Cell], answers: Sequence[httpx.Response]) -> None:
    """Check that lists that span projects include this one only for callers who can see it elsewhere."""
    for cell, answer in zip(cells, answers, strict=True):
        key = key_of(cell.operation)
        if not is_work(cell.operation) or key not in model.SPANNING or key in ("GET /me", "GET /trash"):
            continue
        if key == "GET /services":
            shown = cell.by.caller in ("owner", "member", "app") and cell.by.place != OTHER_ORGANIZATION
            assert (len(answer.json()["services"]) > 0) == shown, cell.title
            continue
        shown = model.shows_the_project(cell.by)
        if key == "GET /reports/timesheets":
            shown = shown and cell.by.caller != "client"
            assert (answer.json()["totals"]["timesheets"] > 0) == shown, cell.title
            continue
        if key == "GET /timesheets":
            shown = shown and cell.by.caller != "client"
        if key in ("GET /timesheets/running", "GET /invoices", "GET /comments") and shown:  # the list may be empty
            continue
        assert (site.here.project_id in answer.text) == shown, cell.title


def _require_headers(cells: Sequence[Cell], answers: Sequence[httpx.Response]) -> None:
    for cell, answer in zip(cells, answers, strict=True):
        need, by = need_of(cell.operation), cell.by
        if need.target in ("app", "client"):
            continue
        if by.kind in ("classic", "oauth"):
            assert answer.headers["x-oauth-scopes"] == ", ".join(sorted(by.scopes)), cell.title
        else:
            assert "x-oauth-scopes" not in answer.headers, cell.title
        if cell.operation.access is None:
            continue
        assert answer.headers["x-accepted-oauth-scopes"] == ", ".join(sorted(need.scopes)), cell.title
        wanted = "=".join(need.permission) if need.permission else None
        assert answer.headers.get("x-accepted-github-permissions") == wanted, cell.title


# --- pages and endpoints without tokens ------------------------------------------------------------------------------


def test_endpoints_without_tokens_ignore_them(site: Site) -> None:
    """Pages require a session, the token endpoint requires a client, and the system endpoints require nothing."""
    owner = site.tokens.scoped("owner", "classic", SCOPES)
    nobody = Credential("nobody", "nobody")
    without_tokens = [each for each in OPERATIONS if each.area in (OAUTH, PAGES, PLACES, SYSTEM)]
    for operation in without_tokens:
        request = Request(operation.method, re.sub(r"\{\w+\}", "no-such", operation.path))
        first, second = ask_all(site, [(request, nobody), (request, owner)], at_once=1)
        assert first.status_code == second.status_code, operation.name
        assert first.headers.get("location") == second.headers.get("location"), operation.name
        assert site.here.owner not in second.text, operation.name
