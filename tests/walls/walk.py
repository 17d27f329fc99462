"""Every operation of the server, requested in A by every kind of caller that it may treat differently.

`tests.identity.asking` provides the requests, so an operation without one fails there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import httpx

from tests.identity.asking import basic, is_destructive, is_work, key_of, webhook_request, work_request
from tests.identity.cast import SCOPES
from tests.identity.kit import Site
from tests.identity.model import FULL, HERE, STREAM, WEBHOOKS, Credential, need_of_work
from tests.walls.spares import COMING, Asked, about_a_spare
from workhook.asgi import described
from workhook.http.operations import GRAPHQL, WEBHOOK_API, WORK_API, Operation

if TYPE_CHECKING:
    from tests.walls.world import Walls

OPERATIONS: tuple[Operation, ...] = described()
WITH_TOKENS = tuple(each for each in OPERATIONS if each.area in (WORK_API, WEBHOOK_API, GRAPHQL))
# Requests that end something run after those that use it.
ENDINGS = (
    "DELETE /installation/token",
    "PUT /app/installations/{}/suspended", "DELETE /app/installations/{}/suspended", "DELETE /app/installations/{}",
    "PUT /orgs/{}/installations/{}/suspended", "DELETE /orgs/{}/installations/{}/suspended",
    "DELETE /orgs/{}/installations/{}", "DELETE /orgs/{}/apps/{}/tokens", "DELETE /orgs/{}/apps/{}",
    "DELETE /orgs/{}/oauth-apps/{}/tokens", "DELETE /orgs/{}/oauth-apps/{}",
)  # fmt: skip


def in_turn() -> list[Operation]:
    """Return the operations in order, without streams, which do not end and are tested elsewhere."""
    asked = [each for each in WITH_TOKENS if key_of(each) != STREAM]
    return sorted(asked, key=lambda each: ENDINGS.index(key_of(each)) + 1 if key_of(each) in ENDINGS else 0)


def callers(site: Site, operation: Operation) -> Iterator[Credential]:
    """Yield callers without permission first, while the named objects still exist."""
    need = need_of_work(key_of(operation)) if is_work(operation) else WEBHOOKS[key_of(operation)]
    if need.target in ("app", "client"):
        yield from _programs(site)
        return
    tokens = site.tokens
    for caller in ("stranger", "second", "client", "admin", "member"):
        yield tokens.scoped(caller, "classic", SCOPES)
    for caller, kind in (("app", "installation"), ("owner", "fine_grained"), ("owner", "app_user")):
        yield next(each for each in tokens.confined(caller, kind) if each.place == HERE and each.permissions == FULL)
    yield tokens.scoped("owner", "oauth", SCOPES)
    yield tokens.scoped("owner", "classic", SCOPES)


def _programs(site: Site) -> Iterator[Credential]:
    own, other = site.apps[HERE], site.apps["idle"]
    yield Credential("another app's JWT", "app", header=f"Bearer {other.jwt()}", other=True)
    yield Credential("another app's secret", "client", header=basic(other.client_id, other.secret), other=True)
    yield Credential("the app's JWT", "app", header=f"Bearer {own.jwt()}")
    yield Credential("the app's secret", "client", header=basic(*site.cast.oauth_app))


def requests(walls: Walls, operation: Operation, by_whom: Iterable[Credential]) -> Iterator[Asked]:
    """Yield requests one at a time: a new object for each destructive request, otherwise a shared one."""
    if key_of(operation) in COMING:
        yield from _about_people(walls, key_of(operation), by_whom)
        return
    site, shared = walls.site, None
    for by in by_whom:
        if not is_work(operation):
            may_end = by.caller == "owner" or (by.caller in ("admin", "app") and "{token_id}" not in operation.path)
            yield Asked(webhook_request(site, operation, by, fresh=may_end and is_destructive(operation)), by)
            continue
        if shared is None or is_destructive(operation):
            shared = work_request(site, operation)
        yield Asked(shared, by)


def _about_people(walls: Walls, key: str, by_whom: Iterable[Credential]) -> Iterator[Asked]:
    """Yield requests about spare people, so that the callers keep their own places. The last one is allowed."""
    shared = about_a_spare(walls, key)
    for by in by_whom:
        about = about_a_spare(walls, key) if by.caller in ("owner", "admin") else shared
        yield Asked(about.request, by)
    yield about_a_spare(walls, key)


def ask(client: httpx.Client, asked: Asked) -> httpx.Response:
    headers = {"Authorization": asked.by.header} if asked.by.header else {}
    return client.request(asked.request.method, asked.request.path, headers=headers, **asked.request.more)


def said(response: httpx.Response) -> str:
    """Return the headers and the content of the answer as text."""
    headers = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
    return f"{headers}\n\n{response.content.decode(errors='replace')}"
