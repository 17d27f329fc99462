"""Links to the contents of files. They work in a browser without a token, for one to two days.

    https://host/api/v1/files/fil_…/content?expires=1795305600&signature=…

Anyone who can see a file gets its link, and anyone with the link can read the file until the link expires. The
signature is an HMAC-SHA256 of the file's ID and the expiry time, with a key derived from those of the vault.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workhook.core.clock import DAY_MS, now_ms
from workhook.core.vault import Vault, signature_of
from workhook.http.calls import Call
from workhook.http.operations import WORK_API

STEP_MS = DAY_MS
"""Links expire at multiples of this interval, so that a record and its ETag do not change within it."""
AT_LEAST_MS = DAY_MS
"""The minimum validity of a link; the maximum is one interval longer."""

_PURPOSE = "file links"


@dataclass(frozen=True)
class Links:
    """Creates the links of one response or event. `base` includes the prefix."""

    base: str
    key: bytes = field(repr=False)
    expires_s: int  # since the epoch

    def __call__(self, file_id: str) -> str:
        signature = signature_of(self.key, _signed(file_id, self.expires_s))
        return f"{self.base}/files/{file_id}/content?expires={self.expires_s}&signature={signature}"

    def earlier(self) -> Links:
        """Return the links of the previous interval, because a record counts as unchanged if only its links differ."""
        return replace(self, expires_s=self.expires_s - STEP_MS // 1000)


def links_of(call: Call) -> Links:
    base = call.public_base.removesuffix(call.prefix) + WORK_API.prefixes[0]
    expires_ms = -(-(now_ms() + AT_LEAST_MS) // STEP_MS) * STEP_MS  # the first multiple that is far enough away
    return Links(base, call.services.vault.derive(_PURPOSE)[0], expires_ms // 1000)


def is_signed(vault: Vault, file_id: str, expires: str, signature: str) -> bool:
    """Return whether the signature is valid, in constant time, and the link has not expired."""
    if not (expires.isascii() and expires.isdigit() and len(expires) <= 12):
        return False
    expires_s = int(expires)
    fits = vault.is_signed(_PURPOSE, _signed(file_id, expires_s), signature)
    return fits and expires == str(expires_s) and expires_s * 1000 > now_ms()


def _signed(file_id: str, expires_s: int) -> str:
    return f"{file_id}\n{expires_s}"
