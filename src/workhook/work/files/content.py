"""`GET /files/{id}/content`: the bytes of a file, to whoever has a signed link or a token that may see it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import structlog
from prometheus_client import Counter

from workhook.core.errors import Forbidden, NotFound, Problem, Unauthenticated
from workhook.http.calls import Answer, Call
from workhook.identity import policy
from workhook.identity.authenticator import caller_of
from workhook.work.files import actions, queries
from workhook.work.files.links import is_signed
from workhook.work.files.names import attachment
from workhook.work.files.ranges import Unsatisfiable, read_range
from workhook.work.files.schemas import Content, content_of

CUT = Counter("workhook_files_downloads_cut_total", "Downloads that ended early because the store failed.")

# Whatever the file is, a browser saves it: it neither shows nor runs it, and no proxy keeps it for somebody else.
_HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}

log = structlog.get_logger(__name__)


class RangeNotSatisfiable(Problem):
    status, code = 416, "range_not_satisfiable"


async def get_content(call: Call) -> Answer:
    content = await _allowed(call)
    tag = f'"{content.sha256}"'
    headers = {**_HEADERS, "ETag": tag}
    if _matches(call.header("if-none-match"), tag):
        return Answer(None, status=304, headers=headers)
    start, stop, status = 0, content.size, 200
    if (found := _range(call, content, tag)) is not None:
        start, stop = found
        status = 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
    headers["Content-Disposition"] = attachment(content.name)
    headers["Content-Length"] = str(stop - start)
    headers["Content-Type"] = content.content_type  # as it is: other text gets a charset
    shown = start if call.request.method == "HEAD" else stop
    pieces = await call.services.blobs.read(content.blob, start, shown)
    return Answer(_watched(call, content, pieces), status=status, headers=headers, media_type=content.content_type)


async def _allowed(call: Call) -> Content:
    """Raises `Forbidden` for a link that is not good (any more), and `Unauthenticated` without link and token."""
    file_id = call.path("id")
    expires, signature = call.query_text("expires"), call.query_text("signature")
    is_link = expires is not None and signature is not None
    if is_link and is_signed(call.services.vault, file_id, expires or "", signature or ""):
        content = await queries.find_content(call.database, file_id)
        if content is None:
            raise NotFound()
        return content
    actor = caller_of(call).actor
    if actor is None and (expires is not None or signature is not None):
        raise Forbidden("The link is not good, or has expired. Get the file again for a new one.", code="bad_link")
    if actor is None:
        raise Unauthenticated("Requires authentication", headers={"WWW-Authenticate": "Bearer"})
    actor = policy.admit(actor, policy.RULES["work.read"])
    _, file = await actions.get_file(call.database, actor, file_id)
    return content_of(file)


def _range(call: Call, content: Content, tag: str) -> tuple[int, int] | None:
    """Raises `RangeNotSatisfiable`."""
    condition = call.header("if-range")
    if call.request.method == "HEAD" or (condition is not None and condition.strip() != tag):
        return None
    try:
        return read_range(call.header("range"), content.size)
    except Unsatisfiable:
        headers = {"Content-Range": f"bytes */{content.size}"}
        raise RangeNotSatisfiable(f"The file has {content.size} bytes.", headers=headers) from None


def _matches(condition: str | None, tag: str) -> bool:
    """RFC 9110, 13.1.2: weak comparison."""
    if condition is None:
        return False
    return condition.strip() == "*" or tag in [each.strip().removeprefix("W/") for each in condition.split(",")]


async def _watched(call: Call, content: Content, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """What goes wrong here comes too late for an answer: the connection is cut, so that nobody takes it for the end."""
    try:
        async for piece in pieces:
            yield piece
    except Exception:
        CUT.inc()
        log.exception("download_cut", request_id=call.request_id, blob=content.blob)
        raise
