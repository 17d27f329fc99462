"""Names of files as strangers write them, and what is made of them. Pure."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote, unquote_to_bytes

NAME_MAX_CHARS = 255
UNKNOWN_TYPE = "application/octet-stream"

_NAMELESS = "file"
_SUFFIX_MAX_CHARS = 20

# Characters that turn the direction of what follows make `exe.jpg` of `gpj.exe`; separators of lines break lists.
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNPRINTABLE = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")

# One that does not end reaches to the end, so that nothing is read twice.
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*+(?:"|\\?\Z)', re.DOTALL)
_EXTENDED = re.compile(r";\s*filename\*\s*=\s*(utf-8|iso-8859-1)'[A-Za-z0-9-]*'([^;\s]*)", re.IGNORECASE)

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105  # RFC 9110, 5.6.2
_BLANKS = r"[ \t]*"  # any other white space breaks the header that it goes out in
_MEDIA_TYPE = re.compile(rf'{_TOKEN}/{_TOKEN}({_BLANKS};{_BLANKS}{_TOKEN}=({_TOKEN}|"[ !#-\[\]-~]*"))*')
_MEDIA_TYPE_MAX_CHARS = 127


def extended_name(disposition: str) -> str | None:
    """The `filename*` (RFC 8187) of a Content-Disposition: browsers send none in forms, but libraries do."""
    found = _EXTENDED.search(_QUOTED.sub('""', disposition))
    if found is None:
        return None
    try:
        return unquote_to_bytes(found[2]).decode(found[1])
    except UnicodeDecodeError:
        return None


def clean_name(raw: str) -> str:
    """The last component of what may be a path of any system, without what cannot be seen. Never empty, `.` or `..`."""
    last = re.split(r"[/\\]", raw)[-1]
    kept = "".join(each for each in last if each not in _TURNS and unicodedata.category(each) not in _UNPRINTABLE)
    name = kept.strip()
    return _shortened(name) if name.strip(". ") else _NAMELESS


def _shortened(name: str) -> str:
    """Its suffix says what it is, so that stays."""
    if len(name) <= NAME_MAX_CHARS:
        return name
    stem, dot, suffix = name.rpartition(".")
    if not stem or len(suffix) > _SUFFIX_MAX_CHARS:
        return name[:NAME_MAX_CHARS].rstrip()
    return stem[: NAME_MAX_CHARS - len(suffix) - 1] + dot + suffix


def clean_media_type(raw: str | None) -> str:
    """`raw` if it is a media type (RFC 9110, 8.3.1), else the one that says nothing."""
    text = (raw or "").strip()
    if len(text) <= _MEDIA_TYPE_MAX_CHARS and _MEDIA_TYPE.fullmatch(text):
        return text
    return UNKNOWN_TYPE


def attachment(name: str) -> str:
    """The Content-Disposition (RFC 6266) under which browsers save a file, and never show it."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r'["\\%/]', "_", plain).strip() or _NAMELESS
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
