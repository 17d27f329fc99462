"""The argument (`Call`) and the result (`Answer`) of a handler."""

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
from workhook.core.disclosure import Secretive, Viewer
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
JSON_VALUES_MAX = 200_000  # objects, lists, texts and numbers of a body: each costs more memory than its bytes
IN_A_THREAD_FROM = 64 * 1024  # bytes; a body of small values takes 50 ms
QUERY_FIELDS_MAX = 1_000
CHECK_STANDS_S = 1.0  # how long what the authenticator found is relied on while a body comes

Place = tuple[int, int | None]
"""An account, and a repository of it or None for the account itself."""
Standing = Literal["whole", "less", "gone"]
"""The rights that are left: all of them; fewer, but the caller still sees each place; or some place is hidden now."""

NOT_KEPT = {"Cache-Control": "no-store"}
"""Headers of an answer that holds a secret: no cache keeps it."""

_FORM = "application/x-www-form-urlencoded"
_HOST = re.compile(r"[A-Za-z0-9._\-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_WITH_PORT = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+")


async def _unlimited(caller: str) -> None:
    return None


async def _nothing_is_left(call: Call, rights: Mapping[Place, int]) -> Standing:
    return "gone"


@dataclass(frozen=True)
class Services:
    """The services of the process, made once by `bootstrap`."""

    settings: Settings
    database: Database
    vault: Vault
    blobs: Blobs  # the content of files
    check_url: Callable[[str], str | None]  # why no delivery could ever go to this URL, or None
    # What the caller still has of the rights that an earlier request of theirs rested on (`RequestRecord.rests_on`).
    standing: Callable[[Call, Mapping[Place, int]], Awaitable[Standing]] = _nothing_is_left
    # Count a form that somebody sends who has signed in. Raises `TooManyRequests` beyond the limit of an hour.
    count_form: Callable[[str], Awaitable[None]] = _unlimited
    # The same of a page that they ask for.
    count_page: Callable[[str], Awaitable[None]] = _unlimited
    own: OwnAddress = field(default_factory=OwnAddress)  # where the server that runs here is reached
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  # the process ends: what goes on for long ends too
    # What still has to be written then: called in their order, before the database is closed.
    closing: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    @property
    def base(self) -> str:
        """The start of links that no request led to; see `Call.base_for_others`."""
        return self.settings.base_url or f"http://{self.settings.host}:{self.settings.port}"


class Answer(Secretive, msgspec.Struct, frozen=True):
    """`body` is written as JSON, except bytes and async iterators of bytes, which are always closed. None: no body."""

    body: object = None
    status: int = 200
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    media_type: str = "application/json; charset=utf-8"


@dataclass
class RequestRecord:
    """Facts that a request collects while it is answered: `Call.record`, and the caller's `Actor.request`."""

    place: Place | None = None  # the account and repository that it is about, as far as known
    names: frozenset[str] = frozenset()  # of that place, in lower case: what is no secret where a path has it
    hidden: bool = False  # the caller does not see that place: to them it does not exist
    rights: dict[Place, int] = field(default_factory=dict)  # what the change rests on
    viewer: Viewer = field(default_factory=Viewer)  # who gets the answer, which decides what it shows of people

    def touches(
        self, account_id: int, repository_id: int | None = None, *, hidden: bool = False, names: Iterable[str] = ()
    ) -> None:
        """Let this account's owners read about the request if it is refused.

        `hidden`: the place exists, but the caller does not see it; only then is a 404 a refusal. `names`: the
        login of the account and the name of the repository, if the path has them.
        """
        self.place, self.hidden = (account_id, repository_id), hidden
        self.names = frozenset(each.lower() for each in names)

    def touches_nothing(self) -> None:
        self.place, self.hidden, self.names = None, False, frozenset()

    def rests_on(self, account_id: int, repository_id: int | None, rank: int) -> None:
        """Note the right that the request relies on: a higher rank is more, 0 is none.

        An answer that is stored under an `Idempotency-Key` is repeated only to a caller who still has its
        rights.
        """
        self.rights[account_id, repository_id] = rank

    def views_as_owner(self, organization_id: int) -> None:
        """Show the addresses of the organization's members in the answer: the caller owns it."""
        self.viewer.owner_of.add(organization_id)


@dataclass(repr=False)
class Call(Secretive):
    """One request on its way through an operation."""

    request: Request
    operation: Operation
    services: Services
    request_id: str
    prefix: str
    actor: Any = None  # what the authenticator made of the token; `identity.authenticator.actor_of` gives it its type
    answer_headers: dict[str, str] = field(default_factory=dict)  # added to the answer, whether success or problem
    recheck: Callable[[Call], Awaitable[None]] | None = None  # asks the authenticator again
    checked_at_s: float = 0.0  # when the authenticator ran, on the monotonic clock
    unchanged: Callable[[], Mapping[str, str]] | None = None  # the answer is 304, with these headers
    token_id: int = 0  # of the token that the authenticator found
    read_body: bytes = b""  # what `body` has read
    refused: Problem | None = None  # why, where the answer is none of an error: a page, or `error` with status 200
    made: object = None  # the body that `write` will answer with
    record: RequestRecord = field(default_factory=RequestRecord)
    _query: dict[str, list[str]] | None = None

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def base(self) -> str:
        """Scheme, host, port and prefix of the request, with which every link in the answer starts."""
        return origin(self.request, self.services.settings.trust_proxy) + self.prefix

    @property
    def base_for_others(self) -> str:
        """The base of links that others will read: `base_url` if it is set, since any client can write any `Host`."""
        public = self.services.settings.base_url
        return self.base if public is None else public + self.prefix

    @property
    def address(self) -> str | None:
        return address_of(self.request, self.services.settings)

    def header(self, name: str) -> str | None:
        """Return the first header with this name, in any case."""
        return self.request.headers.get(name.lower())

    @property
    def is_conditional(self) -> bool:
        """Tell whether `If-Match` names tags."""
        condition = self.header("if-match")
        return condition is not None and condition.strip() != "*"

    def require_match(self, current: object) -> None:
        """Raise `PreconditionFailed` unless `If-Match` (RFC 9110, 13.1.1) is absent, `*`, or lists the `current` tag.

        `current`: the body that a GET would answer now, read in the transaction that makes the change.
        """
        if self.is_conditional and not names_tag(self.header("if-match"), tag_of(self.encode(current))):
            raise PreconditionFailed("It was changed since you read it. Read it again, then decide.")

    def path(self, name: str) -> str:
        """Return a part of the path. Raises `NotFound` for NUL, which PostgreSQL cannot compare."""
        value = self.request.path_params[name]
        if "\0" in value:
            raise NotFound()
        return value

    def path_integer(self, name: str) -> int:
        """Raises `NotFound` for a text that cannot be an id."""
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
        """Return a whole number of at least `low`; more than `high` counts as `high`. Raises `Invalid`."""
        text = self.query_text(name)
        if text is None:
            return default
        # So many digits are more than `high` in any case, and Python refuses to read some thousands of them.
        number = int(text[:1000]) if text.isascii() and text.isdigit() else low - 1
        if number < low:
            raise Invalid(
                faults=[Fault(field=name, message=say("{} must be a whole number of at least {}", name, low))]
            )
        return min(number, high)

    def query_choice(self, name: str, known: Sequence[str]) -> str:
        """Return one of the `known` words; the first is the default. Raises `Invalid`."""
        given = self.query_text(name) or known[0]
        if given not in known:
            raise Invalid(faults=[Fault(field=name, message=say("{} must be one of {}", name, ", ".join(known)))])
        return given

    async def body(self, limit: int = JSON_BODY_MAX) -> bytes:
        """Read the request's body. Raises `TooLarge` as soon as there are more bytes than `limit`.

        If the body took long, the authenticator runs again and raises what it raises: a token that was revoked
        meanwhile finishes nothing.
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
        """Authenticate again if the body took long; for callers that read the request's stream themselves."""
        if self.recheck is not None and time.monotonic() - self.checked_at_s > CHECK_STANDS_S:
            await self.recheck(self)

    def encode(self, body: object) -> bytes:
        """Return the bytes of an answer's body, with the parts that its viewer may see of people."""
        return body if isinstance(body, bytes) else json.encode_for(self.record.viewer, body)

    async def json_object(
        self,
        limit: int = JSON_BODY_MAX,
        *,
        values: int = JSON_VALUES_MAX,
        strict_type: bool = False,
        null: bool = False,
    ) -> dict[str, Any]:
        """Return the body as an object; an empty body is an empty one. Raises `Malformed`, `TooLarge`, and with
        `strict_type` `UnsupportedMediaType` for a body that is declared to be something other than plain JSON.

        Where no parameter is ignored, `Invalid` names repeated keys; elsewhere the last one counts. An object
        that is declared to be a form is accepted: curl declares every `-d` so. With `null` that is an empty object too:
        clients written in Go send it for a body that their caller left out.
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
        if len(data) < IN_A_THREAD_FROM:
            value = _parsed(data, values, once)
        else:
            value = await asyncio.to_thread(_parsed, data, values, once)
        if value is None and null:
            return {}
        if not isinstance(value, dict):
            raise Malformed("Body should be a JSON object")
        return value


def _parsed(data: bytes, values: int, once: bool) -> Any:
    """Raises `Malformed`, `TooLarge`, and `Invalid` for repeated names where `once`."""
    if json.has_more_values(data, values):
        raise TooLarge(f"The request body has more than {values:,} values.")
    value = json.decode_untrusted(data)
    if once and isinstance(value, dict) and (names := json.repeated_names(data, value)):
        raise Invalid(faults=[repeated(name) for name in names])
    return value


def _too_large(limit: int) -> TooLarge:
    return TooLarge(say("The request body is larger than {} bytes.", limit))


def repeated(name: str) -> Fault:
    return Fault(field=name, code="repeated", message=f"{name} must be given once")


def tag_of(body: bytes) -> str:
    """Return the `ETag` of a body (RFC 9110, 8.8.3)."""
    return f'"{hashlib.sha256(body).hexdigest()}"'


def names_tag(condition: str | None, tag: str) -> bool:
    """Tell whether `If-Match` or `If-None-Match` is `*` or lists the tag.

    The comparison is weak (8.8.3.2), also for `If-Match`, where the RFC lets no weak tag match: ours change with
    every byte of the body.
    """
    if condition is None:
        return False
    named = [each.strip().removeprefix("W/") for each in condition.split(",")]
    return condition.strip() == "*" or tag.removeprefix("W/") in named


_current: ContextVar[Call | None] = ContextVar("call", default=None)


def current() -> Call | None:
    """The call that is being answered; None in chores and commands."""
    return _current.get()


def begin(call: Call) -> None:
    """Make `call` the current one. Each request is a task with a context of its own."""
    _current.set(call)


def is_host(text: str) -> bool:
    """Tell whether a `Host` header can have this value: a name or an address, with or without a port."""
    return _HOST.fullmatch(text) is not None


def _from_proxy(request: Request, name: str) -> str | None:
    """Return the last entry of the last line of a header. A proxy appends, so earlier ones are the client's."""
    wanted = name.encode("latin-1")
    lines = [value for given, value in request.scope["headers"] if given == wanted]
    return lines[-1].decode("latin-1").rpartition(",")[2].strip() or None if lines else None


def address_of(request: Request, settings: Settings) -> str | None:
    """Return the client's address: the peer or, with `trust_proxy`, the last entry of `X-Forwarded-For`."""
    if settings.trust_proxy and (forwarded := _from_proxy(request, "x-forwarded-for")):
        # Some proxies add the port, which differs each time: one caller would count as many.
        with_port = _WITH_PORT.fullmatch(forwarded)
        return (with_port[1] or with_port[2]) if with_port else forwarded
    return request.client_host


def request_id_of(request: Request, settings: Settings) -> str:
    """With `trust_proxy`, return a usable `X-Request-Id` of the proxy; else a new id."""
    given = request.headers.get("x-request-id", "") if settings.trust_proxy else ""
    return given if is_request_id(given) else new_request_id()


def origin(request: Request, trust_proxy: bool) -> str:
    """Return `https://host:port` of the request. With `trust_proxy` the proxy's entries in `X-Forwarded-…` count."""
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
