"""The header under which browsers save an answer as a file."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal
from urllib.parse import quote

from workhook.core.text import one_line

NAMELESS = "file"
_SPECIAL = re.compile(r'["\\%/]')


def disposition(name: str, kind: Literal["attachment", "inline"] = "attachment") -> dict[str, str]:
    """Return the Content-Disposition (RFC 6266) of a file with this name, whatever characters it has.

    Browsers read `filename*` (RFC 8187), other programs the plain name before it.
    """
    visible = one_line(name)
    ascii_only = unicodedata.normalize("NFKD", visible).encode("ascii", "ignore").decode()
    plain = one_line(_SPECIAL.sub("_", ascii_only)) or NAMELESS
    header = f'{kind}; filename="{plain}"'
    if plain != name:
        header += f"; filename*=UTF-8''{quote(visible, safe='')}"
    return {"Content-Disposition": header}
