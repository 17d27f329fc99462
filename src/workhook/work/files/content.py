"""`GET /files/{id}/content`: the bytes of a file, to whoever has a signed link or a token that may see it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncGenerator
from urllib.parse import quote

import structlog
from prometheus_client import Counter

from workhook.core.errors import Forbidden, NotFound, Problem, Unauthenticated
from workhook.http.calls import Answer, Call
from workhook.identity import policy
from workhook.identity.authenticator import caller_of
from workhook.work.files import actions
from workhook.work.files.links import is_signed
from workhook.work.files.tables import Content
from workhook.work.files.upload import NAMELESS

CUT = Counter("workhook_files_downloads_cut_total", "Downloads that ended early because the store failed.")

# Whatever the file is, a browser saves it: it neither shows nor runs it, and no proxy keeps it for somebody else.
_HEADERS = {
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}

log = structlog.get_logger(__name__)


async def get_content(call: Call) -> Answer:
    content = await _find_allowed(call)
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
    end = start if call.request.method == "HEAD" else stop
    pieces = await call.services.blobs.read(content.blob, start, end)
    return Answer(_watched(call, content, pieces), status=status, headers=headers, media_type=content.content_type)


async def _find_allowed(call: Call) -> Content:
    """Raises `Forbidden` for a link that is not good (any more), and `Unauthenticated` without link and token."""
    file_id = call.path("id")
    expires, signature = call.query_text("expires"), call.query_text("signature")
    is_link = expires is not None and signature is not None
    if is_link and is_signed(call.services.vault, file_id, expires or "", signature or ""):
        content = await actions.find_content(call.database, file_id)
        if content is None:
            raise NotFound()
        return content
    actor = caller_of(call).actor
    if actor is None and (expires is not None or signature is not None):
        raise Forbidden("The link is not good, or has expired. Get the file again for a new one.", code="bad_link")
    if actor is None:
        raise Unauthenticated("Requires authentication", headers={"WWW-Authenticate": "Bearer"})
    actor = policy.admit(actor, policy.RULES["work.read"])
    _, file = await actions.find_file(call.database, actor, file_id)
    return Content(file.name, file.content_type, file.size, file.sha256, file.blob)


def _range(call: Call, content: Content, tag: str) -> tuple[int, int] | None:
    """Raises `RangeNotSatisfiable`."""
    condition = call.header("if-range")
    if call.request.method == "HEAD" or (condition is not None and condition.strip() != tag):
        return None
    return read_range(call.header("range"), content.size)


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


def attachment(name: str) -> str:
    """The Content-Disposition (RFC 6266) under which browsers save a file, and never show it."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r'["\\%/]', "_", plain).strip() or NAMELESS
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


# --- ranges (RFC 9110, 14) --------------------------------------------------------------------------------------------

_RANGE = re.compile(r"bytes\s*=\s*(\d*)-(\d*)", re.IGNORECASE | re.ASCII)
_DIGITS_MAX = 18  # more than any file has bytes, and Python refuses to read some thousands of them


class RangeNotSatisfiable(Problem):
    """The range begins behind the end."""

    status, code = 416, "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"The file has {size} bytes.", headers={"Content-Range": f"bytes */{size}"})


def read_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last. None: all of it is the answer.

    That is so without a header, for one that cannot be read, and for several ranges at once, as the RFC permits.
    Raises `RangeNotSatisfiable`.
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        count = _number(found[2])
        if count == 0:
            raise RangeNotSatisfiable(size)
        return (max(0, size - count), size) if size else None  # there is no way to write a range of no bytes
    first = _number(found[1])
    last = _number(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return first, min(last, size - 1) + 1


def _number(digits: str) -> int:
    significant = digits.lstrip("0")
    return 10**_DIGITS_MAX if len(significant) > _DIGITS_MAX else int(significant or "0")
