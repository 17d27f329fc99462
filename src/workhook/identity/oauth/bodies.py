"""What programs send to the endpoints of OAuth, and how they want the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

import msgspec

from workhook.core import json
from workhook.core.errors import Malformed
from workhook.http.calls import Answer, Call
from workhook.identity.oauth.schemas import Refusal

BODY_MAX_BYTES = 64 * 1024
FIELDS_MAX = 100
INVALID_REQUEST = "invalid_request"
FORM = "application/x-www-form-urlencoded"
# RFC 6749 5.1: what holds a token is kept by nobody in between.
NOT_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}


async def read(call: Call, known: Collection[str]) -> dict[str, str] | Refusal:
    """The known fields of a form or a JSON object; empty ones count as absent, others are ignored (RFC 6749 3.2).

    Refused where a known field is there twice. Raises `Malformed` for what is neither, and for values that are no
    texts.
    """
    data = await call.body(BODY_MAX_BYTES)
    media_type = (call.header("content-type") or "").partition(";")[0].strip().lower()
    if media_type.endswith("json") or data.lstrip().startswith(b"{"):
        value = json.decode_untrusted(data) if data.strip() else {}
        if not isinstance(value, dict):
            raise Malformed("Body should be a JSON object")
        twice = json.repeated_names(data, value)
        pairs = [(name, each) for name, each in value.items() if each is not None]
    else:
        pairs = _form(data)
        twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    repeated = [name for name in known if name in twice]
    if repeated:
        return Refusal(INVALID_REQUEST, f"{', '.join(repeated)}: name each parameter once.")
    pairs = [(name, each) for name, each in pairs if name in known]
    wrong = [name for name, each in pairs if not isinstance(each, str) or "\0" in each]
    if wrong:
        raise Malformed(f"{', '.join(sorted(wrong))}: send a text without NUL")
    return {name: each for name, each in pairs if each}


def _form(data: bytes) -> list[tuple[str, str]]:
    try:
        text = data.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise Malformed("Problems parsing the form") from error


def answer(call: Call, body: msgspec.Struct, status: int = 200) -> Answer:
    """As JSON for those who ask for it, as a form for all others: that is what the original does."""
    if "json" in (call.header("accept") or "").lower():
        return Answer(body, status, NOT_KEPT)
    fields = {name: each for name, each in msgspec.structs.asdict(body).items() if each is not msgspec.UNSET}
    return Answer(urlencode(fields).encode(), status, NOT_KEPT, media_type=f"{FORM}; charset=utf-8")


def refusal(call: Call, why: Refusal, shape: type[msgspec.Struct]) -> Answer:
    """Status 200, as the original: its clients look for `error` in the body. Only a request that no client sends and
    that cannot be read for sure is 400 (RFC 6749 5.2)."""
    status = 400 if why.error == INVALID_REQUEST else 200
    where = f"{call.base_for_others}/docs#{call.operation.name}"
    told = {"error": why.error, "error_description": why.description, "error_uri": where}
    return answer(call, shape(**told, **({} if why.interval is None else {"interval": why.interval})), status)
