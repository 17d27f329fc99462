"""Two organizations whose people overlap: A, in which the tests act, and B, which must neither change nor be revealed.

A is the site of `tests.identity.kit`: every kind of token, an app, an OAuth app, webhooks, a project. B is created
beside it. Every text in B contains a word found nowhere else, and every number is unique to its row.

The people: `owner`, an owner of A, is a member of B. `member`, a member of A, and `client`, a client of A, are clients
of B. `both` is a member of both and works in B's private project. `pure`, an owner of A, `admin`, `stranger` and
`second` have nothing to do with B. `bea` owns B and has nothing to do with A."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World, make_world
from tests.identity.cast import SCOPES
from tests.identity.kit import Site, build
from tests.identity.model import FULL, HERE, Credential
from tests.walls.bounds import OPEN, SHUT, Bounds
from tests.walls.dump import Reader
from tests.walls.spares import Spare, make_spares
from tests.work.scene import Scene
from tests.work.studio import Caller
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.apps.installer import install
from workhook.identity.apps.queries import find_app, find_client
from workhook.identity.oauth.grants import allow
from workhook.identity.schemas import Account
from workhook.identity.signin import sessions
from workhook.identity.tokens.issue import CLASSIC, FINE_GRAINED, OAUTH, issue
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into
from workhook.work.kernel.tables import clients

_TEXTS = {"title", "text", "body", "notes", "description", "bill_to", "name", "note"}
_insert_client = insert_into(clients, "id", "repository_id", "user_id", "email", "created_at", "updated_at")


class MarkedScene(Scene):
    """A scene that puts its word into every text."""

    def __init__(self, owner: Caller, project_id: str, organization: str, somebody: str, word: str) -> None:
        super().__init__(owner, project_id, organization, somebody)
        self.word = word

    def _made(self, noun: str, path: str, **more: Any) -> Any:
        if "files" in more:
            more["files"] = {"file": (f"{self.word}.txt", f"{self.word} a file".encode(), "text/plain")}
        elif "json" in more:
            word = OPEN if noun == "service" else self.word  # all members see the services of an organization
            given = more["json"].items()
            more["json"] = {key: f"{word} {text}" if key in _TEXTS else text for key, text in given}
        return super()._made(noun, path, **more)

    def new_email(self) -> str:
        return f"{self.word}-{super().new_email()}"

    def fill(self) -> None:
        """Create one object of each kind and state."""
        for make in (
            self.task_comment, self.deleted_task, self.file, self.deleted_file, self.folder, self.timesheet,
            self.paused, self.notification, self.service, self.checkout, self.credit, self.invoice, self.client,
        ):  # fmt: skip
            make()
        self.reply(self.file_comment())
        self.checkout("complete")
        self.checkout("complete", "pause")
        self.invoice("send")
        self.invoice("send", "pay")
        self.payment()
        self.credit_note()
        party = {"name": f"{self.word} buyer", "address": f"{self.word} street"}
        rates = [{"username": self.owner.get("/me")["user"]["username"], "hourly_rate": 75}]
        self.owner.patch(f"{self.project_path}/billing", json={"buyer": party, "rates": rates, "budget": {"hours": 9}})
        word = OPEN if self.word == SHUT else self.word  # appears on every invoice of the organization
        settings = {"legal_name": word, "address": f"{word} road", "payment_terms": f"{word} soon"}
        settings |= {"tax_number": f"{word} 1"}
        self.owner.patch(f"/organizations/{self.organization}/billing", json=settings)
        self.invoice("send")
        self.owner.post(
            f"{self.project_path}/columns", json={"title": self.word}, headers={"Idempotency-Key": self.word}
        )


@dataclass(frozen=True)
class Beyond:
    """B: the numbers of its rows, its people and their tokens."""

    world: World
    account: Account
    repository_id: int  # of the project visible to its members and clients
    bea: Account
    both: Account
    both_token: str = field(repr=False)
    pure_token: str = field(repr=False)  # of an owner of A who has nothing to do with B
    oauth_token: str = field(repr=False)  # of bea, issued to A's OAuth app
    installation_id: int


async def _client_of(tx: Transaction, repository_id: int, user: Account) -> None:
    values = {"id": new_id("cli"), "repository_id": repository_id, "user_id": user.id, "email": user.email}
    await tx.execute(_insert_client, {**values, "created_at": 1, "updated_at": 1})


async def _join(services: Services, site: Site) -> Beyond:
    """Create B with its people, install A's app in it, and add consents of people of both to A's OAuth app."""
    world, people = await make_world(services), site.cast.people
    async with services.database.transaction() as tx:
        here, account, bea = [
            await queries.find_account(tx, each) for each in (site.here.organization, world.organization, world.owner)
        ]
        repository = await queries.find_repository(tx, world.organization, world.repository)
        app = await find_app(tx, site.apps[HERE].id)
        viewer = await find_client(tx, site.cast.oauth_app.client_id)
        assert here is not None and account is not None and bea is not None  # noqa: PT018
        assert repository is not None and app is not None and viewer is not None  # noqa: PT018
        # First, because users need this consent before they can create webhooks through the app.
        await allow(tx, viewer, people["owner"].id, frozenset(SCOPES))
        both = await actions.create_account(tx, "user", f"both-{here.id}", name=None, email="both@example.com")
        pure = await actions.create_account(tx, "user", f"pure-{here.id}", name=None, email="pure@example.com")
        await actions.set_member(tx, here, pure, "owner")
        for place, user in ((account, people["owner"]), (account, both), (here, both)):
            await actions.set_member(tx, place, user, "member")
        for user in (people["member"], people["client"]):
            await _client_of(tx, repository.id, user)
        installed = await install(tx, None, app, account)
        for user in (bea, both):
            await allow(tx, viewer, user.id, frozenset(SCOPES))
        oauth = await issue(tx, OAUTH, bea.id, scopes=SCOPES, app_id=viewer.id)
        await issue(tx, FINE_GRAINED, bea.id, permissions=FULL, account_id=account.id)
        await issue(tx, CLASSIC, both.id, scopes=SCOPES)
        pure_token = (await issue(tx, CLASSIC, pure.id, scopes=SCOPES)).token
        both_token = (await issue(tx, CLASSIC, both.id, scopes=SCOPES)).token
        await sessions.start(tx, bea, address="127.0.0.1", user_agent=SHUT)
    return Beyond(world, account, repository.id, bea, both, both_token, pure_token, oauth.token, installed.id)


class Walls:
    """Both organizations on one server. Nothing is delivered during a test: dispatches stay pending."""

    def __init__(self, server: Server, worker: Server, site: Site, reader: Reader, receiver: Receiver) -> None:
        self.server, self.worker, self.site, self.reader, self.receiver = server, worker, site, reader, receiver
        reader.renumber()
        self.beyond: Beyond = server.run(partial(_join, site=site))
        beyond = self.beyond
        self.spares: list[Spare] = server.run(partial(make_spares, beyond=beyond.account))
        for account, word in ((beyond.account, OPEN), (beyond.bea, SHUT)):
            reader.change(f"UPDATE accounts SET name = '{word}', email = '{word}@example.com' WHERE id = {account.id}")
        self.accounts = frozenset({beyond.account.id, beyond.bea.id})
        self.bea, self.both = Caller(server, beyond.world.token), Caller(server, beyond.both_token)
        organization, somebody = beyond.world.organization, beyond.both.login
        shut = self.bea.post("/projects", json={"title": SHUT, "organization": organization, "private": True})
        self.open = MarkedScene(self.bea, beyond.world.project_id, organization, somebody, OPEN)
        self.shut = MarkedScene(self.bea, shut["project"]["id"], organization, somebody, SHUT)
        self.bea.post(f"{self.shut.project_path}/members", json={"username": somebody})
        for scene in (self.open, self.shut):
            scene.fill()
        self.open.running()
        self.hooks = [each["id"] for each in self._hooks(shut["project"]["name"], receiver.url)]
        self.paused = self._timers()
        self._rest()
        self._bounds = Bounds(self)

    def _timers(self) -> str:
        """Start timers of `both`: a paused one in A, whose ID is returned, and a running one in B's private project."""
        scene = self.site.scene
        here = self.both.post(f"{scene.project_path}/timesheets", json={"task_id": scene.task()})["timesheet"]["id"]
        self.both.post(f"{self.shut.project_path}/timesheets", json={"task_id": self.shut.task()})
        return str(here)

    def _hooks(self, shut: str, url: str) -> Iterator[dict[str, Any]]:
        """Create webhooks for all events of B's repositories and of B, both by bea and through A's OAuth app."""
        world = self.beyond.world
        for number, token in enumerate((world.token, self.beyond.oauth_token)):
            with self.server.client(token) as client:
                for place in (world.repo_path, f"/repos/{world.organization}/{shut}", world.org_path):
                    config = {"url": f"{url}/{SHUT}?{number}", "content_type": "json"}
                    made = client.post(f"{place}/hooks", json={"name": "web", "events": ["*"], "config": config})
                    assert made.status_code == 201, made.text
                    yield made.json()

    def hidden_in(self, text: str, by: Credential) -> set[str]:
        """Return everything in the text that the caller must not see of B."""
        return self._bounds.hidden_in(text, by)

    def caller(self, name: str) -> Credential:
        """Return a credential with every scope of this person. `app` is the app installed in both organizations."""
        if name == "app":
            return Credential("the app's JWT", "app", header=f"Bearer {self.site.apps[HERE].jwt()}")
        if name == "pure":
            return Credential("an owner of A", "classic", "pure", f"Bearer {self.beyond.pure_token}", frozenset(SCOPES))
        return self.site.tokens.scoped(name, "classic", SCOPES)

    def deliver(self) -> None:
        """Deliver everything pending."""
        self.worker.start()
        self._rest()

    def _rest(self) -> None:
        until(self._is_delivered)
        self.worker.stop()

    def _is_delivered(self) -> bool:
        return all(row["next_attempt_at"] is None for row in self.reader.dump()["dispatches"].values())

    def close(self) -> None:
        self.site.close()
        for caller in (self.bea, self.both):
            caller.http.close()


def build_walls(server: Server, worker: Server, reader: Reader, receiver: Receiver) -> Walls:
    """`worker` makes the deliveries. It is stopped at the end."""
    return Walls(server, worker, build(server, ()), reader, receiver)
