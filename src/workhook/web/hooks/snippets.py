"""Code that checks the signature of a delivery, in six languages. The texts are in `verify/`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

LANGUAGES: Mapping[str, str] = {
    "python": "Python",
    "javascript": "JavaScript",
    "go": "Go",
    "ruby": "Ruby",
    "php": "PHP",
    "java": "Java",
}
SECRET_PLACE = "YOUR_WEBHOOK_SECRET"  # noqa: S105  # where the reader puts it
_PREFIX = "@PREFIX@"


class Snippet(msgspec.Struct, frozen=True):
    """The code of one language. The secret of the webhook belongs between `before` and `after`."""

    name: str
    title: str
    before: str
    after: str
    place: str = SECRET_PLACE

    def code(self, secret: str = SECRET_PLACE) -> str:
        return self.before + secret + self.after


@cache
def all_for(header_prefix: str) -> tuple[Snippet, ...]:
    """One for each language. `header_prefix`: how the names of the server's own headers begin."""
    return tuple(_snippet(name, title, header_prefix) for name, title in LANGUAGES.items())


def _snippet(name: str, title: str, header_prefix: str) -> Snippet:
    text = files(__package__).joinpath("verify", f"{name}.txt").read_text("utf-8").replace(_PREFIX, header_prefix)
    before, _, after = text.partition(SECRET_PLACE)
    return Snippet(name, title, before, after)
