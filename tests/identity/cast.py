"""Users, apps and tokens around one project, created in one transaction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.harness.apps import Registered
from tests.harness.world import World, make_world
from tests.identity.model import FULL, HERE, OTHER_ORGANIZATION, OTHER_REPOSITORY, Credential
from workhook.core.clock import DAY_MS, now_ms
from workhook.core.ids import new_id
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.apps import credentials
from workhook.identity.apps.actions import create_app
from workhook.identity.apps.app_schemas import AppCreate, OauthAppCreate
from workhook.identity.apps.installer import install
from workhook.identity.apps.schemas import App
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Repository
from workhook.identity.tokens.issue import APP_USER, CLASSIC, FINE_GRAINED, INSTALLATION, KINDS, OAUTH, issue, revoke
from workhook.identity.tokens.lookup import find_actor
from workhook.storage import Transaction
from workhook.storage.metadata import insert_into
from workhook.work.board.projects.actions import add_project
from workhook.work.board.projects.schemas import ProjectCreate
from workhook.work.kernel.tables import clients

SCOPES = (
    "admin:org", "admin:org_hook", "admin:repo_hook", "read:repo_hook", "repo", "work", "work:read", "write:repo_hook",
)  # fmt: skip
PEOPLE = ("owner", "admin", "member", "client", "stranger", "second")
SPARE_TOKENS = 10
_numbers = itertools.count(1)
_insert_client = insert_into(clients, "id", "repository_id", "user_id", "email", "created_at", "updated_at")


def variants() -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield what a token with permissions may be granted: a label, the permissions and the place."""
    for place in (HERE, OTHER_REPOSITORY, OTHER_ORGANIZATION):
        yield place, FULL, place
    yield "reading only", dict.fromkeys(FULL, "read"), HERE
    for name in FULL:
        yield f"without {name}", {each: level for each, level in FULL.items() if each != name}, HERE


@dataclass
class Tokens:
    """Tokens by caller, kind, and scopes or label."""

    by: dict[tuple[str, str, str], str] = field(default_factory=dict, repr=False)
    bad: list[Credential] = field(default_factory=list)

    def scoped(self, caller: str, kind: str, scopes: Sequence[str]) -> Credential:
        name = " ".join(sorted(scopes))
        header = f"Bearer {self.by[caller, kind, name]}"
        return Credential(f"{caller}, {kind}, scopes {name or 'none'}", kind, caller, header, frozenset(scopes))

    def confined(self, caller: str, kind: str) -> Iterator[Credential]:
        for word, permissions, place in variants():
            name, header = f"{caller}, {kind}, {word}", f"Bearer {self.by[caller, kind, word]}"
            yield Credential(name, kind, caller, header, permissions=permissions, place=place)


class OauthApp(NamedTuple):
    client_id: str
    secret: str


class Numbers(NamedTuple):
    """IDs of the objects that paths name."""

    organization: int
    repository: int


class Cast(NamedTuple):
    """All callers around one project.

    `apps` is keyed by the labels of `variants`. The app `idle` is not installed; `spare` and `thrown away` may be
    deleted.
    """

    here: World
    people: dict[str, Account]
    apps: dict[str, Registered]
    oauth_app: OauthApp
    tokens: Tokens
    spare_tokens: list[int]  # of the owner
    thrown_away: int  # an installation of the first app that the app may uninstall itself
    numbers: Numbers


async def make_cast(services: Services, scope_sets: Sequence[Sequence[str]]) -> Cast:
    """Create a cast. `scope_sets` are the scopes of tokens in addition to tokens with all scopes."""
    here, second, third = [await make_world(services) for _ in range(3)]
    key = await credentials.new_key()
    async with services.database.transaction() as tx:
        making = await _Making.begin(tx, here, second)
        apps = {}
        for word, permissions, place in variants():
            account = making.second if place == OTHER_ORGANIZATION else making.here
            apps[word] = await making.app(account, permissions, key, only=place == OTHER_REPOSITORY)
        for word in ("idle", "spare", "thrown away"):
            apps[word] = await making.app(making.here, FULL, key, installed=word != "idle")
        elsewhere = await queries.find_account(tx, third.organization)
        assert elsewhere is not None
        thrown_away = await install(tx, None, making.registered[apps[HERE].id], elsewhere)
        oauth, secret, _ = await create_app(
            tx,
            None,
            making.here,
            OauthAppCreate(name=f"Viewer {making.here.id}", callback_urls=["http://127.0.0.1:9/back"]),
        )
        tokens = Tokens()
        for caller, account in making.people.items():
            await making.scoped(tokens, caller, account, (SCOPES, *scope_sets), oauth.id)
            await making.confined(tokens, caller, account, apps)
        await making.of_installations(tokens, apps)
        await making.bad(tokens, apps[HERE])
        spare = [(await issue(tx, CLASSIC, making.people["owner"].id)).id for _ in range(SPARE_TOKENS)]
        await making.own_project_of_client(tokens)
        numbers = Numbers(making.here.id, making.repository.id)
    viewer = OauthApp(oauth.client_id, secret)
    return Cast(here, making.people, apps, viewer, tokens, spare, thrown_away.id, numbers)


class _Making:
    def __init__(self, tx: Transaction, repository: Repository, second: Account) -> None:
        self.tx, self.repository, self.here, self.second = tx, repository, repository.owner, second
        self.people: dict[str, Account] = {}
        self.registered: dict[int, App] = {}
        self.other = 0  # another repository of the organization

    @classmethod
    async def begin(cls, tx: Transaction, here: World, second: World) -> _Making:
        repository = await queries.find_repository(tx, here.organization, here.repository)
        elsewhere = await queries.find_account(tx, second.organization)
        owners = [await queries.find_account(tx, each.owner) for each in (here, second)]
        actor = await find_actor(tx, here.token)
        assert repository is not None
        assert elsewhere is not None
        assert actor is not None
        making = cls(tx, repository, elsewhere)
        making.people = {name: each for name, each in zip(("owner", "second"), owners, strict=True) if each is not None}
        await making._add_people()
        create = ProjectCreate(title="Other", organization=here.organization)
        making.other = (await add_project(Write(tx, actor, "http://127.0.0.1:9"), create)).repository.id
        return making

    async def _add_people(self) -> None:
        for caller in ("admin", "member", "client", "stranger"):
            login = f"{caller}-{self.repository.id}-{next(_numbers)}"
            account = await actions.create_account(self.tx, "user", login, name=None, email=f"{login}@example.com")
            self.people[caller] = account
        await actions.set_member(self.tx, self.here, self.people["member"], "member")
        await actions.set_collaborator(self.tx, self.repository, self.people["admin"], "admin")
        now, client = now_ms(), self.people["client"]
        values = {"id": new_id("cli"), "repository_id": self.repository.id, "user_id": client.id, "email": client.email}
        await self.tx.execute(_insert_client, {**values, "created_at": now, "updated_at": now})

    async def app(
        self,
        account: Account,
        permissions: dict[str, Any],
        key: credentials.NewKey,
        *,
        only: bool = False,
        installed: bool = True,
    ) -> Registered:
        """Create an app. If `only`, it is installed on the other repository alone."""
        name = f"Robot of {account.id}, {next(_numbers)}"
        app, secret, pem = await create_app(
            self.tx, None, account, AppCreate(name=name, permissions=permissions, public=True), key=key
        )
        self.registered[app.id] = app
        made = Registered(app.id, app.client_id, app.slug, secret, pem)
        if installed:
            ids = [self.other] if only else None
            made.installation_id = (await install(self.tx, None, app, account, repository_ids=ids)).id
        return made

    async def scoped(
        self, tokens: Tokens, caller: str, account: Account, scope_sets: Sequence[Sequence[str]], app_id: int
    ) -> None:
        for scopes in scope_sets:
            for kind, owner in ((CLASSIC, None), (OAUTH, app_id)):
                issued = await issue(self.tx, kind, account.id, scopes=scopes, app_id=owner)
                tokens.by[caller, kind.name, " ".join(sorted(scopes))] = issued.token

    async def confined(self, tokens: Tokens, caller: str, account: Account, apps: dict[str, Registered]) -> None:
        """Issue fine-grained tokens, and tokens of the apps for the user."""
        for word, permissions, place in variants():
            elsewhere = place == OTHER_ORGANIZATION
            fine = await issue(
                self.tx,
                FINE_GRAINED,
                account.id,
                permissions=permissions,
                account_id=self.second.id if elsewhere else self.here.id,
                repository_ids=[self.other] if place == OTHER_REPOSITORY else None,
            )
            tokens.by[caller, "fine_grained", word] = fine.token
            tokens.by[caller, "app_user", word] = (
                await issue(self.tx, APP_USER, account.id, app_id=apps[word].id)
            ).token

    async def of_installations(self, tokens: Tokens, apps: dict[str, Registered]) -> None:
        for word in (*(word for word, _, _ in variants()), "thrown away"):
            app = apps[word]
            bot = await queries.find_account(self.tx, app.bot)
            assert bot is not None
            issued = await issue(self.tx, INSTALLATION, bot.id, app_id=app.id, installation_id=app.installation_id)
            tokens.by["app", "installation", word] = issued.token

    async def bad(self, tokens: Tokens, app: Registered) -> None:
        """Issue expired and revoked tokens of every kind, and add a token that never was valid."""
        tokens.bad.append(Credential("a word", "bad", header="Bearer nonsense"))
        for kind in KINDS.values():
            for expired in (True, False):
                issued = await issue(
                    self.tx,
                    kind,
                    self.people["owner"].id,
                    scopes=SCOPES,
                    permissions=FULL,
                    account_id=self.here.id,
                    app_id=app.id if kind.of_app else None,
                    installation_id=app.installation_id if kind is INSTALLATION else None,
                    expires_at=now_ms() - DAY_MS if expired else None,
                )
                if not expired:
                    await revoke(self.tx, [issued.id])
                name = f"{kind.name}, {'expired' if expired else 'revoked'}"
                tokens.bad.append(Credential(name, "bad", header=f"Bearer {issued.token}"))

    async def own_project_of_client(self, tokens: Tokens) -> None:
        """Create a project of the client's own, because a user who is only a client has no reports."""
        token = tokens.by["client", "classic", " ".join(SCOPES)]
        actor = await find_actor(self.tx, token)
        assert actor is not None
        await add_project(Write(self.tx, actor, "http://127.0.0.1:9"), ProjectCreate(title="Own"))
