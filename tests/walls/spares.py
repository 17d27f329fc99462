"""Spare people to be invited to A, added to it and removed from it. All of them are members of B."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from tests.identity.asking import Request
from tests.identity.cast import SCOPES
from tests.identity.model import Credential
from workhook.http.calls import Services
from workhook.identity import actions, queries
from workhook.identity.schemas import Account
from workhook.identity.tokens.issue import CLASSIC, issue

if TYPE_CHECKING:
    from tests.walls.world import Walls

NUMBER = 150


class Spare(NamedTuple):
    login: str
    by: Credential


class Asked(NamedTuple):
    request: Request
    by: Credential


async def make_spares(services: Services, beyond: Account) -> list[Spare]:
    """Create the spare people before the tests compare states, because their memberships are rows of B."""
    found = []
    async with services.database.transaction() as tx:
        for number in range(NUMBER):
            login = f"spare-{number}"
            user = await actions.create_account(tx, "user", login, name=None, email=f"{login}@example.com")
            await actions.set_member(tx, beyond, user, "member")
            token = (await issue(tx, CLASSIC, user.id, scopes=SCOPES)).token
            found.append(Spare(login, Credential(login, "classic", "spare", f"Bearer {token}", frozenset(SCOPES))))
    return found


class Coming:
    """Requests about a spare person, each with its preconditions prepared. `pure` has nothing in common with the
    invited person, while `owner` is in B with them."""

    def __init__(self, walls: Walls) -> None:
        self._walls, self.spare = walls, walls.spares.pop()
        self.org, self.repo = walls.site.here.org_path, walls.site.here.repo_path

    def _sent(self, by: str, method: str, path: str, **more: Any) -> httpx.Response:
        with self._walls.server.client(self._walls.caller(by).header.removeprefix("Bearer ")) as client:  # type: ignore[union-attr]  # every one of them has a token
            return client.request(method, path, **more).raise_for_status()

    def _asked(self, by: str, method: str, path: str, **body: Any) -> Asked:
        return Asked(Request(method, path, {"json": body} if body else {}), self._walls.caller(by))

    def _own(self, method: str, path: str, **body: Any) -> Asked:
        return Asked(Request(method, path, {"json": body} if body else {}), self.spare.by)

    def _join(self) -> None:
        self._walls.server.run(
            partial(_put_in, organization=self._walls.site.here.organization, login=self.spare.login)
        )

    def invited_by_address(self) -> Asked:
        return self._asked("owner", "POST", f"{self.org}/invitations", email=f"{self.spare.login}@example.com")

    def taken_back(self) -> Asked:
        made = self._sent("owner", "POST", f"{self.org}/invitations", json={"email": f"{self.spare.login}@example.com"})
        return self._asked("owner", "DELETE", f"{self.org}/invitations/{made.json()['id']}")

    def invited(self) -> Asked:
        return self._asked("owner", "PUT", f"{self.org}/memberships/{self.spare.login}", role="member")

    def accepts(self) -> Asked:
        self._sent("owner", "PUT", f"{self.org}/memberships/{self.spare.login}", json={"role": "member"})
        return self._own("PATCH", f"/user/memberships/orgs/{self._walls.site.here.organization}", state="active")

    def _join_work(self) -> None:
        self._join()
        self._sent("owner", "PUT", f"{self.repo}/collaborators/{self.spare.login}", json={"permission": "push"})

    def removed(self) -> Asked:
        self._join_work()
        return self._asked("owner", "DELETE", f"{self.org}/memberships/{self.spare.login}")

    def leaves(self) -> Asked:
        self._join_work()
        return self._own("DELETE", f"{self.org}/members/{self.spare.login}")

    def added(self) -> Asked:
        return self._asked("owner", "PUT", f"{self.repo}/collaborators/{self.spare.login}", permission="push")

    def taken_out(self) -> Asked:
        self._sent("owner", "PUT", f"{self.repo}/collaborators/{self.spare.login}", json={"permission": "push"})
        return self._asked("owner", "DELETE", f"{self.repo}/collaborators/{self.spare.login}")

    def _invitation(self) -> int:
        body = {"permission": "push"}
        made = self._sent("pure", "PUT", f"{self.repo}/collaborators/{self.spare.login}", json=body)
        return int(made.json()["id"])

    def invited_to_less(self) -> Asked:
        return self._asked("owner", "PATCH", f"{self.repo}/invitations/{self._invitation()}", permissions="read")

    def no_longer_invited(self) -> Asked:
        return self._asked("owner", "DELETE", f"{self.repo}/invitations/{self._invitation()}")

    def accepts_work(self) -> Asked:
        return self._own("PATCH", f"/user/repository_invitations/{self._invitation()}")

    def declines(self) -> Asked:
        return self._own("DELETE", f"/user/repository_invitations/{self._invitation()}")


async def _put_in(services: Services, organization: str, login: str) -> None:
    async with services.database.transaction() as tx:
        place, user = [await queries.find_account(tx, each) for each in (organization, login)]
        assert place is not None
        assert user is not None
        await actions.set_member(tx, place, user, "member")


COMING: dict[str, Callable[[Coming], Asked]] = {
    "POST /orgs/{}/invitations": Coming.invited_by_address,
    "DELETE /orgs/{}/invitations/{}": Coming.taken_back,
    "PUT /orgs/{}/memberships/{}": Coming.invited,
    "PATCH /user/memberships/orgs/{}": Coming.accepts,
    "DELETE /orgs/{}/memberships/{}": Coming.removed,
    "DELETE /orgs/{}/members/{}": Coming.leaves,
    "PUT /repos/{}/{}/collaborators/{}": Coming.added,
    "DELETE /repos/{}/{}/collaborators/{}": Coming.taken_out,
    "PATCH /repos/{}/{}/invitations/{}": Coming.invited_to_less,
    "DELETE /repos/{}/{}/invitations/{}": Coming.no_longer_invited,
    "PATCH /user/repository_invitations/{}": Coming.accepts_work,
    "DELETE /user/repository_invitations/{}": Coming.declines,
}


def about_a_spare(walls: Walls, key: str) -> Asked:
    return COMING[key](Coming(walls))
