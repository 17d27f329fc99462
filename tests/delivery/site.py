"""A server with its own organization, and webhooks as their owner uses them."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.harness.receiver import Receiver
from tests.harness.server import Server
from tests.harness.waiting import until
from tests.harness.world import World

CLIENTS = 8


class Hook:
    def __init__(self, site: Site, shape: dict[str, Any], path: str) -> None:
        self.site, self.shape, self.path = site, shape, path
        self.id: int = shape["id"]

    def read(self) -> dict[str, Any]:
        return self.site.ok("GET", self.path)

    def patch(self, **body: Any) -> dict[str, Any]:
        return self.site.ok("PATCH", self.path, json=body)

    def configure(self, **config: Any) -> dict[str, Any]:
        return self.site.ok("PATCH", f"{self.path}/config", json=config)

    def delete(self) -> None:
        self.site.ok("DELETE", self.path)

    def deliveries(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the deliveries, oldest first."""
        found: list[dict[str, Any]] = self.site.pages(f"{self.path}/deliveries", filters)
        return found[::-1]

    def attempts(self, event: str, number: int, **filters: Any) -> list[dict[str, Any]]:
        """Return the deliveries of an event, oldest first, as soon as at least `number` are recorded."""
        return until(lambda: found if len(found := self.deliveries(event=event, **filters)) >= number else [])

    def detail(self, delivery: dict[str, Any]) -> dict[str, Any]:
        return self.site.ok("GET", f"{self.path}/deliveries/{delivery['id']}")

    def redeliver(self, delivery: dict[str, Any]) -> httpx.Response:
        return self.site.client.post(f"{self.path}/deliveries/{delivery['id']}/attempts")

    def redeliver_many(self, **filters: Any) -> int:
        queued: int = self.site.ok("POST", f"{self.path}/deliveries/redeliver", json=filters)["queued"]
        return queued


class Site:
    """An organization and its repository on a server, and a client with the owner's token."""

    def __init__(self, server: Server, world: World | None = None) -> None:
        self.server = server
        self.world = world or server.world()
        self.client = server.client(self.world.token)
        self._others: list[Site] = []

    def at(self, server: Server) -> Site:
        """Return the same organization as another server serves it."""
        return self._keep(Site(server, self.world))

    def another(self) -> Site:
        """Return another organization on the same server."""
        return self._keep(Site(self.server))

    def _keep(self, other: Site) -> Site:
        self._others.append(other)
        return other

    def close(self) -> None:
        for each in (*self._others, self):
            each.client.close()

    def ok(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Return the answer's JSON object, or an empty one if there is no body. Fail unless the request succeeded."""
        answer = self.client.request(method, path, **more)
        assert answer.is_success, (answer.status_code, answer.text)
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found

    def pages(self, path: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        url: str | None = path
        params: dict[str, Any] | None = {"per_page": 100, **query}
        found: list[dict[str, Any]] = []
        while url is not None:
            answer = self.client.get(url, params=params)
            assert answer.status_code == 200, answer.text
            found += answer.json()
            url, params = answer.links.get("next", {}).get("url"), None
        return found

    def hook(
        self, receiver: Receiver | str, events: Iterable[str] = ("push",), *, of: str = "repository", **config: Any
    ) -> Hook:
        """Create a webhook and wait until its ping is recorded.

        `config` is added to the URL; the content type is JSON by default.
        """
        url = receiver if isinstance(receiver, str) else receiver.url
        path = (self.world.repo_path if of == "repository" else self.world.org_path) + "/hooks"
        body = {"name": "web", "events": list(events), "config": {"content_type": "json", "url": url, **config}}
        shape = self.ok("POST", path, json=body)
        hook = Hook(self, shape, f"{path}/{shape['id']}")
        if not isinstance(receiver, str):
            hook.attempts("ping", 1)
        return hook

    def publish(self, number: int = 0, event: str = "push", **payload: Any) -> int:
        """Publish an event and return its number of deliveries."""
        body = {"event": event, "payload": {"number": number, **payload}}
        count: int = self.ok("POST", f"{self.world.repo_path}/events", json=body)["deliveries"]
        return count

    def publish_many(self, numbers: Iterable[int], event: str = "push") -> None:
        """Publish from several clients concurrently, in no particular order."""
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda number: self.publish(number, event), numbers))


def numbers(receiver: Receiver, event: str = "push") -> list[int]:
    """Return the `number` of each received event, in order of arrival."""
    return [each.payload()["number"] for each in receiver.events(event)]
