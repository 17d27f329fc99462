"""Translations with GNU gettext. Message IDs are the English texts.

Templates use `{{ _("Save") }}` or `{% trans %}…{% endtrans %}`, code uses `gettext("Save")`. `python -m scripts.texts`
collects the messages into `locales/LANGUAGE/LC_MESSAGES/workhook.po`, and the build compiles the `.mo` files. The
English catalog contains the wording that replaces API messages (`frame.refusals`).
"""

from __future__ import annotations

import gettext as gnu
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib.resources import files

from workhook.http.calls import Call, current
from workhook.http.negotiation import weighted
from workhook.web.frame import cookies

LANGUAGES: Mapping[str, str] = {"en": "English", "de": "Deutsch"}
"""The names of the pages' languages by code. The first is the default."""

COOKIE = "workhook_language"
THEME_COOKIE = "workhook_theme"
THEMES = ("light", "dark")

_written_in: ContextVar[str | None] = ContextVar("written_in", default=None)
_known: ContextVar[tuple[Call, str] | None] = ContextVar("known_language", default=None)


def language() -> str:
    """Return the language of the current page."""
    if (written_in := _written_in.get()) is not None:
        return written_in
    call = current()
    if call is None:
        return "en"
    known = _known.get()
    if known is None or known[0] is not call:  # cached, because each text of a page calls this
        known = (call, chosen_language(call) or negotiated(call.header("accept-language")))
        _known.set(known)
    return known[1]


@contextmanager
def in_language(code: str | None) -> Iterator[None]:
    """Use a language for texts outside of pages. Unknown codes mean the first of `LANGUAGES`."""
    before = _written_in.set(code if code in LANGUAGES else next(iter(LANGUAGES)))
    try:
        yield
    finally:
        _written_in.reset(before)


def chosen_language(call: Call) -> str:
    """Return the language chosen in the settings, or an empty string for the browser's."""
    chosen = cookies.read(call, COOKIE)
    return chosen if chosen is not None and chosen in LANGUAGES else ""


def theme() -> str:
    """Return the theme chosen in the settings, or an empty string for the system's."""
    call = current()
    chosen = cookies.read(call, THEME_COOKIE) if call is not None else None
    return chosen if chosen is not None and chosen in THEMES else ""


@lru_cache(maxsize=256)
def negotiated(accepted: str | None) -> str:
    """Return the language of `LANGUAGES` with the highest weight in the header (RFC 9110, 12.5.4), or the first."""
    best, best_weight = next(iter(LANGUAGES)), 0.0
    for tag, weight in weighted(accepted):
        code = tag.partition("-")[0]
        if code in LANGUAGES and weight > best_weight:
            best, best_weight = code, weight
    return best


def text(message: str) -> str:
    """Mark a message for the catalogs and return it unchanged, for a later call of `gettext`."""
    return message


def gettext(message: str, /, **values: object) -> str:
    """Translate the message into the reader's language, and insert the values."""
    found = translations().gettext(message)
    return found % values if values else found


def ngettext(singular: str, plural: str, number: int, /) -> str:
    """Translate the message for a number, and insert it as `num`."""
    return translations().ngettext(singular, plural, number) % {"num": number}


def pgettext(context: str, message: str) -> str:
    """Translate a message whose English text has several meanings."""
    return translations().pgettext(context, message)


def translations() -> gnu.NullTranslations:
    return _translations(language())


@cache
def _translations(code: str) -> gnu.NullTranslations:
    """Load a catalog. Raises `FileNotFoundError` if the package was installed without its `.mo` files."""
    return gnu.translation("workhook", str(files("workhook.web").joinpath("locales")), languages=[code])
