"""What the server says where it refuses something, in the reader's language.

The API answers in English alone, and pages show the same sentences. Here stand those that people come across: one that
is not here is shown as the API says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import msgspec

from workhook.core.errors import Problem
from workhook.web.frame.texts import gettext, language, text

SENTENCES = (
    # Of every page.
    text("Not Found"),
    text("Validation Failed"),
    text("Problems parsing the form"),
    text("You have been signed out. %(again)s"),
    text(
        "This form is out of date, or was not sent from a page of this server. Go back, reload the page and try again. "
        "If this is the right address: whoever runs the server sets base_url, or trust_proxy behind a proxy."
    ),
    text("There were too many %(what)s. Try again in %(wait)s."),
    text("The request body is larger than %(limit)s bytes."),
    text("The server has too many requests at once."),
    text("The server is stopping."),
    text("The database cannot be written."),
    # What a field has to be.
    text("%(field)s is required"),
    text("%(field)s must not be empty"),
    text("%(field)s must not contain NUL"),
    text("%(field)s must be %(wanted)s"),
    text("there is no parameter %(field)s"),
    # Rights.
    text("You need the role %(role)s in the project %(project)s."),
    text("You need the role admin in the project %(project)s to %(doing)s."),
    text("Clients cannot %(doing)s."),
    text("Clients can %(doing)s only what they made themselves."),
    text("Only an owner of %(owner)s can %(doing)s."),
    text("You must be an organization owner."),
    text("Must have admin rights to Repository."),
    text("You may not invite anybody here any more."),
    text("This invitation is for somebody else."),
    text("You are in already. The link stays good for whom it is meant for."),
    # Work.
    text("The project is archived; unarchive it (archive: false) to change it."),
    text("name %(name)s is taken in %(owner)s"),
    text("%(field)s %(name)s is reserved for a page of the server; choose another"),
    text("a project has at most %(most)s columns"),
    text("The last column of a project stays."),
    text("The folder holds files; delete them first."),
    text("A file may have at most %(most)s MiB."),
    text("folder must be one of the project"),
    text("The tasks have too much text to be changed in one request; change fewer at once."),
    text("%(field)s: nobody of this name sees the project: %(names)s"),
    text("%(thing)s: others have worked on it, so a client cannot delete it; ask a member of the team to delete it."),
    text("start_time of a timer that is not finished must not be in the future"),
    text("start_time is required with end_time, unless there is a duration"),
    text("task_id must be a task of the project"),
    text("The timesheet is finished; a finished one is not opened again."),
    text("The timesheet is on an invoice; it can be changed when it is off it again."),
    text("The timesheet is on an invoice; it can be deleted when it is off it again."),
    text("The user has another timer running, which you cannot pause; the user has to pause it first."),
    text("Only drafts can be deleted."),
    text("Too many invoices wait to be printed. Try again in some seconds."),
    text("The invoice cannot be printed. The server's log says why."),
    text("The project %(project)s was deleted while it was imported."),
    text("it is the export of one card; export the board that the card is on"),
    text("it is no export of a board: it has neither lists nor cards"),
    text("it is not JSON: %(error)s"),
    # People, apps and tokens.
    text("login %(login)s is taken"),
    text("login must be 1 to 39 letters, digits and single hyphens"),
    text("email must be an e-mail address"),
    text("username %(login)s: there is no such user"),
    text("%(email)s is in the project already, as a member"),
    text("%(login)s is here through %(owner)s, and was not added to the project."),
    text("The password needs at least %(least)s characters."),
    text("The password can have at most %(most)s characters."),
    text("The password holds something that is no character."),
    text("This password is among the first that anybody would try."),
    text("The password must not be your login, name or e-mail address, or the name of this product."),
    text("Too many people are signing in at this moment. Try again in some seconds."),
    text("The identity provider cannot be reached. Try again, or sign in with your password."),
    text("The identity provider is not set up as this server expects."),
    text("This code has expired or was decided on already. Let the device show a new one."),
    text("No app has this client_id. The address that brought you here is wrong or out of date."),
    text("The address names no app."),
    text("%(app)s is installed here already"),
    text("there is an app %(app)s already"),
    text("this is the app's last key: add another one first"),
    text("%(owner)s has no repository %(name)s"),
    text("An owner of %(owner)s has suspended this installation."),
    text("name must have 1 to %(most)s printable characters, no space at its ends"),
    text("description must have at most %(most)s characters, none of them NUL"),
    text("homepage_url must be an http or https URL of at most %(most)s characters"),
    text("callback_urls must have at least one URL, unless the app uses the device flow"),
    text("callback_urls may have at most %(most)s URLs"),
    # Webhooks.
    text("The right to have webhooks here was taken away."),
    text("Hook already exists on this %(place)s"),
    text("url cannot be blank"),
    text("The URL you've entered is not valid. Please make sure that you encode all special characters first"),
    text(
        "url is not supported because it isn't reachable over the public Internet (%(host)s). To deliver to a private "
        "network, start the server with --allow-network."
    ),
    text("%(event)s is not a valid event name"),
    text("secret must be whsec_ and a key in base64 where header_style is standard"),
    text("%(field)s goes with a new secret"),
    text("%(field)s must be seconds, at most %(most)s"),
    text("status must be success or failure"),
    text("code must be a number from 200 to 599"),
    # Why one is off, and what became of a delivery.
    text("The receiver answered 410 Gone."),
    text("Every delivery has failed for five days."),
    text("Nobody who authorizes the app may have webhooks here any more."),
    text("Nobody who may have webhooks here authorizes the app any more."),
    text("Invalid HTTP Response: %(code)s"),
    text("TLS error"),
    text("TLS error: %(error)s"),
    text("timed out"),
    text("failed to connect to host"),
    text("failed to connect to network"),
    text("connection closed before a response"),
    text("malformed response"),
    text("address not allowed"),
    text("payload too large, not sent"),
    text("delivery failed"),
)
"""Sentences of the API as it says them; `%(name)s` stands for what differs."""

WANTED = (
    text("text of %(low)s to %(high)s characters"),
    text("text of at most %(high)s characters"),
    text("text of at least %(low)s characters"),
    text("a whole number from %(low)s to %(high)s"),
    text("a whole number of at most %(high)s"),
    text("a whole number of at least %(low)s"),
    text("a number of at least 0 with at most two decimals"),
    text("a number of at least 0 with at most two decimals, and at most %(high)s"),
    text("a date such as 2026-11-20, or a time such as 2026-11-20T09:00:00Z, with Z or an offset"),
    text("a date that exists, such as 2026-11-20"),
    text("a time such as 2026-11-20T09:00:00Z, with Z or an offset"),
    text("a time such as 2026-11-20T09:00:00Z"),
    text("a time from 1970 to 9998"),
    text("an http or https URL"),
    text("at most %(high)s KiB of text"),
    text("one of %(values)s"),
    text("without NUL characters"),
)
"""What a field has to be: `wanted` in the sentences above."""

PHRASES = (
    text("Sign in again."),
    text("Sign in and open the page again."),
    text("Start again from the app."),
    text("failed attempts to sign in"),
    text("links that are not good"),
    text("%(number)s seconds"),
    text("%(number)s minutes"),
)

FIELDS = {
    "assignees": text("Assigned to"),
    "callback_urls": text("Callback addresses"),
    "column_id": text("Column"),
    "cover_url": text("Cover picture"),
    "deadline": text("Deadline"),
    "description": text("Description"),
    "email": text("E-mail address"),
    "end_time": text("End"),
    "homepage_url": text("Home page"),
    "labels": text("Labels"),
    "login": text("Login"),
    "max_concurrency": text("Deliveries at the same time"),
    "name": text("Name"),
    "note": text("Note"),
    "notes": text("Note"),
    "organization": text("Name of your organization"),
    "password": text("Password"),
    "priority": text("Priority"),
    "rate_limit": text("Deliveries a second, at most"),
    "retries": text("Retries after a failure"),
    "start_time": text("Start"),
    "title": text("Title"),
    "url": text("Address of the receiver"),
    "username": text("User name (basic authentication)"),
}
"""What pages call the fields of the API."""

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def in_words(message: str) -> str:
    """The sentence in the reader's language, or as it is where it is not known."""
    if language() == "en":
        return message
    return _found(message, SENTENCES) or message


def translate(problem: Problem) -> None:
    """All that it says to a person, for answers that are no page: a script shows them."""
    problem.message = in_words(problem.message)
    problem.faults = tuple(
        msgspec.structs.replace(each, message=in_words(each.message)) if each.message else each
        for each in problem.faults
    )


def _found(message: str, sentences: tuple[str, ...]) -> str | None:
    whole = gettext(message)
    if whole != message:
        return whole
    for sentence in sentences:
        if "%(" in sentence and (match := pattern_of(sentence).fullmatch(message)):
            values = dict(_values(match))
            return None if None in values.values() else gettext(sentence) % values
    return None


def _values(match: re.Match[str]) -> Iterator[tuple[str, str | None]]:
    for name, value in match.groupdict().items():
        if name == "field":
            yield name, gettext(FIELDS[value]) if value in FIELDS else value
        elif name == "wanted":
            yield name, _found(value, WANTED)
        elif name in ("what", "wait", "again"):
            yield name, _found(value, PHRASES)
        else:
            yield name, value


@cache
def pattern_of(sentence: str) -> re.Pattern[str]:
    """What fits the sentence, whatever stands for its placeholders."""
    parts = _PLACEHOLDER.split(sentence)  # the names are at the odd places
    return re.compile("".join(f"(?P<{part}>.+?)" if at % 2 else re.escape(part) for at, part in enumerate(parts)))
