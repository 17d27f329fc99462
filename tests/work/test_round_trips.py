"""Round trips to PostgreSQL per request, counted on the wire and including BEGIN, COMMIT and NOTIFY.

`tests.work.test_query_counts` checks that queries do not grow with the rows. Here, every operation of both APIs has a
limit. The token is already cached and statements are prepared. Other processes are notified after the commit, in
batches across requests; each write counts one trip for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.databases import databases
from tests.harness.round_trips import Relay
from tests.harness.server import Server, SharedServer
from tests.harness.waiting import until
from tests.identity.asking import basic, is_destructive, is_work, key_of, webhook_request, work_request
from tests.identity.cast import SCOPES
from tests.identity.kit import Site, build
from tests.identity.model import HERE, WEBHOOKS, Credential
from tests.walls.walk import in_turn
from workhook.http.operations import Operation

READ_MAX, WRITE_MAX = 3, 4
NOTIFY = "pg_notify"
TRIES = 3  # token use and refused requests are recorded shortly afterwards

FEWER = {
    "POST /repos/{}/{}/events": 3,  # the caller and the place, the event, NOTIFY
    "POST /repos/{}/{}/dispatches": 3,
}

# Operations that take more, for any number of rows. BEGIN and COMMIT share other trips; NOTIFY has its own.
MORE = {
    # Replies to a comment share a size limit.
    "POST /file_comments/{}/comments": 5,
    # An app includes its secrets and keys, and callers with a JSON Web Token are found through both.
    "GET /app": 4,
    "GET /app/installations": 4,
    "GET /orgs/{}/apps/{}": 4,
    # Creating something that acts on a user's behalf locks the user and the token until it exists. A token revoked at
    # that moment leaves nothing behind. The existing objects are counted under the same lock.
    "POST /user/tokens": 7,
    "DELETE /user/tokens/{}": 6,  # also ends everything created with the token
    "POST /orgs/{}/oauth-apps": 8,
    "PATCH /orgs/{}/oauth-apps/{}": 7,
    "POST /orgs/{}/oauth-apps/{}/secrets": 7,
    "DELETE /orgs/{}/oauth-apps/{}/secrets/{}": 6,
    "POST /orgs/{}/apps": 11,  # along with its bot, secret and key
    "PATCH /orgs/{}/apps/{}": 8,
    "POST /orgs/{}/apps/{}/secrets": 7,
    "DELETE /orgs/{}/apps/{}/secrets/{}": 6,
    "POST /orgs/{}/apps/{}/keys": 7,
    "DELETE /orgs/{}/apps/{}/keys/{}": 6,
    "POST /app/installations/{}/access_tokens": 7,
    "POST /applications/{}/token": 5,
    "POST /orgs/{}/installations": 10,  # the bot becomes a member
    "PATCH /orgs/{}/installations/{}": 6,
    "PUT /user/installations/{}/repositories/{}": 7,
    "DELETE /user/installations/{}/repositories/{}": 7,
    # Webhooks: the place is locked as above, duplicates are searched for, and a ping has its own event.
    "POST /repos/{}/{}/hooks": 7,
    "PATCH /repos/{}/{}/hooks/{}": 7,
    "DELETE /repos/{}/{}/hooks/{}": 6,
    "PATCH /repos/{}/{}/hooks/{}/config": 6,
    "POST /orgs/{}/hooks": 7,
    "PATCH /orgs/{}/hooks/{}": 6,
    "DELETE /orgs/{}/hooks/{}": 6,
    "PATCH /orgs/{}/hooks/{}/config": 6,
    "DELETE /orgs/{}/oauth-hooks/{}": 7,
    # The first event ID of the day, the deliveries since then, the backlog and the last failure.
    "GET /repos/{}/{}/hooks/{}/health": 6,
    "GET /orgs/{}/hooks/{}/health": 7,
    # Manual deliveries are counted on the lane.
    "POST /repos/{}/{}/hooks/{}/pings": 7,
    "POST /repos/{}/{}/hooks/{}/deliveries/{}/attempts": 7,
    "POST /repos/{}/{}/hooks/{}/tests": 6,
    "POST /repos/{}/{}/hooks/{}/test": 6,
    "POST /orgs/{}/hooks/{}/pings": 7,
    "POST /orgs/{}/hooks/{}/deliveries/{}/attempts": 7,
    # A job: one per webhook at a time, and its first batch runs before the response.
    "POST /repos/{}/{}/hooks/{}/deliveries/redeliver": 17,
    "POST /orgs/{}/hooks/{}/deliveries/redeliver": 17,
    # Everything that ends with a right: timers, webhooks, tokens and invitations, found and locked in the same order.
    "PUT /orgs/{}/memberships/{}": 7,
    "DELETE /orgs/{}/memberships/{}": 5,
    "DELETE /orgs/{}/members/{}": 5,
    "PUT /repos/{}/{}/collaborators/{}": 5,
    "DELETE /repos/{}/{}/collaborators/{}": 6,
    "DELETE /projects/{}/members/{}": 13,
    "DELETE /clients/{}": 10,
    "PUT /app/installations/{}/suspended": 12,
    "DELETE /app/installations/{}/suspended": 7,
    "DELETE /app/installations/{}": 18,
    "PUT /orgs/{}/installations/{}/suspended": 14,
    "DELETE /orgs/{}/installations/{}/suspended": 6,
    "DELETE /orgs/{}/installations/{}": 16,
    "DELETE /orgs/{}/apps/{}/tokens": 13,
    "DELETE /orgs/{}/apps/{}": 17,
    "DELETE /orgs/{}/oauth-apps/{}/tokens": 15,
    "DELETE /orgs/{}/oauth-apps/{}": 17,
    "DELETE /orgs/{}": 20,
    # As in `test_query_counts`.
    # Locks the row of the settings, and deletes the row of the previous logo.
    "PUT /organizations/{}/billing/logo": 6,
    "DELETE /organizations/{}/billing/logo": 5,
    "POST /projects": 8,
    "PATCH /projects/{}": 5,  # checks whether the name is taken before the event shows it
    "DELETE /projects/{}": 8,  # also ends subscriptions and timers
    "DELETE /tasks/{}": 6,  # also ends timers
    "POST /projects/{}/restore": 7,
    "POST /projects/{}/clients": 7,
    "POST /tasks/bulk": 6,  # the tasks in the same buckets and the numbers, for any number of tasks
    "POST /service_checkouts/{}/complete": 12,
    "DELETE /task_credits/{}": 6,
    "POST /invoices/{}/send": 7,
    "POST /invoices/{}/void": 5,
    "POST /invoices/{}/pay": 5,
    "POST /invoices/{}/payments": 5,
    "POST /payments/{}/refund": 7,
    "POST /invoices/{}/credit_notes": 7,
    "POST /timesheets/{}/resume": 6,
    "POST /timesheets/{}/finish": 5,  # the current time settings
    "GET /organizations/{}/export": 155,  # every table separately, most of them per project and in pages
    "PATCH /projects/{}/billing": 5,  # locks the settings and reads them with the members' rates
}

# These requests refer to missing objects or are made by the wrong caller. The refusal is counted.
REFUSED = {
    "GET /admin/users",
    "POST /admin/users",
    "DELETE /admin/users/{}",
    "POST /admin/users/{}/disable",
    "POST /admin/users/{}/enable",
    "POST /admin/organizations",
    "DELETE /admin/organizations/{}",
    "GET /installation/repositories",
    "GET /user/installations",
    "GET /user/installations/{}/repositories",
    "GET /orgs/{}/oauth-apps/{}/secrets/{}",
    "DELETE /orgs/{}/oauth-apps/{}/secrets/{}",
    "GET /orgs/{}/apps/{}/secrets/{}",
    "DELETE /orgs/{}/apps/{}/secrets/{}",
    "GET /orgs/{}/apps/{}/keys/{}",
    "DELETE /orgs/{}/apps/{}/keys/{}",
    "DELETE /user/installations/{}/repositories/{}",
    "POST /orgs/{}/invitations",
    "DELETE /orgs/{}/invitations/{}",
    "PUT /orgs/{}/memberships/{}",
    "DELETE /orgs/{}/memberships/{}",
    "DELETE /orgs/{}/members/{}",
    "DELETE /repos/{}/{}/collaborators/{}",
    "PATCH /repos/{}/{}/invitations/{}",
    "DELETE /repos/{}/{}/invitations/{}",
    "PATCH /user/repository_invitations/{}",
    "DELETE /user/repository_invitations/{}",
    "POST /applications/{}/token",
    "PATCH /applications/{}/token",
    "DELETE /applications/{}/token",
    "DELETE /applications/{}/grant",
    "POST /applications/{}/token/scoped",
    "DELETE /installation/token",
}


@pytest.fixture(scope="module")
def settings(_shared_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return databases("postgresql", _shared_folder).new(tmp_path_factory.mktemp("database"))


@pytest.fixture(scope="module")
def site(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site on a server that delivers, used to create objects."""
    server = SharedServer(tmp_path_factory.mktemp("makes"), settings).start()
    site = build(server, [])
    hook = {"name": "web", "events": ["*"], "config": {"url": "http://127.0.0.1:9/"}}
    assert site.owners["classic"].post(f"{site.here.org_path}/hooks", json=hook).status_code == 201
    yield site
    site.close()
    server.close()


@pytest.fixture(scope="module")
def relay(settings: dict[str, str]) -> Iterator[Relay]:
    relay = Relay(settings["database_url"])
    yield relay
    relay.close()


@pytest.fixture(scope="module")
def counted(relay: Relay, site: Site) -> Iterator[Server]:
    """Yield a second server that only responds."""
    server = Server(
        site.server.data, {"database_url": relay.url}, command=("serve", "--port", "0", "--no-worker")
    ).start()
    yield server
    server.close()


def _credential(site: Site, operation: Operation) -> Credential:
    if is_work(operation) or WEBHOOKS[key_of(operation)].target not in ("app", "client"):
        return site.tokens.scoped("owner", "classic", SCOPES)
    app = site.apps[HERE]
    if WEBHOOKS[key_of(operation)].target == "app":
        return Credential("the app", "app", header=f"Bearer {app.jwt()}")
    return Credential("the client", "client", header=basic(*site.cast.oauth_app))


def _trips(site: Site, operation: Operation, client: httpx.Client, relay: Relay) -> tuple[list[str], httpx.Response]:
    by = _credential(site, operation)
    headers = {"Authorization": by.header} if by.header else {}
    request = (
        work_request(site, operation)
        if is_work(operation)
        else webhook_request(site, operation, by, fresh=is_destructive(operation))
    )
    client.get("/api/v3/user", headers=headers)  # caches the token
    until(lambda: not relay.trips or _is_quiet(relay))
    relay.forget()
    response = client.request(request.method, request.path, headers=headers, **request.more)
    trips = relay.trips
    return [each for each in trips if NOTIFY not in each], response


def _is_quiet(relay: Relay) -> bool:
    relay.forget()
    return True


def test_the_round_trips_of_every_operation_are_limited(site: Site, relay: Relay, counted: Server) -> None:
    wrong, refused = [], set()
    with counted.client(None) as client:
        for operation in in_turn():
            key = key_of(operation)
            told = 0 if operation.method == "GET" else 1
            bound = {**FEWER, **MORE}.get(key, READ_MAX if operation.method == "GET" else WRITE_MAX)
            trips, response = _trips(site, operation, client, relay)
            if response.status_code >= 400:
                refused.add(key)
            for _ in range(TRIES - 1):  # ignores concurrent work of the server
                if len(trips) + told <= bound:
                    break
                again, response = _trips(site, operation, client, relay)
                trips = again if response.status_code < 400 or key in refused else trips
            if len(trips) + told > bound:
                wrong.append(f"{key}: {len(trips) + told}\n" + "".join(f"    {each[:150]}\n" for each in trips))
    assert wrong == [], "\n".join(wrong)
    assert refused == REFUSED
