"""`/docs`: the OpenAPI document as a page that needs no network but this server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Page:
    """A page and the headers that confine it."""

    html: bytes
    headers: Mapping[str, str]


@cache
def docs_page() -> Page:
    """The page with its script and style in it; the policy lets exactly these two run, by their hashes."""
    folder = files("workhook.http")
    style, script = (folder.joinpath(f"docs.{kind}").read_text("utf-8") for kind in ("css", "js"))
    html = folder.joinpath("docs.html").read_text("utf-8").replace("{{style}}", style).replace("{{script}}", script)
    policy = (
        "default-src 'none'",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(script)}'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    headers = {"Content-Security-Policy": "; ".join(policy), "Referrer-Policy": "no-referrer"}
    return Page(html.encode(), headers)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
