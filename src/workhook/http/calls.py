"""The argument (`Call`) and the result (`Response`) of a handler."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from workhook.core import json
from workhook.core.config import Settings
from workhook.core.disclosure import HiddenRepr, Viewer
from workhook.core.errors import (
    Fault,
    Invalid,
    Malformed,
    NotFound,
    PreconditionFailed,
    Problem,
    TooLarge,
    UnsupportedMediaType,
    say,
    shown,
)
from workhook.core.ids import is_request_id, new_request_id
from workhook.core.urls import OwnAddress
from workhook.core.vault import Vault
from workhook.http.messages import Request
from workhook.http.operations import Operation
from workhook.storage import Database
from workhook.storage.blobs import Blobs

JSON_BODY_MAX = 1024 * 1024
JSON_VALUES_MAX = 200_000  # objects, lists, strings and numbers in a body; each takes more memory than its bytes
THREAD_MIN_BYTES = 64 * 1024  # bytes; a body of small values takes 50 ms
QUERY_FIELDS_MAX = 1_000
AUTHENTICATION_MAX_AGE_S = 1.0  # how long the authenticator's result is trusted while a body arrives

Place = tuple[int, int | None]
"""An account and one of its repositories, or None for the account itself."""
RemainingRights = Literal["whole", "less", "gone"]
"""The caller's remaining rights: all of them; fewer, but every place is still visible; or some place is now hidden."""

NO_STORE = {"Cache-Control": "no-store"}
"""Headers of a response that contains a secret and must not be cached."""

_FORM = "application/x-www-form-urlencoded"
_HOST = re.compile(r"[A-Za-z0-9._\-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_WITH_PORT = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+")


async def _unlimited(caller: str) -> None:
    return None


@dataclass(frozen=True)
class Services:
    """The services of the process, created once by `bootstrap`."""

    settings: Settings
    database: Database
    vault: Vault
    blobs: Blobs  # the contents of files
    check_url: Callable[[str], str | None]  # why deliveries can never reach this URL, or None
    # Returns how many of the rights required by an earlier request (`RequestRecord.require_right`) the caller still
    # has.
    remaining_rights: Callable[[Call, Mapping[Place, int]], Awaitable[RemainingRights]]
    # Counts a submitted form of a signed-in user. Raises `TooManyRequests` beyond the hourly limit.
    count_form: Callable[[str], Awaitable[None]] = _unlimited
    # Likewise for a requested page.
    count_page: Callable[[str], Awaitable[None]] = _unlimited
    own: OwnAddress = field(default_factory=OwnAddress)  # the address of this server
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  # the process is stopping; long-lived work ends too
    # Writes that must still happen then. Called in order, before the database is closed.
    closing: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    @property
    def base(self) -> str:
        """Return the start of links that are not part of a response. See also `Call.public_base`."""
        return self.settings.base_url or f"http://{self.settings.host}:{self.settings.port}"


class Response(HiddenRepr, msgspec.Struct, frozen=True):
    """The response of a handler. `body` is encoded as JSON, except for bytes and async iterators of bytes.

    An async iterator is always closed. None means that there is no body.
    """

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    media_type: str = "application/json; charset=utf-8"


@dataclass
class RequestRecord:
    """Facts collected while a request is handled: `Call.record`, also available as the caller's `Actor.request`."""

    place: Place | None = None  # the account and repository that the request is about, as far as known
    names: frozenset[str] = frozenset()  # of that place, in lower case; not confidential if they are part of the path
    hidden: bool = False  # the place exists, but not for the caller, who cannot see it
    rights: dict[Place, int] = field(default_factory=dict)  # rights that the change requires
    viewer: Viewer = field(default_factory=Viewer)  # the reader of the response; decides which personal data it shows

    def set_subject(
        self, account_id: int, repository_id: int | None = None, *, hidden: bool = False, names: Iterable[str] = ()
    ) -> None:
        """Report the request to this account's owners if it is rejected.

        `hidden` means that the place exists but the caller cannot see it; only then does a 404 count as a refusal.
        `names` are the account's login and the repository's name if they are part of the path.
        """
        self.place, self.hidden = (account_id, repository_id), hidden
        self.names = frozenset(each.lower() for each in names)

    def clear_subject(self) -> None:
        self.place, self.hidden, self.names = None, False, frozenset()

    def require_right(self, account_id: int, repository_id: int | None, rank: int) -> None:
        """Record a right that the request requires. A higher rank is more; 0 means none.

        A response stored under an `Idempotency-Key` is replayed only to a caller who still has its rights.
        """
        self.rights[account_id, repository_id] = rank

    def show_as_owner(self, organization_id: int) -> None:
        """Show the e-mail addresses of the organization's members in the response, because the caller is an owner."""
        self.viewer.owner_of.add(organization_id)


@dataclass(repr=False)
class Call(HiddenRepr):
    """One request on its way through an operation."""

    request: Request
    operation: Operation
    services: Services
    request_id: str
    prefix: str
    actor: Any = None  # set by the authenticator; `identity.authenticator.actor_of` returns it with its type
    answer_headers: dict[str, str] = field(default_factory=dict)  # added to every response, successful or not
    recheck: Callable[[Call], Awaitable[None]] | None = None  # runs the authenticator again
    checked_at_s: float = 0.0  # when the authenticator ran, on the monotonic clock
    unchanged: Callable[[], Mapping[str, str]] | None = None  # makes the response a 304 with these headers
    token_id: int = 0  # ID of the authenticated token
    read_body: bytes = b""  # set by `body`
    refused: Problem | None = None  # the reason, if the response is not an error: a page, or status 200 with `error`
    made: object = None  # the response body that `write` will return
    record: RequestRecord = field(default_factory=RequestRecord)
    _query: dict[str, list[str]] | None = None

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def base(self) -> str:
        """Return the request's scheme, host, port and prefix, with which every link in the response starts."""
        return origin(self.request, self.services.settings.trust_proxy) + self.prefix

    @property
    def public_base(self) -> str:
        """Return the base of links for other readers: `base_url` if set, since a client can send any `Host`."""
        public = self.services.settings.base_url
        return self.base if public is None else public + self.prefix

    @property
    def address(self) -> str | None:
        return address_of(self.request, self.services.settings)

    def header(self, name: str) -> str | None:
        """Return the first header with this name, which is case-insensitive."""
        return self.request.headers.get(name.lower())

    @property
    def is_conditional(self) -> bool:
        """Return whether `If-Match` lists tags."""
        condition = self.header("if-match")
        return condition is not None and condition.strip() != "*"

    def require_match(self, current: object) -> None:
        """Raise `PreconditionFailed` unless `If-Match` (RFC 9110, 13.1.1) is absent, `*` or lists the `current` tag.

        `current` is the body that a GET would return now, read in the transaction that makes the change.
        """
        if self.is_conditional and not names_tag(self.header("if-match"), tag_of(self.encode(current))):
            raise PreconditionFailed("This has changed since you read it. Fetch it again before changing it.")

    def path(self, name: str) -> str:
        """Return a path parameter. Raises `NotFound` if it contains NUL, which PostgreSQL cannot compare."""
        value = self.request.path_params[name]
        if "\0" in value:
            raise NotFound()
        return value

    def path_integer(self, name: str) -> int:
        """Return a numeric path parameter. Raises `NotFound` if it cannot be an ID."""
        text = self.path(name)
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise NotFound()
        return int(text)

    @property
    def query(self) -> Mapping[str, Sequence[str]]:
        if self._query is None:
            self._query = {}
            raw: bytes = self.request.scope["query_string"]
            try:
                pairs = parse_qsl(
                    raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
                )
                for name, value in pairs:
                    if "\0" in name + value:
                        raise ValueError("NUL")
                    self._query.setdefault(name, []).append(value)
            except (UnicodeDecodeError, ValueError) as error:
                raise Malformed("Problems parsing the query string") from error
        return self._query

    def query_text(self, name: str) -> str | None:
        """Return the last value of a query parameter."""
        values = self.query.get(name)
        return values[-1] if values else None

    def query_integer(self, name: str, default: int, *, low: int, high: int) -> int:
        """Return an integer of at least `low`. Values above `high` count as `high`. Raises `Invalid`."""
        text = self.query_text(name)
        if text is None:
            return default
        # A number with this many digits always exceeds `high`, and Python refuses to parse several thousand of them.
        number = int(text[:1000]) if text.isascii() and text.isdigit() else low - 1
        if number < low:
            raise Invalid.at(name, say("{} must be a whole number of at least {}", name, low))
        return min(number, high)

    def query_choice(self, name: str, known: Sequence[str]) -> str:
        """Return one of the `known` values; the first is the default. Raises `Invalid`."""
        value = self.query_text(name) or known[0]
        if value not in known:
            raise Invalid.at(name, say("{} must be one of {}", name, ", ".join(known)))
        return value

    async def body(self, limit: int = JSON_BODY_MAX) -> bytes:
        """Read the request's body. Raises `TooLarge` as soon as it exceeds `limit` bytes.

        If the body arrives slowly, the authenticator runs again and raises its errors, because a token revoked in the
        meantime must not complete a request.
        """
        declared = self.header("content-length")
        if declared and declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        parts, size = [], 0
        async for part in self.request.stream():
            size += len(part)
            if size > limit:
                raise _too_large(limit)
            parts.append(part)
        self.read_body = b"".join(parts)
        await self.body_came()
        return self.read_body

    async def body_came(self) -> None:
        """Authenticate again if the body took long to arrive. For callers that read the request stream themselves."""
        if self.recheck is not None and time.monotonic() - self.checked_at_s > AUTHENTICATION_MAX_AGE_S:
            await self.recheck(self)

    def encode(self, body: object) -> bytes:
        """Encode a response body with the personal data that its viewer may see."""
        return body if isinstance(body, bytes) else json.encode_for(self.record.viewer, body)

    async def json_object(
        self,
        limit: int = JSON_BODY_MAX,
        *,
        values: int = JSON_VALUES_MAX,
        strict_type: bool = False,
        null: bool = False,
    ) -> dict[str, Any]:
        """Return the body as an object. An empty body counts as an empty object.

        Raises `Malformed`, `TooLarge` and, with `strict_type`, `UnsupportedMediaType` for a body declared as anything
        other than plain JSON.

        In areas that reject undeclared parameters, repeated keys raise `Invalid`; elsewhere the last one wins. An
        object sent with a form's content type is accepted, because curl sends that type with every `-d`. With `null`,
        JSON null also counts as an empty object, because Go clients send it for an omitted body.
        """
        data = await self.body(limit)
        if not data.strip():
            return {}
        if (encoding := (self.header("content-encoding") or "identity").strip().lower()) != "identity":
            remedy = f"Send the body as it is, without Content-Encoding: {shown(encoding)}."
            raise UnsupportedMediaType(remedy) if strict_type else Malformed(f"Problems parsing JSON. {remedy}")
        media_type = (self.header("content-type") or "application/json").partition(";")[0].strip().lower()
        is_json = media_type == "application/json" or media_type.endswith("+json")
        if strict_type and not is_json and not (media_type == _FORM and data.lstrip().startswith(b"{")):
            raise UnsupportedMediaType(f"Send JSON (Content-Type: application/json), not {media_type}.")
        once = self.operation.area.undeclared == "refused"
        if len(data) < THREAD_MIN_BYTES:
            value = _parsed(data, values, once)
        else:
            value = await asyncio.to_thread(_parsed, data, values, once)
        if value is None and null:
            return {}
        if not isinstance(value, dict):
            raise Malformed("Body should be a JSON object")
        return value


def _parsed(data: bytes, values: int, once: bool) -> Any:
    """Parse a body. Raises `Malformed`, `TooLarge` and, with `once`, `Invalid` for repeated names."""
    if json.has_more_values(data, values):
        raise TooLarge(f"The request body has more than {values:,} values.")
    value = json.decode_untrusted(data)
    if once and isinstance(value, dict) and (names := json.repeated_names(data, value)):
        raise Invalid(faults=[repeated(name) for name in names])
    return value


def _too_large(limit: int) -> TooLarge:
    return TooLarge(say("The request body is larger than {} bytes.", limit))


def repeated(name: str) -> Fault:
    return Fault(field=name, code="repeated", message=f"{name} must be sent once")


def tag_of(body: bytes) -> str:
    """Return the `ETag` of a body (RFC 9110, 8.8.3)."""
    return f'"{hashlib.sha256(body).hexdigest()}"'


def names_tag(condition: str | None, tag: str) -> bool:
    """Return whether `If-Match` or `If-None-Match` is `*` or lists the tag.

    The comparison is weak (8.8.3.2), even for `If-Match`, for which the RFC excludes weak tags, because these tags
    change with every byte of the body.
    """
    if condition is None:
        return False
    named = [each.strip().removeprefix("W/") for each in condition.split(",")]
    return condition.strip() == "*" or tag.removeprefix("W/") in named


_current: ContextVar[Call | None] = ContextVar("call", default=None)


current = _current.get
"""Returns the current call, or None in background jobs and commands."""
begin = _current.set
"""Makes a call the current one. Each request is a task with its own context."""


def is_host(text: str) -> bool:
    """Return whether the text is a valid `Host` header: a name or an address, with or without a port."""
    return _HOST.fullmatch(text) is not None


def _from_proxy(request: Request, name: str) -> str | None:
    """Return the last entry of a header's last line. A proxy appends, so earlier entries come from the client."""
    wanted = name.encode("latin-1")
    lines = [value for given, value in request.scope["headers"] if given == wanted]
    return lines[-1].decode("latin-1").rpartition(",")[2].strip() or None if lines else None


def address_of(request: Request, settings: Settings) -> str | None:
    """Return the client's address: the peer's or, with `trust_proxy`, the last entry of `X-Forwarded-For`."""
    if settings.trust_proxy and (forwarded := _from_proxy(request, "x-forwarded-for")):
        # Some proxies add the port, which changes every time, so one caller would count as many.
        with_port = _WITH_PORT.fullmatch(forwarded)
        return (with_port[1] or with_port[2]) if with_port else forwarded
    return request.client_host


def request_id_of(request: Request, settings: Settings) -> str:
    """Return a usable `X-Request-Id` set by the proxy if `trust_proxy` is on, otherwise a new ID."""
    received = request.headers.get("x-request-id", "") if settings.trust_proxy else ""
    return received if is_request_id(received) else new_request_id()


def origin(request: Request, trust_proxy: bool) -> str:
    """Return `https://host:port` of the request. With `trust_proxy`, the proxy's `X-Forwarded-…` entries count."""
    scheme, host = request.scope["scheme"], request.headers.get("host", "")
    if trust_proxy:
        scheme = _from_proxy(request, "x-forwarded-proto") or scheme
        host = _from_proxy(request, "x-forwarded-host") or host
    if scheme not in ("http", "https"):
        scheme = "http"
    if not is_host(host):
        server = request.scope.get("server") or ("localhost", None)
        host = f"{server[0]}:{server[1]}" if server[1] else str(server[0])
    return f"{scheme}://{host}"
