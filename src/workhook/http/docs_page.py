"""`/docs`: the OpenAPI document as a page that needs no network but this server."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files


@cache
def docs_page() -> tuple[bytes, dict[str, str]]:
    """The page with script and style in it, and its headers. The policy lets these two run alone, by their hashes."""
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
    return html.encode(), {"Content-Security-Policy": "; ".join(policy), "Referrer-Policy": "no-referrer"}


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
