"""Pages and OAuth endpoints: how each of their writes is prepared and then sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx

from tests.api.oauth_kit import CALLBACK, TOKEN_PATH
from tests.api.oauth_kit import Browser as Consenting
from tests.harness.apps import make_app
from tests.identity.model import Credential
from tests.walls.world import Walls
from tests.web.browser import PASSWORD, Browser, add_link, add_person, forms
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.mail.links import Subscription, unsubscribe_path

Send = Callable[[], httpx.Response]
BY = Credential("ada, an owner of A and a member of B, in a browser", "session", "ada")
_NEW = "a second horse, a battery and a staple"


class Pages:
    """`ada` is signed in. Each function in `WRITES` prepares a request and returns a callable that sends it."""

    def __init__(self, walls: Walls) -> None:
        self.walls, self.server = walls, walls.server
        self.ada = add_person(self.server)
        self.server.run(self._join)
        self.browsers: list[Browser] = []
        self.here = self._browser()
        self.consents = Consenting(self.here.client, None)  # type: ignore[arg-type]  # the owner is never read
        here = walls.site.here
        body = {"name": f"Paged {self.ada.id}", "callback_urls": [CALLBACK], "device_flow": True}
        made = walls.site.owners["classic"].post(f"{here.org_path}/oauth-apps", json=body)
        assert made.status_code == 201, made.text
        self.app: dict[str, Any] = made.json()
        self.slug = make_app(self.server, here, installed=False).slug

    async def _join(self, services: Services) -> None:
        async with services.database.transaction() as tx:
            user = await queries.find_account(tx, self.ada.login)
            here = await queries.find_account(tx, self.walls.site.here.organization)
            assert user is not None
            assert here is not None
            await actions.set_member(tx, here, user, "owner")
            await actions.set_member(tx, self.walls.beyond.account, user, "member")

    def _browser(self) -> Browser:
        browser = self._stranger()
        assert browser.sign_in(self.ada).status_code == 303
        return browser

    def _stranger(self) -> Browser:
        browser = Browser(self.server)
        self.browsers.append(browser)
        return browser

    def _filled(self, browser: Browser, path: str, action: str | None = None, **fields: str) -> Send:
        form = browser.form(path, action)
        return lambda: browser.post(form.action, {**form.fields, **fields})

    def _submitted(self, page: httpx.Response, **fields: str) -> Send:
        return lambda: self.consents.submit(page, **fields)

    def receive(self) -> Send:
        """Send to a receiver whose webhook is inactive, so that it receives nothing else."""
        here = self.walls.site.here
        assert self.here.fill_csrf(f"/{here.full_name}/webhooks/receiver").status_code == 303
        owner, hooks = self.walls.site.owners["classic"], f"{here.repo_path}/hooks"
        [hook] = [each for each in owner.client.get(hooks).json() if "/receive/" in each["config"]["url"]]
        owner.client.patch(f"{hooks}/{hook['id']}", json={"active": False}).raise_for_status()
        return lambda: httpx.post(hook["config"]["url"], content=b"{}")

    def login(self) -> Send:
        return self._filled(self._stranger(), "/login", login=self.ada.login, password=PASSWORD)

    def login_refused(self) -> Send:
        return self._filled(self._stranger(), "/login", login=self.ada.login, password="wrong")

    def logout(self) -> Send:
        return self._filled(self._browser(), "/", "/logout")

    def link(self) -> Send:
        return self._filled(self._stranger(), add_link(self.server, self.ada))

    def unsubscribe(self) -> Send:
        """Unsubscribe the way a mail client does."""

        async def make(services: Services) -> str:
            return unsubscribe_path(services.vault, Subscription(self.ada.id, "deadline"))

        path: str = self.server.run(make)
        return lambda: self._stranger().client.post(path, data={"List-Unsubscribe": "One-Click"})

    def invited(self) -> Send:
        place = f"/{self.walls.site.here.organization}/people"
        email = f"newcomer-{self.ada.id}@example.com"
        shown = self.here.fill_csrf(place, who=email, role="member", link="1").text
        path = "/invitations/links/" + shown.partition('<code id="link">')[2].partition("</code>")[0].rpartition("/")[2]
        return self._filled(
            self._stranger(), path, login=f"newcomer-{self.ada.id}", name="Newcomer", password=PASSWORD, again=PASSWORD
        )

    def password(self) -> Send:
        return self._filled(self.here, "/settings/password", current=PASSWORD, password=_NEW, again=_NEW)

    def end(self) -> Send:
        self._browser()
        form = next(
            each
            for each in forms(self.here.get("/settings"))
            if re.fullmatch(r"/settings/sessions/\d+/end", each.action)
        )
        return lambda: self.here.post(form.action, form.fields)

    def end_others(self) -> Send:
        self._browser()
        return self._filled(self.here, "/settings", "/settings/sessions/end-others")

    def _page(self) -> httpx.Response:
        given = {"client_id": self.app["client_id"], "scope": "repo", "prompt": "select_account"}
        return self.here.get("/login/oauth/authorize", params=given)

    def _code(self) -> str:
        return Consenting.answer(self._submitted(self._page(), decision="approve")())["code"]

    def authorize(self) -> Send:
        return self._submitted(self._page(), decision="approve")

    def token(self) -> Send:
        given = {name: self.app[name] for name in ("client_id", "client_secret")} | {"code": self._code()}
        return lambda: self.here.client.post(TOKEN_PATH, data=given, headers={"Accept": "application/json"})

    def grant(self) -> Send:
        self.token()()
        action = next(each.action for each in forms(self.here.get("/settings")) if each.action.endswith("/revoke"))
        return self._filled(self.here, "/settings", action)

    def device_code(self) -> Send:
        given = {"client_id": self.app["client_id"], "scope": "repo"}
        accept = {"Accept": "application/json"}
        return lambda: self.here.client.post("/login/device/code", data=given, headers=accept)

    def device_enter(self) -> Send:
        return self._submitted(self.here.get("/login/device"), user_code=self.device_code()().json()["user_code"])

    def device_decide(self) -> Send:
        return self._submitted(self.device_enter()(), decision="approve")

    def install(self) -> Send:
        page = self.here.get(f"/apps/{self.slug}/installations/new")
        fields = {
            "target_id": str(self.walls.site.cast.numbers.organization),
            "selection": "all",
            "decision": "install",
        }
        return self._submitted(page, **fields)

    def close(self) -> None:
        for each in self.browsers:
            each.client.close()


# In this order, because a new password ends the other sessions.
WRITES: dict[str, Callable[[Pages], Send]] = {
    "POST /login": Pages.login,
    "POST /logout": Pages.logout,
    "POST /login/link/{}": Pages.link,
    "POST /mail/unsubscribe/{}": Pages.unsubscribe,
    "POST /invitations/links/{}": Pages.invited,
    "POST /settings/sessions/{}/end": Pages.end,
    "POST /settings/sessions/end-others": Pages.end_others,
    "POST /login/oauth/authorize": Pages.authorize,
    "POST /login/oauth/access_token": Pages.token,
    "POST /settings/grants/{}/revoke": Pages.grant,
    "POST /login/device/code": Pages.device_code,
    "POST /login/device": Pages.device_enter,
    "POST /login/device/decide": Pages.device_decide,
    "POST /apps/{}/installations/new": Pages.install,
    "POST /receive/{}": Pages.receive,
    "POST /settings/password": Pages.password,
}
