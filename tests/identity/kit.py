"""A server with a cast, and one object of each kind that a path can name."""

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
    """A server with a cast and its objects.

    `owners` contains the owner's clients by kind of token. `hooks` contains the IDs of a webhook and a delivery by
    place and kind of token, because only the OAuth app itself sees its webhooks.
    """

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
        }  # all are created before the first is awaited, because their pings are sent concurrently
        self.hooks = {(place, kind): self._used(self.owners[kind], hook) for (place, kind), hook in made.items()}

    def _used(self, api: Api, hook: dict[str, Any]) -> dict[str, int]:
        """Return the IDs of the webhook, of its ping's delivery, and of a redelivery job."""
        [delivery] = until(partial(api.read, hook["deliveries_url"]))
        job = api.post(f"{hook['deliveries_url']}/redeliver", json={"ids": [NOBODYS_ID]}).json()["job"]
        return {"hook_id": hook["id"], "delivery_id": delivery["id"], "redelivery_id": job["id"]}

    def close(self) -> None:
        for api in self.owners.values():
            api.client.close()
        self.scene.owner.http.close()


def build(server: Server, scope_sets: Sequence[Sequence[str]]) -> Site:
    """Create a site. `scope_sets` are the scopes of tokens in addition to tokens with all scopes."""
    return Site(server, server.run(partial(make_cast, scope_sets=scope_sets)))
