"""Pages for people who have signed in.

    places = Places("board")

    @places.get("/{owner}/{project}")
    async def board(visit: Visit) -> Answer:
        \"\"\"Show the board.\"\"\"

A `Visit` is a request of somebody with a session: who acts (`actor`), what the form holds (`fields`), and one
transaction for each change. A page calls the same actions and queries as the API, so what a person may do is decided
there. Others are led to the sign-in page.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, Problem, say
from workhook.events import order
from workhook.http import parameters
from workhook.http.calls import Answer, Call
from workhook.http.endpoints import Declaring, Retry
from workhook.http.operations import PLACES, Operation
from workhook.identity import policy, queries, rate
from workhook.identity.authenticator import Caller
from workhook.identity.context import Write
from workhook.identity.schemas import Actor, Organization, Repository
from workhook.storage import Database, Transaction
from workhook.web.frame import flash, formats, refusals, render
from workhook.web.frame.repeats import Repeated, SentForm
from workhook.web.frame.sessions import (
    Session,
    check_key,
    check_sender,
    confirm_redirect,
    read_form,
    redirect,
    sign_in_redirect,
    signed_in,
)
from workhook.work.history.notifications.queries import count_unread
from workhook.work.kernel.access import Access, find_access
from workhook.work.time.timesheets.queries import RunningTimer, find_timer

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
H = TypeVar("H", bound=Callable[..., Awaitable[object]])

_ID_DIGITS_MAX = 15  # as `Call.path_integer`
STREAM_TYPE = "text/vnd.turbo-stream.html"


class NumberField(str):
    """Names a field of a form that holds a number as people write it: `visit.form(LineInput, NumberField("qty"))`."""

    def read(self, typed: str) -> str:
        return formats.read_number(typed)


class QuantityField(NumberField):
    """How many of something."""

    def read(self, typed: str) -> str:
        return formats.read_quantity(typed)


class AmountField(NumberField):
    """An amount of money in a currency; of anything else, such as credits, with two decimals."""

    currency: str | None

    def __new__(cls, name: str, currency: str | None = None) -> AmountField:
        made = super().__new__(cls, name)
        made.currency = currency
        return made

    def read(self, typed: str) -> str:
        return formats.read_amount(typed, self.currency)


class PercentField(NumberField):
    """A percentage, with its sign or without."""

    def read(self, typed: str) -> str:
        return formats.read_percent(typed)


class ConfirmFirst(Exception):
    """The visitor has to show again who they are, before they come to `return_to`."""

    def __init__(self, return_to: str) -> None:
        super().__init__(return_to)
        self.return_to = return_to


@dataclass
class Visit:
    """One request of somebody who has signed in. `fields`: of the form that was sent; empty for a GET."""

    call: Call
    session: Session
    actor: Actor
    fields: dict[str, str] = field(default_factory=dict)
    timer: RunningTimer | None = None
    unread: int = 0
    live: str | None = None
    """Where the page listens to its project."""
    sent: SentForm | None = None
    """The form, where it makes or books something."""

    async def load_frame(self) -> None:
        """What the header shows: the visitor's timer, and how much of their inbox is unread. It is there already where
        a page is asked for by GET."""
        self.timer, self.unread = await asyncio.gather(
            find_timer(self.database, self.actor.user.id), count_unread(self.database, self.actor)
        )

    @property
    def database(self) -> Database:
        return self.call.database

    @property
    def wants_stream(self) -> bool:
        return wants_stream(self.call)

    def path(self, name: str) -> str:
        return self.call.path(name)

    def query(self, name: str) -> str:
        """The last value of a query parameter; empty without one."""
        return self.call.query_text(name) or ""

    def query_id(self, name: str) -> int | None:
        """The id that a query parameter names; None for what is none."""
        text = self.query(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS_MAX else None

    async def access(self) -> Access:
        """What the visitor may do in the project that the path names. Raises `NotFound`."""
        found = await queries.find_repository(
            self.database, self.path("owner"), self.path("project"), self.actor.user.id
        )
        if found is None:
            raise NotFound()
        return await find_access(self.database, self.actor, found.project_id)

    async def follow(self) -> Access:
        """As `access`, for a page that is asked for anew whenever something happens in its project. Call it before
        anything else is read: what happens afterwards is what the page has not seen. Clients do not follow: they would
        learn that something private happened."""
        snapshot = await order.commit_snapshot(self.database)
        access = await self.access()
        if not access.is_client:
            # A change that was being made then may have a lower number, and be seen or not.
            seen = 0 if snapshot.appending_to(access.repository.id) else snapshot.newest
            self.live = f"/{access.repository.full_name}/live?seen={seen}"
        return access

    async def repository(self, rule: str) -> Repository:
        """The project of the path as the webhook API knows it, if the visitor may do there what `policy.RULES[rule]`
        says. Raises `NotFound`, `Forbidden`."""
        found = await queries.find_repository(
            self.database, self.path("owner"), self.path("project"), self.actor.user.id
        )
        repository = policy.check_repository(found, policy.RULES[rule], self.actor)
        self.call.actor = Caller(self.actor, rate.UNKNOWN, repository=repository)
        return repository

    async def organization(self, rule: str) -> Organization:
        """The organization of the path, as `repository`. Raises `NotFound`, `Forbidden`."""
        found = await queries.find_organization(self.database, self.path("owner"), self.actor.user.id)
        organization = policy.check_organization(found, policy.RULES[rule], self.actor)
        self.call.actor = Caller(self.actor, rate.UNKNOWN, organization=organization)
        return organization

    def require_recent(self, return_to: str | None = None) -> None:
        """Ask this before secrets, tokens and deletion: who signed in more than an hour ago shows again who they are,
        and comes to `return_to` then, by default the page that they asked for. Raises `ConfirmFirst`."""
        if not self.session.is_recent:
            raise ConfirmFirst(return_to or self.call.request.scope["path"])

    def form(self, shape: type[S], *names: str, **values: object) -> S:
        """The fields `names` of the form, and `values`, as the API's struct of parameters: the same checks. A field
        that is empty is null where the struct allows that, else it is left out. A name that is a `NumberField` holds a
        number as people write it. Raises `Invalid`."""
        given, faults = {}, []
        for name in (each for each in names if self.fields.get(each, "") != ""):
            try:
                given[str(name)] = [_read_field(name, self.fields[name])]
            except ValueError as error:
                faults.append(Fault(field=str(name), message=str(error)))
        empty = {str(name): None for name in names if self.fields.get(name) == "" and _may_be_null(shape, name)}
        try:
            found = parameters.gather(shape, given, {**empty, **values})
        except Invalid as problem:
            known = {each.field for each in faults}  # which are not missing
            raise Invalid(faults=[*faults, *(each for each in problem.faults if each.field not in known)]) from None
        if faults:
            raise Invalid(faults=faults)
        return found

    async def admit(self, fields: dict[str, list[str]]) -> None:
        """Check and take out the field `csrf` of a form with a file, before any of the file is kept: it has to stand
        before the file. Raises `Forbidden`."""
        key = "".join(fields.pop("csrf", []))
        check_key(self.call, self.session, key)
        if self.sent is not None:
            self.sent.add(key.encode())

    async def change(self, step: Callable[[Write], Awaitable[T]], *, retry: Retry | None = None) -> T:
        """Run the change in one transaction, and again where `retry` says so. Raises `Repeated`."""
        sent = self.sent if self.sent is not None and not self.sent.is_taken else None

        async def once(tx: Transaction) -> T:
            if sent is not None:
                await sent.take(tx)
            return await step(Write.for_call(self.call, tx))

        async def run() -> T:
            made = await self.database.in_transaction(once)
            if sent is not None:
                sent.is_taken = True
            return made

        return await (run() if retry is None else retry.of(run))

    def page(
        self,
        template: str,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        has_secret: bool = False,
        **context: object,
    ) -> Answer:
        """The page, with the note that the last change has left (`done`)."""
        note, used_up = flash.taken(self.call, self.session)
        return render.page(
            template,
            status=status,
            headers={**(headers or {}), **used_up},
            has_secret=has_secret,
            session=self.session,
            me=self.actor.user,
            path=self.call.request.scope["path"],
            note=note,
            timer=self.timer,
            unread=self.unread,
            live=self.live,
            form_action=(),
            **context,
        )

    def done(self, location: str, text: str = "", *, undo: flash.Undo | None = None) -> Answer:
        """Lead to a page (303), which tells what was done and, with `undo`, offers to take it back."""
        return redirect(location, flash.left(self.call, self.session.csrf, flash.Note(text, undo)) if text else None)


def _read_field(name: str, typed: str) -> str:
    return name.read(typed) if isinstance(name, NumberField) else typed.replace("\r\n", "\n")


def _may_be_null(shape: type[msgspec.Struct], name: str) -> bool:
    found = next((each for each in msgspec.structs.fields(shape) if each.encode_name == name), None)
    return found is not None and type(None) in getattr(found.type, "__args__", ())


def visit_of(call: Call, session: Session) -> Visit:
    """The visit of somebody with a session, who acts in this call from now on."""
    visit = Visit(call, session, session_actor(call, session))
    call.actor = Caller(visit.actor, rate.UNKNOWN)
    call.record.viewer.person_id = session.user.id
    return visit


def session_actor(call: Call, session: Session) -> Actor:
    """Who acts by pages: the user with all that they may do themselves."""
    return Actor(session.user, 0, "session", frozenset(policy.SCOPES), address=call.address, request=call.record)


class Places(Sequence[Operation], Declaring):
    """The pages of one kind, in the order in which they are declared. `tag` names them in metrics and lists."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.operations: list[Operation] = []

    def __getitem__(self, index: Any) -> Any:
        return self.operations[index]

    def __len__(self) -> int:
        return len(self.operations)

    def upload(self, path: str, **facts: Any) -> Callable[[H], H]:
        """A form with a file, which the page itself takes in (`Visit.admit`): so no file is ever in memory. One that
        is declared with `makes` adds to `Visit.sent` what the file is, before its change."""
        return self.route("POST", path, reads_form=False, **facts)

    def route(
        self, method: str, path: str, *, reads_form: bool = True, makes: bool = False, **facts: Any
    ) -> Callable[[H], H]:
        """`makes`: the form makes or books something by `Visit.change`, which is done once (`repeats`)."""

        def declare(function: H) -> H:
            name = f"place_{self.tag}_{getattr(function, '__name__', '')}"
            summary = (inspect.getdoc(function) or "").partition("\n\n")[0].removesuffix(".")
            handler = _handler(_once(function, reads_form) if makes else function, reads_form)
            self.operations.append(
                Operation(PLACES, method, path, handler, name, summary, None, "pages", etag=False, makes=makes, **facts)
            )
            return function

        return declare


def _once(function: Callable[[Visit], Awaitable[Any]], reads_form: bool) -> Callable[[Visit], Awaitable[Any]]:
    """Answers a form that was sent before as it was answered then."""

    async def handle(visit: Visit) -> Any:
        visit.sent = sent = SentForm(visit.call, visit.session)
        if reads_form:
            sent.add_fields(visit.fields)
            if (first := await sent.find_answer()) is not None:
                return first
        answer = None
        try:
            answer = await function(visit)
        except Repeated:
            return await sent.first_answer()
        finally:
            await sent.answered(answer)
        return answer

    return handle


def _handler(function: Callable[[Visit], Awaitable[Any]], reads_form: bool) -> Callable[[Call], Awaitable[Answer]]:
    async def handle(call: Call) -> Answer:
        session = await signed_in(call)
        if call.operation.method == "GET":
            if session is None:
                return sign_in_redirect(call)
            visit = visit_of(call, session)
            await call.services.count_page(str(session.user.id))
            if call.operation.head:  # a stream is no page
                await visit.load_frame()
            return await _confirmed(function, visit)
        try:
            if session is None:  # not to the sign-in page, which could not lead back to what was sent
                raise Forbidden(say("You have been signed out. {}", say("Sign in again.")), code="signed_out")
            visit = visit_of(call, session)
            await call.services.count_form(f"pages:{session.user.id}")
            if reads_form or not _is_multipart(call):  # what is not even a form of files is refused as other forms are
                visit.fields = await read_form(call, session)
            else:
                check_sender(call, session)
            answer = await _confirmed(function, visit)
        except Problem as problem:
            refusals.translate(problem)
            if not wants_stream(call) or problem.status >= 500:
                raise
            call.refused = problem
            return toast(problem)
        return answer

    return handle


def _is_multipart(call: Call) -> bool:
    return (call.header("content-type") or "").lstrip().lower().startswith("multipart/form-data")


async def _confirmed(function: Callable[[Visit], Awaitable[Any]], visit: Visit) -> Answer:
    try:
        answer: Answer = await function(visit)
    except ConfirmFirst as needed:
        return confirm_redirect(needed.return_to)
    return answer


def wants_stream(call: Call) -> bool:
    """Whether the form was sent by Turbo, which takes parts of a page for an answer."""
    return STREAM_TYPE in (call.header("accept") or "")


def toast(problem: Problem) -> Answer:
    """A message over the page that somebody looks at, which stays as it is."""
    is_stale = problem.code in ("csrf", "signed_out")
    body = render.html("layout/toast.html", message=problem.message, faults=problem.fault_messages, is_stale=is_stale)
    headers = {**problem.headers, "Cache-Control": "no-store"}
    return Answer(body.encode(), problem.status, headers, f"{STREAM_TYPE}; charset=utf-8")
