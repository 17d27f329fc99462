"""Declaring pages for signed-in users.

    places = Places("board")

    @places.get("/{owner}/{project}")
    async def board(visit: Visit) -> Response:
        \"\"\"Show the board.\"\"\"

A `Visit` is a request with a session: the acting user (`actor`), the form fields (`fields`), and one transaction for
each change. Pages call the same actions and queries as the API, which check the rights. Visitors without a session are
redirected to the sign-in page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec

from workhook.core import json
from workhook.core.errors import Fault, Forbidden, Invalid, NotFound, Problem, require_found, say
from workhook.events import order
from workhook.http import parameters
from workhook.http.calls import Call, Response
from workhook.http.endpoints import Retry, RouteDecorators
from workhook.http.operations import PLACES, Operation
from workhook.identity import policy, queries, rate
from workhook.identity.authenticator import Caller
from workhook.identity.context import Write
from workhook.identity.schemas import Account, Actor, Organization, Repository
from workhook.storage import Database, Transaction
from workhook.web.frame import flash, formats, refusals, render
from workhook.web.frame.forms import PageForm
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
from workhook.work.history.notifications import count_unread
from workhook.work.kernel.access import Access, find_access
from workhook.work.time.timesheets.queries import RunningTimer, find_timer

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
H = TypeVar("H", bound=Callable[..., Awaitable[object]])

_ID_DIGITS_MAX = 15  # as in `Call.path_integer`
STREAM_TYPE = "text/vnd.turbo-stream.html"


class NumberField(str):
    """The name of a form field with a localized number, parsed by `read`: `visit.form(Line, NumberField("qty"))`."""

    read: Callable[[str], str]

    def __new__(cls, name: str, read: Callable[[str], str] = formats.read_number) -> NumberField:
        made = super().__new__(cls, name)
        made.read = read
        return made


QuantityField = partial(NumberField, read=formats.read_quantity)
PercentField = partial(NumberField, read=formats.read_percent)


def AmountField(name: str, currency: str | None = None) -> NumberField:  # noqa: N802  # like the others
    """Return the name of a form field for money or, without a currency, for credits or hours with two decimals."""
    return NumberField(name, partial(formats.read_amount, currency=currency))


class ConfirmFirst(Exception):
    """The visitor must sign in again before they continue to `return_to`."""

    def __init__(self, return_to: str) -> None:
        super().__init__(return_to)
        self.return_to = return_to


@dataclass
class Visit:
    """A request of a signed-in user. `fields` are the form fields, empty for a GET."""

    call: Call
    session: Session
    actor: Actor
    fields: dict[str, str] = field(default_factory=dict)
    timer: RunningTimer | None = None
    unread: int = 0
    project_access: Access | None = None
    """The result of `access`, which the page gets."""
    live: str | None = None
    """The address of the project's event stream, for pages that follow it."""
    sent: SentForm | None = None
    """The sent form, if it must run only once."""

    async def load_frame(self) -> None:
        """Load the visitor's timer and unread count, which the header shows. A GET loads them automatically."""
        self.timer, self.unread = await asyncio.gather(
            find_timer(self.database, self.actor.user.id), count_unread(self.database, self.actor)
        )

    @property
    def database(self) -> Database:
        return self.call.database

    def path(self, name: str) -> str:
        return self.call.path(name)

    def query(self, name: str) -> str:
        """Return the last value of a query parameter, or an empty string."""
        return self.call.query_text(name) or ""

    def query_id(self, name: str) -> int | None:
        """Return the ID in a query parameter, or None if it is missing or invalid."""
        text = self.query(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS_MAX else None

    async def access(self) -> Access:
        """Return the visitor's rights in the project in the path. Raises `NotFound`."""
        found = require_found(await self._find_repository())
        self.project_access = await find_access(self.database, self.actor, found.project_id)
        return self.project_access

    async def follow(self) -> Access:
        """Return `access`, for a page that reloads when its project changes.

        Must run before all other reads, because the page counts only later events as unseen. Pages shown to clients
        don't follow the project, because the timing would reveal private changes.
        """
        snapshot = await order.commit_snapshot(self.database)
        access = await self.access()
        if not access.is_client:
            # A change in flight may have a lower number, and the page may have seen it or not.
            seen = 0 if snapshot.appending_to(access.repository.id) else snapshot.newest
            self.live = f"/{access.repository.full_name}/live?seen={seen}"
        return access

    async def repository(self, rule: str) -> Repository:
        """Return the repository in the path if the visitor has the right. Raises `NotFound` or `Forbidden`."""
        repository = policy.check_repository(await self._find_repository(), policy.RULES[rule], self.actor)
        self.call.actor = Caller(self.actor, rate.UNKNOWN, repository=repository)
        return repository

    async def _find_repository(self) -> Repository | None:
        owner, name = self.path("owner"), self.path("project")
        return await queries.find_repository(self.database, owner, name, self.actor.user.id)

    async def organization(self, rule: str) -> Organization:
        """Return the organization in the path, like `repository`."""
        found = await queries.find_organization(self.database, self.path("owner"), self.actor.user.id)
        organization = policy.check_organization(found, policy.RULES[rule], self.actor)
        self.call.actor = Caller(self.actor, rate.UNKNOWN, organization=organization)
        return organization

    async def account(self) -> tuple[Account, str | None]:
        """Return the account in the path, and the visitor's role (`owner` of their own) or None. Raises `NotFound`."""
        found = await queries.find_account(self.database, self.path("owner"))
        if found is None or found.kind == "bot":
            raise NotFound()
        if found.id == self.actor.user.id:
            return found, "owner"
        return found, await queries.find_member_role(self.database, found.id, self.actor.user.id)

    def hidden(self, account: Account) -> NotFound:
        """Return the error that hides an account from the visitor, and mark the attempt for the account's audit log."""
        self.actor.request.set_subject(account.id, hidden=True, names=[account.login])
        return NotFound()

    def require_recent(self, return_to: str | None = None) -> None:
        """Raise `ConfirmFirst` unless the visitor signed in within the last hour.

        Used before showing secrets, creating tokens and deleting. After confirming, the visitor continues to
        `return_to`, by default the requested page.
        """
        if not self.session.is_recent:
            raise ConfirmFirst(return_to or self.call.request.scope["path"])

    def form(self, shape: type[S], *names: str, **values: object) -> S:
        """Return the form fields `names` and `values` as an API parameter struct, with the API's validation.

        An empty field is null if the struct allows that, and otherwise omitted. Raises `Invalid`.
        """
        given, faults = {}, []
        for name in (each for each in names if self.fields.get(each, "") != ""):
            try:
                typed = self.fields[name]
                given[str(name)] = [name.read(typed) if isinstance(name, NumberField) else typed.replace("\r\n", "\n")]
            except ValueError as error:
                faults.append(Fault(field=str(name), message=str(error)))
        types = {each.encode_name: each.type for each in msgspec.structs.fields(shape)}
        empty = {
            str(name): None
            for name in names
            if self.fields.get(name) == "" and type(None) in getattr(types.get(name), "__args__", ())
        }
        try:
            found = parameters.gather(shape, given, {**empty, **values})
        except Invalid as problem:
            known = {each.field for each in faults}  # which are not missing
            raise Invalid(faults=[*faults, *(each for each in problem.faults if each.field not in known)]) from None
        if faults:
            raise Invalid(faults=faults)
        return found

    async def admit(self, fields: dict[str, list[str]]) -> None:
        """Check and remove the field `csrf` of an upload form, before any of the file is kept.

        The field must precede the file. Raises `Forbidden`.
        """
        key = "".join(fields.pop("csrf", []))
        check_key(self.call, self.session, key)
        if self.sent is not None:
            self.sent.add(key.encode())

    async def change(self, step: Callable[[Write], Awaitable[T]], *, retry: Retry | None = None) -> T:
        """Run the change in one transaction, and again if `retry` says so. Raises `Repeated`."""
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
        form: PageForm | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        has_secret: bool = False,
        **context: object,
    ) -> Response:
        """Render a page with the note left by `done` and, unless `status` is given, the form's status code."""
        note, used_up = flash.taken(self.call, self.session)
        return render.page(
            template,
            status=status or (form.status if form else 200),
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
            form=form,
            **{"access": self.project_access, **context},
        )

    def done(self, location: str, text: str = "", *, undo: flash.Undo | None = None) -> Response:
        """Redirect (303) to a page that shows `text` and, with `undo`, offers to undo the change."""
        return redirect(location, flash.left(self.call, self.session.csrf, flash.Note(text, undo)) if text else None)


def visit_of(call: Call, session: Session) -> Visit:
    """Return the visit of a session's user, and make them the actor of the call, with all scopes."""
    scopes = frozenset(policy.SCOPES)
    actor = Actor(session.user, 0, "session", scopes, address=call.address, request=call.record)
    call.actor = Caller(actor, rate.UNKNOWN)
    call.record.viewer.person_id = session.user.id
    return Visit(call, session, actor)


class Places(list[Operation], RouteDecorators):
    """A group of pages, in order of declaration. `tag` names the group in metrics and lists."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self.tag = tag

    def upload(self, path: str, **facts: Any) -> Callable[[H], H]:
        """Declare an upload form. Its page receives the file itself, after `Visit.admit`, so no file is ever in memory.

        With `makes`, the page must add the file's fingerprint to `Visit.sent` before its change.
        """
        return self.route("POST", path, reads_form=False, **facts)

    def route(
        self, method: str, path: str, *, reads_form: bool = True, makes: bool = False, **facts: Any
    ) -> Callable[[H], H]:
        """Declare a page or form. With `makes`, its `Visit.change` runs once even if it is sent again (`repeats`)."""

        def declare(function: H) -> H:
            name = f"place_{self.tag}_{getattr(function, '__name__', '')}"
            handler = _handler(_once(function, reads_form) if makes else function, reads_form)
            self.append(
                Operation(PLACES, method, path, handler, name, "", None, "pages", etag=False, makes=makes, **facts)
            )
            return function

        return declare


def for_site(
    function: Callable[..., Awaitable[object]], kind: str, find: Callable[[Visit], Awaitable[object]]
) -> Callable[[Visit], Awaitable[object]]:
    """Return a page for one kind of site: `function` gets the site that `find` returns."""

    async def place(visit: Visit) -> object:
        return await function(visit, await find(visit))

    place.__name__ = f"{kind}_{getattr(function, '__name__', '')}"
    return place


def _once(function: Callable[[Visit], Awaitable[Any]], reads_form: bool) -> Callable[[Visit], Awaitable[Any]]:
    """Repeat the first response to a form that was sent before."""

    async def handle(visit: Visit) -> Any:
        visit.sent = sent = SentForm(visit.call, visit.session)
        if reads_form:
            sent.add(json.encode(sorted(visit.fields.items())))
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


def _handler(function: Callable[[Visit], Awaitable[Any]], reads_form: bool) -> Callable[[Call], Awaitable[Response]]:
    async def handle(call: Call) -> Response:
        session, is_get = await signed_in(call), call.operation.method == "GET"
        if is_get and session is None:
            return sign_in_redirect(call)
        try:
            if session is None:  # no redirect: the sign-in page could not restore the sent form
                raise Forbidden(say("You have been signed out. {}", say("Sign in again.")), code="signed_out")
            visit = visit_of(call, session)
            media_type = (call.header("content-type") or "").lstrip().lower()
            if is_get:
                await call.services.count_page(str(session.user.id))
                if call.operation.head:  # not for streams
                    await visit.load_frame()
            else:
                await call.services.count_form(f"pages:{session.user.id}")
                if reads_form or not media_type.startswith("multipart/form-data"):  # `read_form` rejects other types
                    visit.fields = await read_form(call, session)
                else:
                    check_sender(call, session)
            answer: Response = await function(visit)
        except ConfirmFirst as needed:
            return confirm_redirect(needed.return_to)
        except Problem as problem:
            if is_get:
                raise
            refusals.translate(problem)
            if STREAM_TYPE not in (call.header("accept") or "") or problem.status >= 500:  # not sent by Turbo
                raise
            call.refused = problem
            return toast(problem)
        return answer

    return handle


def toast(problem: Problem) -> Response:
    """Return a Turbo stream that shows the problem over the current page."""
    is_stale = problem.code in ("csrf", "signed_out")
    body = render.html("layout/toast.html", message=problem.message, faults=problem.fault_messages, is_stale=is_stale)
    headers = {**problem.headers, "Cache-Control": "no-store"}
    return Response(body.encode(), problem.status, headers, f"{STREAM_TYPE}; charset=utf-8")
