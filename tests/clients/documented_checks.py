"""The documented verification rules of receivers that cannot run here, for requests from GitHub.

Each check returns why the receiver would refuse the request, or None if it would accept it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote_plus

from tests.harness.receiver import Received

JSON, FORM = "application/json", "application/x-www-form-urlencoded"

Check = Callable[[Received, str], str | None]


def _hmac(secret: str, body: bytes, digest: str) -> str:
    return hmac.new(secret.encode(), body, digest).hexdigest()


def _payload_of(received: Received) -> str | None:
    """Return the JSON payload: the body, or a form's field `payload`.

    The media type must be exactly one of the two.
    """
    text = received.body.decode()
    if received.headers["content-type"] == JSON:
        return text
    return parse_qs(text)["payload"][0] if received.headers["content-type"] == FORM else None


def _encoded_by_java(text: str) -> str:
    """Encode like `java.net.URLEncoder`, which keeps letters, digits and `*-._` and encodes a space as `+`."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def jenkins(received: Received, secret: str) -> str | None:
    """Check like the GitHub plugin at `/github-webhook/`.

    The plugin rebuilds the form from the payload before signing it, so the form must be escaped the way Java does it.
    Older releases use SHA-1, newer ones SHA-256.
    """
    payload = _payload_of(received)
    if not received.headers.get("x-github-event", "").strip():
        return "Hook should contain event type"
    if payload is None or not payload.strip():
        return "Hook should contain payload"
    is_json = received.headers["content-type"] == JSON
    signed = (payload if is_json else f"payload={_encoded_by_java(payload)}").encode()
    for header, digest in (("x-hub-signature", "sha1"), ("x-hub-signature-256", "sha256")):
        if received.headers.get(header) != f"{digest}={_hmac(secret, signed, digest)}":
            return f"Provided signature did not match: {header}"
    return None


def argo_cd(received: Received, secret: str) -> str | None:
    """Check like `/api/webhook`, which accepts only JSON with a SHA-256 signature of the body.

    From a push it reads the ref, the repository's URL and default branch, and the files. It is written in Go and
    requires integers for `created_at` and `pushed_at`.
    """
    if not received.headers.get("x-github-event"):
        return "Ignoring unknown webhook event"
    if not received.body:
        return "error parsing payload"
    signature = received.headers.get("x-hub-signature-256", "").removeprefix("sha256=")
    if signature != _hmac(secret, received.body, "sha256"):
        return "HMAC verification failed"
    payload = json.loads(received.body)
    return _no_push(payload) if received.headers["x-github-event"] == "push" else None


def _no_push(payload: dict[str, Any]) -> str | None:
    repository = payload["repository"]
    for name in ("created_at", "pushed_at"):
        if not isinstance(repository[name], int | None):
            return f"cannot unmarshal {name} into int64"
    wanted = {"html_url": str, "default_branch": str, "clone_url": str, "size": int, "private": bool}
    return next((f"no {name}" for name, kind in wanted.items() if not isinstance(repository[name], kind)), None)


def argo_events(received: Received, secret: str) -> str | None:
    """Check like the GitHub event source, which accepts JSON or a form, signed as sent with SHA-256 or else SHA-1."""
    if _payload_of(received) is None:
        return "webhook request has unsupported Content-Type"
    given = received.headers.get("x-hub-signature-256") or received.headers.get("x-hub-signature", "")
    digest, _, signature = given.partition("=")
    if digest not in ("sha1", "sha256"):
        return "unknown hash type prefix"
    if signature != _hmac(secret, received.body, digest):
        return "payload signature check failed"
    missing = [name for name in ("x-github-event", "x-github-delivery") if not received.headers.get(name)]
    return f"no header {missing[0]}" if missing else None


CHECKS: dict[str, tuple[Check, tuple[str, ...]]] = {
    "jenkins": (jenkins, ("json", "form")),
    "argo-cd": (argo_cd, ("json",)),
    "argo-events": (argo_events, ("json", "form")),
}
"""Each check and the content types that the receiver accepts."""
