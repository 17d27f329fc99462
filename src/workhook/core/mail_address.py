"""The form that an e-mail address must have, wherever one is given: `name@host`, without quotes and comments.

The rule is narrower than RFC 5322 on purpose. Libraries and mail servers read an address such as `a:b@host`,
`"a@b"@host` or `=?utf-8?q?a?=@host` in different ways, and a message could reach another mailbox than the one that was
confirmed or counted.
"""

from __future__ import annotations

import re
import unicodedata

LENGTH_MAX = 254  # characters (RFC 5321, 4.5.3.1)

_NAME = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.\u00a1-\U0010ffff-]{1,}"
_HOST = r"[A-Za-z0-9_\u00a1-\U0010ffff](?:[A-Za-z0-9._\u00a1-\U0010ffff-]*[A-Za-z0-9_\u00a1-\U0010ffff])?"
_ADDRESS = re.compile(f"{_NAME}@{_HOST}")


def is_address(text: str) -> bool:
    """Return whether the text is an e-mail address, also after the normalization that mail servers apply (NFKC)."""
    if len(text) > LENGTH_MAX or not text.isprintable() or "=?" in text:
        return False
    return all(_ADDRESS.fullmatch(each) for each in {text, unicodedata.normalize("NFKC", text)})
