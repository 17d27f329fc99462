"""Streaming parser for uploads (`multipart/form-data`, RFC 7578), which keeps only a piece of the file in memory."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from urllib.parse import unquote_to_bytes

from multipart import (  # type: ignore[import-untyped]  # the library has no types
    MultipartError,
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from workhook.core import json
from workhook.core.errors import Fault, Invalid, Malformed, TooLarge, UnsupportedMediaType, say, shown
from workhook.core.records import Wire
from workhook.http import parameters
from workhook.http.calls import Call
from workhook.identity.context import Write
from workhook.work.files import actions
from workhook.work.files.schemas import Content, File, FileCreate
from workhook.work.kernel.access import Access

FORM = "multipart/form-data"
FILE_FIELD = "file"
BOUNDARY_MAX_CHARS = 200  # RFC 2046 allows 70
PARTS_MAX = 32
STEP_BYTES = 64 * 1024
FIELD_MAX_BYTES = 4 * 1024  # no parameter is longer
AROUND_MAX_BYTES = 1024 * 1024  # of the body, besides the content of the file

_PLAIN = ("", "7bit", "8bit", "binary")

Fields = dict[str, list[str]]
Admit = Callable[[Fields], Awaitable[None]]
Sink = Callable[[bytes], Awaitable[None]]
"""Takes the bytes of a file, such as `storage.blobs.Incoming.write`."""


async def read_form(call: Call, sink: Sink, *, limit: int, admit: Admit | None = None, parts: int = PARTS_MAX) -> Form:
    """Write the file to `sink`; the caller decides whether to keep it.

    `limit` is the maximum size of the file in bytes. `admit` is called with the fields that precede the file, and
    raises to reject it. Raises `UnsupportedMediaType`, `Malformed`, `TooLarge`, `Invalid` and `Unavailable`. Misuse of
    the field `file` is reported in the form's `faults`.
    """
    too_large = TooLarge(say("A file can be at most {} MiB.", limit // 2**20))
    if least_file_bytes(call) > limit:
        raise too_large
    form = Form(sink, limit, too_large, admit)
    parser = PushMultipartParser(_boundary(call.header("content-type")), max_segment_count=parts)
    seen = 0
    async for data in call.request.stream():
        seen += len(data)
        if seen > limit + AROUND_MAX_BYTES:
            raise too_large
        # The server reads pieces of 256 KiB, and the parser and its consumers would each hold a copy.
        for start in range(0, len(data), STEP_BYTES):
            for event in _events(parser, data[start : start + STEP_BYTES], parts):
                await form.read(event)
    try:
        parser.close()
    except MultipartError as error:
        raise Malformed("The form ends before its last boundary.") from error
    if not form.has_file and admit is not None:
        await admit(form.fields)
    if not form.has_file and not form.faults:
        form.add_fault(FILE_FIELD, "missing", say("{} is required", FILE_FIELD))
    return form


def least_file_bytes(call: Call) -> int:
    """Return the minimum size of the file according to `Content-Length`, or 0 without that header."""
    declared = call.header("content-length")
    if not declared or not declared.isascii() or not declared.isdigit():
        return 0
    return max(0, int(declared[:20]) - AROUND_MAX_BYTES)


def _boundary(content_type: str | None) -> str:
    media_type, options = parse_options_header(content_type or "")
    if media_type != FORM:
        raise UnsupportedMediaType(f"Send a form ({FORM}), not {shown(media_type) or 'a body without Content-Type'}.")
    boundary: str = options.get("boundary", "")
    if not 1 <= len(boundary) <= BOUNDARY_MAX_CHARS or not boundary.isascii() or not boundary.isprintable():
        raise Malformed("The Content-Type of the form has no boundary.")
    return boundary


def _events(parser: PushMultipartParser, data: bytes, parts: int) -> Iterator[MultipartSegment | bytes | None]:
    """Yield each part as its head, its bytes, and None at the end. Raises `Malformed`."""
    try:
        yield from parser.parse(data)
    except ParserLimitReached as error:
        raise Malformed(f"A form can have at most {parts} parts with short headers: {error}.") from error
    except MultipartError as error:
        raise Malformed(f"Problems parsing the form: {error}.") from error


class Form:
    """A form that is parsed part by part. The bytes of the file are passed to `sink`."""

    def __init__(self, sink: Sink, limit: int, too_large: TooLarge, admit: Admit | None) -> None:
        self.fields: Fields = {}
        self.name = ""
        self.content_type = ""
        self.faults: list[Fault] = []
        self.has_file = False
        self._sink = sink
        self._limit = limit
        self._too_large = too_large
        self._admit = admit
        self._part: MultipartSegment | None = None
        self._text = bytearray()
        self._is_content = False
        self._size = 0

    async def read(self, event: MultipartSegment | bytes | None) -> None:
        if isinstance(event, MultipartSegment):
            self._begin(event)
            if self._is_content and self._admit is not None:
                await self._admit(self.fields)
        elif event is None:
            self._end()
        elif self._is_content:
            self._size += len(event)
            if self._size > self._limit:
                raise self._too_large
            await self._sink(event)
        else:
            self._add(event)

    def _begin(self, part: MultipartSegment) -> None:
        self._part, self._is_content = part, False
        self._text.clear()
        encoding = part.header("Content-Transfer-Encoding") or ""
        if encoding.strip().lower() not in _PLAIN:
            raise Malformed(f"Parts of a form are sent as they are, not in {shown(encoding)} (RFC 7578, 4.7).")
        name = extended_name(part.header("Content-Disposition") or "")
        name = part.filename if name is None else name
        if part.name == FILE_FIELD and name:
            if self.has_file:
                raise Invalid.at(FILE_FIELD, say("{} must be one file", FILE_FIELD))
            self.has_file = self._is_content = True
            self.name, self.content_type = clean_name(name), clean_media_type(part.header("Content-Type"))
        elif name:
            field = shown(part.name or "")
            self.add_fault(field, "unknown", say("unknown parameter {}", f"{field} of a file"))

    def _add(self, data: bytes) -> None:
        assert self._part is not None, "bytes come after the head of their part"
        self._text += data
        if len(self._text) > FIELD_MAX_BYTES and not self._part.filename:
            name = shown(self._part.name or "")
            raise Invalid.at(name, say("{} must be text of at most {} bytes", name, FIELD_MAX_BYTES))
        del self._text[FIELD_MAX_BYTES + 1 :]  # of a file that is not wanted

    def _end(self) -> None:
        part = self._part
        assert part is not None, "a part begins before it ends"
        if self._is_content:
            self._is_content = False
        elif part.name == FILE_FIELD and (self._text or part.filename is None):
            self.add_fault(FILE_FIELD, "invalid", say("{} must be a file with a filename", FILE_FIELD))
        elif not part.filename and part.name != FILE_FIELD:
            name = part.name or ""
            try:
                text = self._text.decode()
            except UnicodeDecodeError:
                self.add_fault(shown(name), "invalid", say("{} must be UTF-8", shown(name)))
            else:
                self.fields.setdefault(name, []).append(text)

    def add_fault(self, name: str, code: str, message: str) -> None:
        self.faults.append(Fault(field=name, code=code, message=message))


def parameters_of(query: Mapping[str, Sequence[str]], form: Form) -> dict[str, Sequence[str]]:
    """Prefer the form to the query string, but keep repeated query parameters, which are rejected later."""
    twice = {name: values for name, values in query.items() if len(values) > 1}
    return {**query, **form.fields, **twice}


# --- names and media types from untrusted clients ---------------------------------------------------------------------

NAME_MAX_CHARS = 255
UNKNOWN_TYPE = "application/octet-stream"
_ACTIVE_TYPES = frozenset(
    {"text/html", "text/css", "application/wasm", "application/xml", "text/xml", "text/cache-manifest", "text/xsl"}
)

NAMELESS = "file"
_SUFFIX_MAX_CHARS = 20

# Characters that reverse the text direction can disguise `gpj.exe` as `exe.jpg`; line separators break lists.
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")

# An unterminated string extends to the end of the header, so that nothing is scanned twice.
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*+(?:"|\\?\Z)', re.DOTALL)
_EXTENDED = re.compile(r";\s*filename\*\s*=\s*(utf-8|iso-8859-1)'[A-Za-z0-9-]*'([^;\s]*)", re.IGNORECASE)

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105  # RFC 9110, 5.6.2
_BLANKS = r"[ \t]*"  # any other white space would break the header in the response
_MEDIA_TYPE = re.compile(rf'{_TOKEN}/{_TOKEN}({_BLANKS};{_BLANKS}{_TOKEN}=({_TOKEN}|"[ !#-\[\]-~]*"))*')
_MEDIA_TYPE_MAX_CHARS = 127


def extended_name(disposition: str) -> str | None:
    """Return the `filename*` (RFC 8187) of a Content-Disposition header, which HTTP libraries send."""
    found = _EXTENDED.search(_QUOTED.sub('""', disposition))
    if found is None:
        return None
    try:
        return unquote_to_bytes(found[2]).decode(found[1])
    except UnicodeDecodeError:
        return None


def clean_name(raw: str) -> str:
    """Return the last component of a path on any system, without invisible characters. Never empty, `.` or `..`."""
    last = re.split(r"[/\\]", raw)[-1]
    kept = "".join(each for each in last if each not in _TURNS and unicodedata.category(each) not in _UNPRINTABLE)
    name = kept.strip()
    return _shortened(name) if name.strip(". ") else NAMELESS


def _shortened(name: str) -> str:
    """Shorten a file name to `NAME_MAX_CHARS`. Its suffix is kept unless that is too long itself."""
    if len(name) <= NAME_MAX_CHARS:
        return name
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix) > _SUFFIX_MAX_CHARS:
        return name[:NAME_MAX_CHARS].rstrip()
    return stem[: NAME_MAX_CHARS - len(suffix) - 1] + dot + suffix


def clean_media_type(raw: str | None) -> str:
    """Return `raw` if it is a valid media type (RFC 9110, section 8.3.1), or else the generic one."""
    text = (raw or "").strip()
    if len(text) <= _MEDIA_TYPE_MAX_CHARS and _MEDIA_TYPE.fullmatch(text):
        return text
    return UNKNOWN_TYPE


def inert_media_type(media_type: str) -> str:
    """Return the media type for sending a file.

    Types that a browser could run as a script, style sheet or page of this server are replaced by a generic one.
    """
    plain = media_type.partition(";")[0].strip().lower()
    main, _, sub = plain.partition("/")
    is_active = "script" in sub or plain in _ACTIVE_TYPES or (main != "image" and sub.endswith("xml"))
    return UNKNOWN_TYPE if is_active else media_type


class Upload:
    """Context manager for an uploaded file, whose blob is removed unless a row references it.

    If the outcome of a commit is unknown, the blob is left for `actions.purge`. Set `is_stored` to False if no row
    references the blob.
    """

    def __init__(self, call: Call, access: Access, create: FileCreate, content: Content, fingerprint: bytes) -> None:
        self.fingerprint = fingerprint
        self.content = content
        self.is_stored = False
        self._call = call
        self._access = access
        self._create = create

    async def create(self, write: Write) -> Wire[File]:
        """Write the row. Called for each attempt of the change."""
        self.is_stored = False
        await actions.require_room(self._call, self._access, self.content.size, write.tx)
        project_id = self._access.repository.project_id
        made = await actions.create_file(write, project_id, self._create, self.content)
        self.is_stored = True
        return made

    async def __aenter__(self) -> Upload:
        return self

    async def __aexit__(self, *error: object) -> None:
        if not self.is_stored:
            await self._call.services.blobs.forget(self.content.blob)


async def receive(call: Call, access: Access, *, admit: Admit | None = None, may_be_stored: bool = False) -> Upload:
    """Read the form in the request.

    For `admit`, see `read_form`; it may also remove fields that are not parameters. `may_be_stored` marks a request
    that may repeat an earlier one, in which case it needs no space.
    """
    access.require_writable()  # before the body is read, so that nothing is stored for a caller without the right
    if not may_be_stored:
        await actions.require_room(call, access, least_file_bytes(call))
    async with call.services.blobs.incoming() as incoming:
        form = await read_form(call, incoming.write, limit=limit_of(call), admit=admit)
        await call.body_came()
        try:
            create = parameters.gather(FileCreate, parameters_of(call.query, form), {})
        except Invalid as error:
            raise Invalid(faults=[*form.faults, *error.faults]) from error
        if form.faults:
            raise Invalid(faults=form.faults)
        await incoming.keep()
    content = Content(form.name, form.content_type, incoming.size, incoming.sha256, incoming.name)
    # Without the boundary, which differs when the request is sent again.
    request = json.encode([sorted(form.fields.items()), form.name, form.content_type, incoming.sha256])
    return Upload(call, access, create, content, fingerprint=request)


def limit_of(call: Call) -> int:
    """Return the maximum size of a file in bytes."""
    return call.services.settings.upload_max_mb * 2**20
