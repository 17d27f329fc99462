"""One answer to one tenant."""

from __future__ import annotations

from dataclasses import dataclass

import httpx


@dataclass(frozen=True)
class Said:
    """What was asked (`key` is the same in every run), whether it was about another's things, and whether a client
    asked."""

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
