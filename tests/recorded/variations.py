"""The requests made for every operation: the valid one, and variants with one error each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.recorded.good import Good, good
from tests.recorded.recorder import Recorder
from tests.recorded.things import Things

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
STREAM = "/api/v1/projects/{id}/stream"
OTHER_PATHS = (
    "/api/v3/user", "/api/v3/repos/acme/website/hooks", "/api/graphql", "/login", "/login/device", "/login/oidc",
    "/settings/password", "/static/no-such", "/no-such", "/api/v1/no-such", "/api/v1", "/user/", "/apps/no-such",
    "/user%2Ftokens", "/%FF", "/api/v1/projects/%00",
)  # fmt: skip
_WRONG: dict[str, Any] = {"x": []}  # no property of any body has this value


@dataclass(frozen=True)
class Operation:
    """An operation as the OpenAPI document describes it. `path_types` are the types of its path parameters."""

    method: str
    path: str
    path_types: dict[str, str]
    query: tuple[str, ...]
    headers: frozenset[str]
    properties: tuple[str, ...]  # properties of a JSON body
    statuses: frozenset[str]
    open: bool  # no authentication is required

    @property
    def key(self) -> str:
        return f"{self.method} {self.path}"


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    """Return all operations of the document, with those last that end what others need."""
    found = [
        _operation(document, method.upper(), path, item[method])
        for path, item in sorted(document["paths"].items())
        for method in item
        if method.upper() in METHODS
    ]
    return iter(sorted(found, key=lambda each: each.key == "DELETE /installation/token"))


def _operation(document: dict[str, Any], method: str, path: str, item: dict[str, Any]) -> Operation:
    given = [_resolved(document, each) for each in item.get("parameters", [])]
    body = item.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    security = item.get("security", [{}])
    return Operation(
        method,
        path,
        {each["name"]: str(each["schema"].get("type")) for each in given if each["in"] == "path"},
        tuple(each["name"] for each in given if each["in"] == "query"),
        frozenset(each["name"] for each in given if each["in"] == "header"),
        tuple(_resolved(document, body).get("properties", {})),
        frozenset(item["responses"]),
        {} in security or not security,
    )


def _resolved(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in value:
        return value
    found: Any = document
    for part in value["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


class Attempts:
    """All requests made for one operation."""

    def __init__(self, recorder: Recorder, things: Things, operation: Operation) -> None:
        self.recorder, self.things, self.operation = recorder, things, operation
        recorder.begin(operation.key)
        self.good: Good = good(things, operation.key)

    @property
    def path(self) -> str:
        return self.operation.path.format(**self.good.names)

    def ask(self, label: str, *, path: str = "", by: str | None = None, **more: Any) -> Any:
        """Send the valid request with the given changes."""
        sent = {**self.good.more, **more}
        who = self.things.by[self.good.by] if by is None else by
        return self.recorder.ask(self.operation.method, path or self.path, label, who, **sent)

    def run(self) -> None:
        if self.operation.path == STREAM:
            self._stream()
            return
        if not self.operation.open:
            self._strangers()
        if self.operation.properties:
            self._bodies()
        if self.operation.method == "GET":
            self._read()
        else:
            self._write()
        self._missing()

    def _strangers(self) -> None:
        self.ask("without a token", by="")
        self.ask("with a bad token", by="Bearer nonsense")
        self.ask("by a stranger", by=self.things.by["stranger"])

    def _bodies(self) -> None:
        kind = {"Content-Type": "application/json"}
        self.ask("malformed JSON", json=None, content=b'{"', headers=kind)
        self.ask("a list for a body", json=[])
        self.ask("each property is wrong", json=dict.fromkeys(self.operation.properties, _WRONG))
        self.ask("not JSON", json=None, content=b"text", headers={"Content-Type": "text/plain"})

    def _read(self) -> None:
        answer = self.ask("good")
        tag = answer.headers.get("etag")
        if tag:
            self.ask("not modified", headers={"If-None-Match": tag})
            self.ask("another ETag", headers={"If-None-Match": '"another"'})
        head = self.things.by[self.good.by]
        self.recorder.ask("HEAD", self.path, "head", head, **self.good.more)
        if "206" in self.operation.statuses:
            self.ask("a part", headers={"Range": "bytes=1-3"})
        self.ask("an unknown parameter", params={**self.good.more.get("params", {}), "no_such": "1"})
        for name in self.operation.query:
            self.ask(f"a wrong {name}", params={**self.good.more.get("params", {}), name: "not valid!"})
        if "per_page" in self.operation.query:
            following = self.ask("a short page", params={**self.good.more.get("params", {}), "per_page": "1"})
            if "next" in following.links:
                address = following.links["next"]["url"]
                self.ask("the next page", path=address, params=None)

    def _write(self) -> None:
        if "If-Match" in self.operation.headers:
            self.ask("another If-Match", headers={"If-Match": '"another"'})
            tag = self.recorder.ask("GET", self.path, "prepare", self.things.by["owner"]).headers.get("etag", "*")
            self.ask("the right If-Match", headers={"If-Match": tag})
            self.good = good(self.things, self.operation.key)
        if "Idempotency-Key" in self.operation.headers:
            key = {"Idempotency-Key": f"key-{next(self.things.numbers)}"}
            self.ask("good", headers=key)
            self.ask("the same key again", headers=key)
            self.ask("the same key for something else", headers=key, params={"no_such": "1"})
            if self.operation.properties:
                self.ask("the same key with another body", headers=key, json={self.operation.properties[0]: "Other"})
        else:
            self.ask("good")
        self.ask("once more")
        self.ask("an unknown parameter", params={"no_such": "1"})
        if self.operation.properties:
            self.ask("an unknown property", json={**self.good.more.get("json", {}), "no_such": 1})

    def _missing(self) -> None:
        for name, kind in self.operation.path_types.items():
            nowhere = "999999999" if kind == "integer" else "no-such"
            self.ask(f"no such {name}", path=self.operation.path.format(**{**self.good.names, name: nowhere}))

    def _stream(self) -> None:
        self._strangers()
        self.recorder.stream(f"{self.path}?last_event_id=1", "good", self.things.by["owner"])
        self.ask("a wrong last_event_id", params={"last_event_id": "not valid!"})
        self._missing()


def try_other_methods(recorder: Recorder, things: Things, document: dict[str, Any]) -> None:
    """Send OPTIONS and the first unsupported method to each path."""
    for path, item in sorted(document["paths"].items()):
        there = {method.upper() for method in item}
        names = dict.fromkeys(_names(path), "1")
        other = next(each for each in reversed((*METHODS, "PROPFIND")) if each not in there)
        for method in ("OPTIONS", other):
            recorder.begin(f"{method} {path}")
            recorder.ask(method, path.format(**names), "another method", things.by["owner"])


def try_other_paths(recorder: Recorder, things: Things) -> None:
    """Send requests to pages, to the second prefix, and to unknown paths."""
    for path in OTHER_PATHS:
        for method in ("GET", "HEAD", "POST"):
            recorder.begin(f"{method} {path}")
            recorder.ask(method, path, "another path", things.by["owner"])


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
