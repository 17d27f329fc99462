"""Which addresses lead to the same mailbox, for counting what is sent there."""

from __future__ import annotations

import hashlib
import unicodedata


def mailbox_of(address: str) -> str:
    """A digest that tells mailboxes apart. Many providers deliver `a.da+news@` and `Ada@` to the same one. A name in
    quotes or with backslashes, and a domain in other characters, are other spellings of the same address."""
    name, _, domain = unicodedata.normalize("NFKC", address.strip()).casefold().rpartition("@")
    unquoted = name.replace('"', "").replace("\\", "")
    plain = unquoted.partition("+")[0].replace(".", "")
    return hashlib.sha256(f"{plain or unquoted}@{_host_of(domain)}".encode()).hexdigest()


def _host_of(domain: str) -> str:
    try:
        return domain.rstrip(".").encode("idna").decode()  # without what cannot be seen, too
    except UnicodeError:
        return domain.rstrip(".")
