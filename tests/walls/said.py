"""One answer to one tenant."""

from __future__ import annotations

from dataclasses import dataclass

import httpx


@dataclass(frozen=True)
class Said:
    """A request and its answer. `key` is the same in every run, `foreign` marks requests about another tenant's
    objects, and `by_client` those made by a client."""

    key: str
    title: str
    status: int
    head: str
    body: str
    foreign: bool = False
    by_client: bool = False

    @property
    def text(self) -> str:
        return f"{self.head} {self.body}"


def said(key: str, title: str, answer: httpx.Response, *, foreign: bool = False, by_client: bool = False) -> Said:
    return Said(key, title, answer.status_code, str(answer.headers), answer.text, foreign, by_client)
