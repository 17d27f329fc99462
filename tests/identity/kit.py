"""A server with a cast, and one of each thing that a path can name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.api.wire import NOBODYS_ID, Api, Place
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.identity.cast import SCOPES, Cast, make_cast
from tests.work.scene import Scene
from tests.work.studio import Caller


class Site:
    """`owners`: the owner's clients, by kind of token. `hooks`: a webhook and a delivery by place and kind of token: an
    OAuth app sees only its own, and nobody else sees those."""

    def __init__(self, server: Server, cast: Cast) -> None:
        self.server, self.cast, self.here, self.tokens, self.apps = server, cast, cast.here, cast.tokens, cast.apps
        owner = Caller(server, cast.here.token)
        self.scene = Scene(owner, cast.here.project_id, cast.here.organization, cast.people["member"].login)
        self.owners = {
            kind: Api(server.client(self.tokens.by["owner", kind, " ".join(SCOPES)])) for kind in ("classic", "oauth")
        }
        made = {
            (place, kind): api.hook(Place(place, self.here), config={"retries": "0"}, events=["status"], active=True)
            for kind, api in self.owners.items()
            for place in ("repository", "organization")
        }  # all of them before the first is waited for: their pings are sent at once
        self.hooks = {(place, kind): self._used(self.owners[kind], hook) for (place, kind), hook in made.items()}

    def _used(self, api: Api, hook: dict[str, Any]) -> dict[str, int]:
        """With a delivery, its ping, and one time that many were asked for again."""
        [delivery] = until(partial(api.read, hook["deliveries_url"]))
        job = api.post(f"{hook['deliveries_url']}/redeliver", json={"ids": [NOBODYS_ID]}).json()["job"]
        return {"hook_id": hook["id"], "delivery_id": delivery["id"], "redelivery_id": job["id"]}

    def close(self) -> None:
        for api in self.owners.values():
            api.client.close()
        self.scene.owner.http.close()


def build(server: Server, scope_sets: Sequence[Sequence[str]]) -> Site:
    """`scope_sets`: what tokens with scopes carry, besides all of them."""
    return Site(server, server.run(partial(make_cast, scope_sets=scope_sets)))
